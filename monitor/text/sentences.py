"""An answer cut into its sentences: what a judge numbers and a lexical score is taken over.

Cutting is done in code because a judge that chooses its own claims leaves out those it cannot decide. Nothing that
holds a letter or a digit is lost: joined, the sentences hold the same words in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

_FENCE = re.compile(r"(^[ \t]*(?:```|~~~).*?(?:^[ \t]*(?:```|~~~)[ \t]*$|\Z))", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"[ \t]*(?:[-*+•‣·]|\d{1,3}[.)]|[A-Za-z][.)]|#{1,6}|>|\|)[ \t]")
_CLOSERS = "\"'”’»)\\]}」』）】〉》*_"
# Full-width and other scripts' stops end a sentence by themselves; ASCII stops need a space behind them.
# Only a run's first mark begins a match and nothing is given back: a line of dots would take quadratic time.
_STOP = re.compile(rf"[。！？｡．।॥؟۔։።။។](?:[{_CLOSERS}])*|(?<![.!?…])[.!?…]++(?:[{_CLOSERS}])*+(?=\s)")
_INITIAL = re.compile(r"(?:^|[\s(\"'“.])[^\W\d_]\.$")
_ORDINAL = re.compile(r"(?:^|\s)\d{1,3}\.$")
_LAST_WORD = re.compile(r"(?<![^\s(\"'“])([^\s(\"'“]+)\.$")
_UNSTOPPED = re.compile("[\u0e00-\u0eff]")
_BETWEEN_CLAUSES = re.compile("(?<=[\u0e00-\u0eff])[ \t]+(?=[\u0e00-\u0eff])")
_LONG_CLAUSES, _SHORTEST_CLAUSES = 120, 50
# Chat is often written without capitals; a longer word in front of the stop is seldom an abbreviation.
_SHORTEST_LAST_WORD = 4
_SEEN = re.compile(r"\S")
_LOOKED_BACK = 60
_ABBREVIATIONS = frozenset(
    """
    a.k.a approx assn ave bijv blvd bros bzw ca capt cf ch cie co corp dept dhr dipl dr drs d.h d.w.z e.g ed eds et
    excl ext ff gov hon i.e inc incl inkl ir jr lt ltd m.a.w messrs misc mgr mr mrs ms mt mw mwe n.chr o.a p.ej ph.d
    pres prof resp rev s.a sen sgt sr st sta ste t.b.v t/m tel u.a u.s u.k v.chr v.d vgl viz vs z.b zgn
    jan feb apr jun jul aug sep sept oct nov dec
    """.split()
)
# These end sentences too, unless a number follows.
_BEFORE_NUMBERS = frozenset("art cca chap eq fig figs max min no nos nr nrs op p par pp rd sec tab vol".split())


def split(text: str, *, limit: int | None = None) -> tuple[str, ...]:
    r"""Return the sentences of `text`, stripped, in order; pieces without letters or digits are left out.

    List items, headings, table rows and blocks of code stand for themselves. With `limit`, neighbours are joined until
    at most that many are left.

    >>> split("Dr. No pays 3.5 euro. 返金は14日以内です。はい！\n- e.g. by card")
    ('Dr. No pays 3.5 euro.', '返金は14日以内です。', 'はい！', '- e.g. by card')
    """
    sentences = tuple(piece for piece in _pieces(text) if any(map(str.isalnum, piece)))
    if limit is None or len(sentences) <= limit:
        return sentences
    edges = [round(i * len(sentences) / limit) for i in range(limit + 1)]
    return tuple(" ".join(sentences[start:end]) for start, end in pairwise(edges))


def _pieces(text: str) -> Iterator[str]:
    for number, part in enumerate(_FENCE.split(text)):
        if number % 2:
            yield part.strip()
        else:
            for line in _logical_lines(part):
                for sentence in _sentences(line):
                    yield from _clauses(sentence)


def _clauses(sentence: str) -> Iterator[str]:
    """Cut what Thai and Lao write without stops at its spaces, which end clauses there, but not around numbers."""
    if len(sentence) < _LONG_CLAUSES or 2 * len(_UNSTOPPED.findall(sentence)) < len(sentence):
        yield sentence
        return
    joined = ""
    for clause in _BETWEEN_CLAUSES.split(sentence):
        joined = f"{joined} {clause}" if joined else clause
        if len(joined) >= _SHORTEST_CLAUSES:
            yield joined
            joined = ""
    yield joined


def _logical_lines(text: str) -> Iterator[str]:
    """Join lines that were only wrapped: the next one goes on in lower case."""
    joined = ""
    for line in text.splitlines():
        if joined and line[:1].islower() and joined[-1] not in ".!?:。！？" and joined[0] not in "#|":
            joined = f"{joined} {line.strip()}"
            continue
        yield joined
        joined = line.strip()
    yield joined


def _sentences(line: str) -> Iterator[str]:
    item = _ITEM.match(line)
    start = 0
    for stop in _STOP.finditer(line, item.end() if item else 0):
        if stop[0][0] in ".!?…" and not _ends(line, start, stop):
            continue
        yield line[start : stop.end()].strip()
        start = stop.end()
    yield line[start:].strip()


def _ends(line: str, start: int, stop: re.Match[str]) -> bool:
    if stop[0][0] in "!?":
        return True
    next_ = _SEEN.search(line, stop.end())
    following = next_[0] if next_ else ""
    # A line of nothing but initials is one sentence, however long: only its end is looked at each time.
    before = line[max(start, stop.start() - _LOOKED_BACK) : stop.start() + 1]
    if before[-2:-1].isspace():
        return True  # tokenised text writes " . "
    if stop[0] != ".":
        return not following.islower()
    if _INITIAL.search(before) or (_ORDINAL.search(before) and following.isalpha() and len(before) <= 4):  # noqa: PLR2004
        return False
    word = _LAST_WORD.search(before)
    name = word[1].lower() if word else ""
    if following.islower() and (len(name) < _SHORTEST_LAST_WORD or not name.isalpha()):
        return False
    return name not in _ABBREVIATIONS and not (name in _BEFORE_NUMBERS and following.isdigit())
