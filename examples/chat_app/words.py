"""The words of a text that carry meaning, and its sentences: one reading of text for every part of the app."""

import re
from itertools import pairwise
from keyword import iskeyword

# Words a question or an answer is made with, whatever it is about.
_STOPWORDS = """
    a about above after again all also am an and any anything are as at be because been before being below
    between both but by can cannot could detail details did do documentation documented does doing don down
    during each elaborate else ever exactly explain few for from further get give go had happen happens has
    have having he her here hers him his how i if in into is it its itself just know let like look make may me
    mean means might more most much must my need no nor not of off often on once one only or other our out
    over own please same say says she should so some such take tell than that the their them then there these
    they thing things this those through to too under until up use used uses using very want was way we were
    what when where whether which while who why will with work works would you your
"""
STOPWORDS = frozenset(_STOPWORDS.split())

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+(?:\.\d+)*")
# A quoted word is meant as code, and so is the "with" of "the with statement".
_QUOTED = re.compile(r'"([A-Za-z_][\w.]*)(?:\(\))?"')
_NAMED = re.compile(r"\b([a-z]+)\s+(?:statement|clause|keyword|loop|operator|block)s?\b")
_SENTENCE_END = re.compile(r'(?<=[.!?])["”)]?\s+(?=[A-Z"“(*])')
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|resp)|\b[A-Z])\.$")
_SUFFIXES = ("ations", "ation", "ingly", "ings", "ing", "edly", "ied", "ies", "ers", "ed", "er", "es", "s", "ly")
_SHORTEST_STEM = 4


def words(text: str) -> tuple[str, ...]:
    """Return the distinct content words of ``text``, lower case, in order of appearance.

    Stop words are left out, except where the text means them as code.

    >>> words('What does the with statement do?')
    ('with', 'statement')
    """
    return tuple(dict.fromkeys(word for word in _marked(text) if word))


def pairs(text: str) -> tuple[str, ...]:
    """Return the content words of ``text`` that stand side by side, two by two.

    >>> pairs('What does the with statement do?')
    ('with statement',)
    """
    marked = _marked(text)
    return tuple(dict.fromkeys(f"{left} {right}" for left, right in pairwise(marked) if left and right))


def _marked(text: str) -> list[str]:
    """Return every word of ``text`` in lower case, with "" in place of those that carry no meaning."""
    code = {part for name in _QUOTED.findall(text) for part in name.lower().split(".")}
    code.update(name for name in _NAMED.findall(text) if iskeyword(name))
    found = (word.lower() for word in _WORD.findall(text))
    return [word if word in code or (word not in STOPWORDS and len(word) > 1) else "" for word in found]


def stem(word: str) -> str:
    """Return ``word`` without its commonest English endings, so "raised" and "raises" meet.

    >>> stem("raised"), stem("raises"), stem("__enter__")
    ('rais', 'rais', '__enter__')
    """
    if word.startswith("_"):
        return word
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            return word[: -len(suffix)]
    return word[:-1] if word.endswith("e") and len(word) > _SHORTEST_STEM else word


def stems(text: str) -> frozenset[str]:
    """Return the stems of the content words of ``text``."""
    return frozenset(stem(word) for word in words(text))


def sentences(paragraph: str) -> tuple[str, ...]:
    """Return the sentences of one unwrapped paragraph, in order; "e.g." and initials end none."""
    found: list[str] = []
    start = 0
    for end in _SENTENCE_END.finditer(paragraph):
        sentence = paragraph[start : end.end()].strip()
        if not _ABBREVIATION.search(sentence):
            found.append(sentence)
            start = end.end()
    found.append(paragraph[start:].strip())
    return tuple(sentence for sentence in found if sentence)
