"""Text as tokens, numbers and names that can be compared between an answer and its documents.

Lower case, a light English stem, and pairs of characters for Chinese, Japanese and Korean, which write no spaces.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import pairwise

from monitor.text.languages import FUNCTION_WORDS

_CJK = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_TOKEN = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_IS_CJK = re.compile(rf"[{_CJK}]")
_NUMBER = re.compile(r"\d++(?:[.,]\d++)*+")
_THOUSANDS = re.compile(r"\d{1,3}(?:([.,])\d{3})(?:\1\d{3})*")
_ENUMERATOR = re.compile(r"^[ \t]*(?:[-*+•#]+[ \t]+)?\d{1,2}[.)](?=\s)", re.MULTILINE)
_NAME = re.compile(r"(?<![\w'’])[^\W\d_]++(?:['’-][^\W\d_]++)*+")
_ENGLISH = re.compile(r"[a-z]+")
_STEM_FROM = 4
_COUNTED = {
    word: str(number)
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen".split()
    )
}
_SUFFIXES = ("ations", "ation", "ingly", "ings", "ing", "edly", "ied", "ies", "ers", "er", "ed", "es", "s", "ly")
_SHORTEST_STEM = 3
_MOST_CAPITALISED = 0.5


def tokens(text: str) -> tuple[str, ...]:
    """Return all words of `text`, stemmed, in order; Chinese, Japanese and Korean runs as overlapping pairs.

    >>> tokens("Refunds are paid.")
    ('refund', 'are', 'paid')
    >>> tokens("返金は")
    ('返金', '金は')
    """
    stems: list[str] = []
    for token in _TOKEN.findall(text.lower()):
        if _IS_CJK.match(token):
            stems += [token[i : i + 2] for i in range(len(token) - 1)] if len(token) > 1 else [token]
        else:
            stems.append(stem(token))
    return tuple(stems)


def spelled(text: str, wanted: Collection[str]) -> tuple[str, ...]:
    """Return the words of `text` that `tokens` would make one of `wanted`, as they are written, each once, in order.

    >>> spelled("Refunds were paid. 返金は無料", {"refund", "paid", "返金", "金は"})
    ('Refunds', 'paid', '返金は')
    """
    spellings: list[str] = []
    for token in _TOKEN.findall(text):
        if not _IS_CJK.match(token):
            if stem(token.lower()) in wanted:
                spellings.append(token)
            continue
        # Of a run of pairs only what they cover together reads as a word.
        covered = [False] * len(token)
        for place in range(max(len(token) - 1, 1)):
            if token[place : place + 2] in wanted:
                covered[place : place + 2] = [True] * len(token[place : place + 2])
        spellings += "".join(c if is_wanted else " " for c, is_wanted in zip(token, covered, strict=True)).split()
    return tuple(dict.fromkeys(spellings))


def stopwords(language: str) -> frozenset[str]:
    """Return the function words of `language` as `tokens` spells them; empty for a language without a list."""
    return _STOPWORDS.get(language, frozenset())


def pairs(words: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return neighbouring words two by two."""
    return tuple(pairwise(words))


def numbers(text: str) -> tuple[str, ...]:
    """Return the numbers of `text` in one spelling; numbers of list items are left out.

    >>> numbers("1. It costs $1,250.50 or 1.250,50 euro, up from 3.50")
    ('1250.5', '1250.5', '3.5')
    """
    return tuple(_plain(number) for number in _NUMBER.findall(_ENUMERATOR.sub("", text)))


def counted(text: str) -> frozenset[str]:
    """Return the numbers up to fifteen that `text` writes as English words.

    >>> sorted(counted("five of twelve"))
    ['12', '5']
    """
    return frozenset(_COUNTED[word] for word in _ENGLISH.findall(text.lower()) if word in _COUNTED)


def names(sentence: str) -> tuple[str, ...]:
    """Return the words of `sentence` that are capitalised though they do not begin it, as `tokens` spells them.

    Headings, whose words mostly are, have none.

    >>> names("Refunds are paid by Klarna.")
    ('klarna',)
    """
    words = _NAME.findall(sentence)
    capitalised = [word for word in words[1:] if len(word) > 1 and word[0].isupper() and word[1:].islower()]
    if len(capitalised) > _MOST_CAPITALISED * len(words):
        return ()
    return tuple(token for word in capitalised for token in tokens(word))


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Return `word` without its commonest English endings.

    >>> stem("raised"), stem("raises"), stem("2024")
    ('rais', 'rais', '2024')
    """
    if len(word) < _STEM_FROM or not word.isascii() or not word.isalpha():
        return unicodedata.normalize("NFKC", word)
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            return word[: -len(suffix)]
    return word.removesuffix("e")


def _plain(number: str) -> str:
    number = "".join(str(unicodedata.digit(c, -1)) if c.isdigit() else c for c in number)
    whole = _THOUSANDS.match(number)
    if whole and (whole.end() == len(number) or number[whole.end()] != whole[1]):
        number = whole[0].replace(whole[1], "") + number[whole.end() :]
    number = number.replace(",", ".")
    if number.count(".") == 1:
        number = number.rstrip("0").rstrip(".")
    return number


_STOPWORDS = {
    language: frozenset(token for word in known for token in tokens(word)) for language, known in FUNCTION_WORDS.items()
}
