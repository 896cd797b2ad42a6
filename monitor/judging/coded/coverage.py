"""How much of an answer its documents cover, by words alone: five features of a turn, and what is missing where.

Question words count as known, since an answer may repeat them. Marks that cite, such as `[kb-7]` or `[2, 3]`, are no
words of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.model.judgements import Reason
from monitor.model.turns import Turn
from monitor.text import words
from monitor.text.claims import claims
from monitor.text.languages import differ, latin_language
from monitor.text.sentences import split

_MARK = re.compile(r"\[\^?\d{1,3}(?:\s*[,;–-]\s*\^?\d{1,3})*\]|【[^】]{1,80}】")
_BRACKETS = re.compile(r"\[([^\[\]\n]{1,200})\]|\(([^()\n]{1,200})\)")
_LISTED = re.compile(r"[,;]|\sand\s")
_NAMED = re.compile(r"(?:doc(?:ument)?|source|passage|ref(?:erence)?|kb|id)[\s#:_-]*\d+", re.IGNORECASE)
# An id-like token in square brackets that is no known id is an invented reference, not an unknown word.
_ID_LIKE = re.compile(r"(?=[^\s]*[\d_:/.#-])[\w:/.#-]+")
MOST_SENTENCES, LONGEST_ANSWER, LONGEST_CONTEXT = 2000, 2**16, 2**20
"""Sentences and characters of an answer, and characters of documents, that are looked at: list items cost 7 s a MB."""
# Words that introduce what the documents say, or agree and disagree without stating anything.
_FRAMING = frozenset(
    token
    for word in """
    according based context document documentation documents information mentioned passage passages provided source
    sources states text yes no okay sure ja nee nein oui non sí si
    """.split()
    for token in words.tokens(word)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One sentence that claims something, measured against the documents and the question."""

    index: int
    """1 for the answer's first sentence, whether that claims anything or not."""
    text: str
    known: float
    """Share of its distinct content words found in the documents or the question."""
    documented: float
    """The same, found in the documents alone."""
    paired: float | None
    """Share of its neighbouring words that neighbour each other in the documents; None for a single word."""
    missing: tuple[str, ...]
    """Content words found nowhere, as `words.tokens` spells them, in order."""
    numbers: tuple[str, ...]
    """Numbers found nowhere."""
    names: tuple[str, ...]
    """Capitalised words inside the sentence found nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """An answer's sentences against its documents, in the answer's order; never empty."""

    sentences: tuple[Sentence, ...]

    def features(self) -> tuple[float, float, float, float, float]:
        """Return covq_mean, tp_min, bp_mean, num_bad_any, ent_bad_any: each in [0, 1]; the last two 1 for bad."""
        covq = _mean([s.known for s in self.sentences])
        pairs = [s.paired for s in self.sentences if s.paired is not None]
        return (
            covq,
            min(s.documented for s in self.sentences),
            _mean(pairs) if pairs else covq,
            float(any(s.numbers for s in self.sentences)),
            float(any(s.names for s in self.sentences)),
        )

    def worst(self) -> Sentence:
        """Return the first of the sentences that the documents cover least."""
        return min(self.sentences, key=lambda s: (s.documented, s.known))


def cover(turn: Turn) -> Coverage | Reason:
    """Return how the turn's documents cover its answer, or why words cannot tell."""
    if not turn.response or not turn.response.strip():
        return Reason.NO_RESPONSE
    documents = [f"{c.title or ''}\n{c.content}" for c in turn.citations or () if c.is_evidence and c.content]
    if not documents:
        return Reason.NO_CONTEXT
    names = [name for c in turn.citations or () for name in (c.id, c.title, c.source) if name]
    answer = unmarked(turn.response[:LONGEST_ANSWER], names)
    sentences = [(index, text) for index, text in enumerate(split(answer)[:MOST_SENTENCES], start=1) if claims(text)]
    if not sentences:
        return Reason.NO_CLAIMS
    context = "\n".join(documents)[:LONGEST_CONTEXT]
    if differ(answer, context):
        return Reason.NOT_SUPPORTED
    known = _Known(context, turn.query or "", words.stopwords(latin_language(answer) or "en"))
    measured = tuple(sentence for index, text in sentences if (sentence := known.measure(index, text)))
    return Coverage(sentences=measured) if measured else Reason.NOT_SUPPORTED


def unmarked(answer: str, names: Sequence[str]) -> str:
    """Return `answer` without the marks that cite documents, which `names` lists by id, title or source.

    >>> unmarked("Within 14 days [kb-7]. See [2, 3], x[i] (doc 4).", ["kb-7"])
    'Within 14 days . See , x[i] .'
    """
    known = {name.strip().lower() for name in names}

    def strip(match: re.Match[str]) -> str:
        square = match[1] is not None
        parts = [part.strip() for part in _LISTED.split((match[1] or match[2]).lower())]
        cites = all(
            part in known or _NAMED.fullmatch(part) or (square and _ID_LIKE.fullmatch(part)) for part in parts if part
        )
        return "" if cites else match[0]

    return _BRACKETS.sub(strip, _MARK.sub("", answer))


class _Known:
    """The words, word pairs and numbers that documents and question hold."""

    def __init__(self, context: str, query: str, stopwords: frozenset[str]) -> None:
        tokens = words.tokens(context)
        self._documents = frozenset(tokens)
        self._all = self._documents.union(words.tokens(query))
        self._pairs = frozenset(words.pairs(tokens))
        text = f"{context}\n{query}"
        self._numbers = words.counted(text).union(words.numbers(text))
        self._stopwords = stopwords | _FRAMING

    def measure(self, index: int, text: str) -> Sentence | None:
        """Return the sentence measured, or None when it has no content words."""
        tokens = words.tokens(text)
        content = tuple(dict.fromkeys(token for token in tokens if token not in self._stopwords))
        if not content:
            return None
        pairs = words.pairs(tokens)
        return Sentence(
            index=index,
            text=text,
            known=sum(token in self._all for token in content) / len(content),
            documented=sum(token in self._documents for token in content) / len(content),
            paired=sum(pair in self._pairs for pair in pairs) / len(pairs) if pairs else None,
            missing=tuple(token for token in content if token not in self._all),
            numbers=tuple(number for number in words.numbers(text) if number not in self._numbers),
            names=tuple(name for name in words.names(text) if name not in self._all),
        )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
