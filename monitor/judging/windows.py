"""Documents as pieces of whole sentences, and which of them are nearest to a text: what a judge is shown of long ones.

Nearness is how many of the text's content words a piece holds. It finds passages, it does not judge them; where
no word is shared, as between languages, the pieces keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from monitor.judging.quoting import CUT, fit, tokens
from monitor.judging.sentences import split
from monitor.judging.words import stopwords
from monitor.judging.words import tokens as words

_STOPWORDS = stopwords("en")
_PIECE_TOKENS = 150
_SMALLEST_PIECE_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some neighbouring sentences of a document."""

    document: int
    """Place of the document, 0 for the first."""
    rank: int
    """Place in the document, 0 for its head."""
    text: str


def pieces(documents: Sequence[str], budget: int) -> tuple[Piece, ...]:
    """Return the documents cut into pieces of up to about `budget` tokens, in order; a longer sentence is cut.

    >>> [piece.text for piece in pieces(["One fact. Another fact. A third."], 5)]
    ['One fact.', 'Another fact.', 'A third.']
    """
    found: list[Piece] = []
    for place, document in enumerate(documents):
        texts: list[str] = []
        held = ""
        for sentence in split(document):
            (cut,) = fit((sentence,), budget)
            if held and tokens(f"{held} {cut}") > budget:
                texts.append(held)
                held = ""
            held = f"{held} {cut}" if held else cut
        texts += [held] if held else []
        found += [Piece(document=place, rank=rank, text=text) for rank, text in enumerate(texts)]
    return tuple(found)


def nearest(found: Sequence[Piece], text: str, count: int) -> tuple[Piece, ...]:
    """Return the `count` pieces that hold most of the words of `text`, the nearest first; of equals, heads first."""
    wanted = frozenset(words(text)) - _STOPWORDS
    held = [len(wanted & frozenset(words(piece.text))) for piece in found]
    ordered = sorted(range(len(found)), key=lambda place: (-held[place], found[place].rank, found[place].document))
    return tuple(found[place] for place in ordered[:count])


@lru_cache(maxsize=64)
def shorten(documents: tuple[str, ...], texts: tuple[str, ...], budget: int) -> tuple[str, ...]:
    """Return the documents cut to about `budget` tokens together: the pieces nearest to each of `texts` are kept.

    Texts take turns, so that none is left without its passage. Documents that fit are returned as they are; in the
    others `[…]` marks what was left out. Without any text each keeps its head.
    """
    if sum(map(tokens, documents)) <= budget:
        return documents
    # Small enough for two of every document.
    found = pieces(documents, max(min(_PIECE_TOKENS, budget // (2 * len(documents))), _SMALLEST_PIECE_TOKENS))
    ranked = [nearest(found, text, len(found)) for text in texts]
    chosen: set[Piece] = set()
    left = budget - len(documents) * tokens(CUT)
    for piece in chain.from_iterable(zip(*ranked, strict=True)):
        cost = tokens(piece.text)
        if cost <= left and piece not in chosen:
            chosen.add(piece)
            left -= cost
    if not chosen:
        return fit(documents, budget)
    return tuple(_kept(found, place, chosen) for place in range(len(documents)))


def _kept(found: Sequence[Piece], place: int, chosen: set[Piece]) -> str:
    parts: list[str] = []
    gap = False
    for piece in found:
        if piece.document != place:
            continue
        if piece not in chosen:
            gap = True
            continue
        parts += ([CUT.strip()] if gap else []) + [piece.text]
        gap = False
    return " ".join(parts + ([CUT.strip()] if gap else []))
