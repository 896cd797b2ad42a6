"""Documents as pieces of whole sentences, and which of them are nearest to a text: what a judge is shown of long ones.

Nearness is how many of the text's content words a piece holds. It finds passages, it does not judge them; where
no word is shared, as between languages, the pieces keep their order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from monitor.judging.prompt.quoting import CUT, fit, tokens
from monitor.text.sentences import split
from monitor.text.words import stopwords
from monitor.text.words import tokens as words

_STOPWORDS = stopwords("en")
_PIECE_TOKENS = 150
_SMALLEST_PIECE_TOKENS = 16
_BYTES_PER_TOKEN = 4
_LEAST_USE = 4
"""Tokens: with less room left no piece is looked for any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some neighbouring sentences of a document."""

    document: int
    """Place of the document, 0 for the first."""
    rank: int
    """Place in the document, 0 for its head."""
    text: str


def pieces(documents: Sequence[str], budget: int) -> tuple[Piece, ...]:
    """Return the documents cut into pieces of up to about `budget` tokens, in order; a longer sentence is several.

    >>> [piece.text for piece in pieces(["One fact. Another fact. A third."], 5)]
    ['One fact.', 'Another fact.', 'A third.']
    """
    all_pieces: list[Piece] = []
    for place, document in enumerate(documents):
        texts: list[str] = []
        joined = ""
        for cut in (part for sentence in split(document) for part in _parts(sentence, budget)):
            if joined and tokens(f"{joined} {cut}") > budget:
                texts.append(joined)
                joined = ""
            joined = f"{joined} {cut}" if joined else cut
        texts += [joined] if joined else []
        all_pieces += [Piece(document=place, rank=rank, text=text) for rank, text in enumerate(texts)]
    return tuple(all_pieces)


def _parts(sentence: str, budget: int) -> Iterator[str]:
    """Cut a sentence that is longer than `budget` at spaces: a table or JSON on one line has its facts anywhere."""
    start = 0
    while start < len(sentence):
        window = sentence[start : start + budget * _BYTES_PER_TOKEN + 1]
        (head,) = fit((window,), budget)
        part = head.removesuffix(CUT) or window[:1]
        yield part.strip()
        start += len(part)


class Nearness:
    """Which pieces are nearest to a text: those that hold most of its words; of equals, heads first."""

    def __init__(self, candidates: Sequence[Piece]) -> None:
        """Read the pieces once, however many texts are then looked for."""
        self._pieces = candidates
        self._order = sorted(
            range(len(candidates)), key=lambda place: (candidates[place].rank, candidates[place].document)
        )
        self._holders: dict[str, list[int]] = defaultdict(list)
        for place in self._order:
            for word in frozenset(words(candidates[place].text)):
                self._holders[word].append(place)

    def __call__(self, text: str) -> Iterator[Piece]:
        """Yield all pieces, the nearest first."""
        shared_words: Counter[int] = Counter()
        for word in frozenset(words(text)) - _STOPWORDS:
            shared_words.update(self._holders.get(word, ()))
        by_count: dict[int, list[int]] = defaultdict(list)
        for place in self._order:
            by_count[shared_words[place]].append(place)
        for count in sorted(by_count, reverse=True):
            yield from (self._pieces[place] for place in by_count[count])


@lru_cache(maxsize=64)
def shorten(documents: tuple[str, ...], texts: tuple[str, ...], budget: int) -> tuple[str, ...]:
    """Return the documents cut to about `budget` tokens together: the pieces nearest to each of `texts` are kept.

    Texts take turns, so that none is left without its passage. Documents that fit are returned as they are; in the
    others `[…]` marks what was left out. Without any text each keeps its head.
    """
    if sum(map(tokens, documents)) <= budget:
        return documents
    # Small enough for two of every document.
    candidates = pieces(documents, max(min(_PIECE_TOKENS, budget // (2 * len(documents))), _SMALLEST_PIECE_TOKENS))
    nearness = Nearness(candidates)
    chosen: set[tuple[int, int]] = set()
    left = budget - len(documents) * tokens(CUT)
    for piece in chain.from_iterable(zip(*map(nearness, texts), strict=True)):
        cost = tokens(piece.text)
        if cost <= left and (place := (piece.document, piece.rank)) not in chosen:
            chosen.add(place)
            left -= cost
        if left < _LEAST_USE:
            break
    if not chosen:
        return fit(documents, budget)
    shown: list[list[Piece]] = [[] for _ in documents]
    for piece in candidates:
        shown[piece.document].append(piece)
    return tuple(_kept(of_document, chosen) for of_document in shown)


def _kept(of_document: Sequence[Piece], chosen: set[tuple[int, int]]) -> str:
    parts: list[str] = []
    gap = False
    for piece in of_document:
        if (piece.document, piece.rank) not in chosen:
            gap = True
            continue
        parts += ([CUT.strip()] if gap else []) + [piece.text]
        gap = False
    return " ".join(parts + ([CUT.strip()] if gap else []))
