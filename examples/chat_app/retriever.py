"""BM25 retrieval over the passages, in an SQLite FTS5 index held in memory."""

import math
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from corpus import Passage
from words import pairs, stem, stems, words

_LIMIT = 4
_CANDIDATES = 12
# A passage that holds less than this share of the query (weighted by rarity) answers something else.
_SMALLEST_COVERAGE = 0.45
_TITLE_WEIGHT, _CONTENT_WEIGHT = 2.5, 1.0


class RetrieverError(Exception):
    """The index cannot be built here."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One retrieved passage; ``score`` is BM25 as a similarity: larger is better, and always above 0."""

    passage: Passage
    score: float


class Retriever:
    """Finds passages for a query, in an index of all of them."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        """Index ``passages``.

        Raises:
            RetrieverError: This Python's sqlite3 was built without FTS5.
        """
        self._passages = {passage.id: passage for passage in passages}
        # Half the corpus away, so that no passage lands in its own topic.
        half = len(passages) // 2
        self._moved = {old.id: new for old, new in zip(passages, (*passages[half:], *passages[:half]), strict=True)}
        self._stems = {passage.id: stems(f"{passage.title} {passage.content}") for passage in passages}
        frequency = Counter(word for known in self._stems.values() for word in known)
        self._weight = {word: math.log(1 + len(passages) / count) for word, count in frequency.items()}
        self._unknown_weight = math.log(1 + len(passages))
        self._index = _index(passages)

    def close(self) -> None:
        """Release the index; the retriever is of no use afterwards."""
        self._index.close()

    def search(self, query: str) -> tuple[Hit, ...]:
        """Return at most four passages that cover ``query``, best first; none when nothing does."""
        hits = self._match(query)
        return tuple(hit for hit in hits if self.coverage(query, self._stems[hit.passage.id]) >= _SMALLEST_COVERAGE)[
            :_LIMIT
        ]

    def search_stale(self, query: str) -> tuple[Hit, ...]:
        """Return the passages that now stand where those of `search` stood when a stale index was built.

        The scores look as good as ever; the passages have nothing to do with ``query``.
        """
        return tuple(Hit(self._moved[hit.passage.id], hit.score) for hit in self.search(query))

    def weight(self, stemmed: str) -> float:
        """Return how rare a stem is in the passages, at least log 2; a stem in none of them weighs most."""
        return self._weight.get(stemmed, self._unknown_weight)

    def coverage(self, query: str, known: frozenset[str]) -> float:
        """Return the share, from 0 to 1, of the content words of ``query`` in ``known``, weighted by rarity."""
        wanted = {stem(word) for word in words(query)}
        total = sum(map(self.weight, wanted))
        return sum(map(self.weight, wanted & known)) / total if total else 0.0

    def _match(self, query: str) -> tuple[Hit, ...]:
        expression = " OR ".join(f'"{term}"' for term in (*words(query), *pairs(query)))
        if not expression:
            return ()
        rows = self._index.execute(
            "SELECT id, bm25(passages, 0, ?, ?) AS distance FROM passages "
            "WHERE passages MATCH ? ORDER BY distance, id LIMIT ?",
            (_TITLE_WEIGHT, _CONTENT_WEIGHT, expression, _CANDIDATES),
        )
        return tuple(Hit(self._passages[row_id], round(-distance, 4)) for row_id, distance in rows)


def _index(passages: Sequence[Passage]) -> sqlite3.Connection:
    index = sqlite3.connect(":memory:")
    try:
        # Identifiers such as __enter__ stay whole; porter lets "raised" find "raises".
        index.execute(
            "CREATE VIRTUAL TABLE passages USING fts5("
            "id UNINDEXED, title, content, tokenize = \"porter unicode61 tokenchars '_'\")"
        )
    except sqlite3.OperationalError as error:
        index.close()
        raise RetrieverError(
            f"building the passage index: sqlite3 {sqlite3.sqlite_version} of this Python has no FTS5 ({error}); "
            "use a Python whose sqlite3 was built with SQLITE_ENABLE_FTS5"
        ) from error
    with closing(index.cursor()) as cursor:
        cursor.executemany(
            "INSERT INTO passages (id, title, content) VALUES (?, ?, ?)",
            [(passage.id, passage.title, passage.content) for passage in passages],
        )
    return index
