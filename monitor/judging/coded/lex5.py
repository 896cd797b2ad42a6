"""The judge that needs no model: `lex5`, a logistic score over how much of an answer its documents' words cover.

Measured by `bench/lex5.py` on 1,166 answers with human labels, each source scored by coefficients fitted on the others.
It sees answers that leave their documents and is nearly blind to a swapped name or a negation, so its score is called a
proxy wherever a person sees it.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock

from monitor.judging.coded.coverage import Sentence, cover
from monitor.judging.injection import flags
from monitor.model.judgements import ChatMessage, Detail, Finding, Reason, Reply, Rubric
from monitor.model.turns import Turn
from monitor.text import words

VERSION = "lex5-2"
"""Changes with features, coefficients, threshold and what counts as evidence: scores of two are not compared."""

COEFFICIENTS = (2.4381, 0.9744, 1.8525, -1.1599, -0.8129)
"""Of covq_mean, tp_min, bp_mean, num_bad_any, ent_bad_any; pooled over all sources with equal weight."""

INTERCEPT = -2.526

THRESHOLD = 0.40
"""Scores below it are defects. On MT-RAG, out of fold, that flags 86 % of the answers people called unfaithful and 7 %
of those they called faithful; from 0.35 to 0.45 the two rates' difference stays within two points of its maximum."""

_MOST_MISSING = 12
_REMEMBERED = 1024
"""Findings: what a busy process samples in some seconds."""


class Lex5:
    """The cheap score that every turn gets.

    The latest findings are remembered: a turn is scored to be sampled, and judged a moment later.
    """

    version = VERSION

    def __init__(self) -> None:
        self._recent: OrderedDict[tuple[str, ...], Finding | Reason] = OrderedDict()
        self._lock = Lock()

    def score(self, turn: Turn) -> float | None:
        """Return how much of the answer its documents cover, in [0, 1]; None when words cannot tell."""
        finding = self.finding(turn)
        return None if isinstance(finding, Reason) else finding.score

    def finding(self, turn: Turn) -> Finding | Reason:
        """Return the score, the worst sentence and what is missing; NO_CLAIMS, or NOT_SUPPORTED across languages."""
        key = (turn.content_hash(), *(citation.source or "" for citation in turn.citations or ()))
        with self._lock:
            remembered = self._recent.get(key)
        if remembered is not None:
            return remembered
        finding = _finding(turn)
        with self._lock:
            self._recent[key] = finding
            if len(self._recent) > _REMEMBERED:
                self._recent.popitem(last=False)
        return finding


class GroundednessProxy:
    """The metric `groundedness_proxy`: lex5 as a verdict, with the words that each sentence adds to its documents."""

    rubric = Rubric(
        metric="groundedness_proxy",
        rubric_id=hashlib.sha256(repr((VERSION, COEFFICIENTS, INTERCEPT, THRESHOLD)).encode()).hexdigest()[:12],
        needs=frozenset({"response", "citations"}),
        scale_min=0.0,
        scale_max=1.0,
        title="Groundedness (lexical proxy)",
        proxy=True,
    )
    call = ""
    schema: Mapping[str, object] | None = None
    max_output_tokens = 0

    def __init__(self, lexical: Lex5 | None = None) -> None:
        self._lexical = lexical or Lex5()

    def messages(self, turn: Turn) -> tuple[ChatMessage, ...]:  # noqa: ARG002 -- computed in code
        """Return nothing: no judge is asked."""
        return ()

    def read(self, turn: Turn, reply: Reply | None) -> Finding | Reason:  # noqa: ARG002 -- there is no reply
        """Return what lex5 finds."""
        return self._lexical.finding(turn)


def probability(features: Sequence[float]) -> float:
    """Return the logistic score of the five features, in (0, 1)."""
    logit = INTERCEPT + sum(c * x for c, x in zip(COEFFICIENTS, features, strict=True))
    return 1 / (1 + math.exp(-logit))


def _finding(turn: Turn) -> Finding | Reason:
    coverage = cover(turn)
    if isinstance(coverage, Reason):
        return coverage
    score = probability(coverage.features())
    worst = coverage.worst()
    return Finding(
        score=score,
        defect=score < THRESHOLD,
        reason=f"sentence {worst.index}: {worst.documented:.0%} of its words are in the documents",
        details=tuple(_detail(sentence) for sentence in coverage.sentences),
        flags=flags(turn),
    )


def _detail(sentence: Sentence) -> Detail:
    foreign = dict.fromkeys((*sentence.numbers, *words.spelled(sentence.text, sentence.missing)))
    return Detail(
        index=sentence.index,
        verdict="uncovered" if sentence.documented == 0 else "partly" if foreign else "covered",
        reason=f"{sentence.documented:.0%} of its words are in the documents" if foreign else "",
        evidence=" ".join(list(foreign)[:_MOST_MISSING]),
    )
