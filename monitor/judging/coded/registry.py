"""Metrics computed in code, by name: overlap with a reference, ranking against known relevant documents, and your own.

`f1`, `reciprocal_rank`, `precision_at_5`, `recall_at_5`, `ndcg_at_5`, `false_positives_at_5` (any number),
`refusal_proxy`, with the extra `embedding` `cross_language_proxy`, and whatever other distributions name in the
entry-point group `rag_monitor.metrics`: a `ports.TurnScorer`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import get_args

from monitor import plugins
from monitor.errors import ConfigError, Rejected, place
from monitor.judging.coded import closeness, overlap, ranking
from monitor.judging.coded.lex5 import GroundednessProxy
from monitor.judging.coded.refusal import declines
from monitor.judging.injection import flags
from monitor.judging.prompt import file as prompt_file
from monitor.judging.prompt.front_matter import Need
from monitor.model.judgements import ChatMessage, Finding, Reason, Reply, Rubric
from monitor.model.turns import Turn
from monitor.plugin_contract import wrong_field

NAMES = (
    "f1",
    "reciprocal_rank",
    "precision_at_K",
    "recall_at_K",
    "ndcg_at_K",
    "false_positives_at_K",
    "refusal_proxy",
    closeness.NAME,
)
"""What is shipped; K is any number from 1."""

_VERSION = "1"
_AT = re.compile(r"(precision|recall|ndcg|false_positives)_at_([1-9]\d{0,3})")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_HALF = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeMetric:
    """A scorer as a metric: no judge is asked."""

    rubric: Rubric
    score: Callable[[Turn], Finding | Reason]
    call: str = ""
    schema: Mapping[str, object] | None = None
    max_output_tokens: int = 0

    def messages(self, turn: Turn) -> tuple[ChatMessage, ...]:  # noqa: ARG002 -- computed in code
        """Return nothing: no judge is asked."""
        return ()

    def read(self, turn: Turn, reply: Reply | None) -> Finding | Reason:  # noqa: ARG002 -- there is no reply
        """Return the scorer's finding, or why it has none.

        Raises:
            Rejected: it is neither, or its score is none of the scale, or it wants the process to end: a scorer may be
                anybody's code.
        """
        try:
            outcome: object = self.score(turn)
        except SystemExit as error:
            raise Rejected(f"{self.rubric.metric}: raised {place(error)}", reason="rejected") from None
        if isinstance(outcome, Reason):
            return outcome
        low, high = self.rubric.scale_min, self.rubric.scale_max
        if not isinstance(outcome, Finding):
            raise Rejected(
                f"{self.rubric.metric}: expected a Finding or a Reason, found {type(outcome).__name__}",
                reason="rejected",
            )
        if problem := wrong_field(outcome):
            raise Rejected(f"{self.rubric.metric}: {problem}", reason="rejected")
        # Written so that NaN fails too.
        if outcome.score is not None and not low <= outcome.score <= high:
            raise Rejected(f"{self.rubric.metric}: expected a score from {low:g} to {high:g}", reason="rejected")
        return outcome


def coded(name: str, *, where: str) -> CodeMetric | None:
    """Return the metric of this name; None when it is not computed in code.

    Raises:
        ConfigError: an entry point of this name does not lead to a `TurnScorer`, or an extra that it needs is not
            installed, or it has a name of ours; the message begins with `where`.
    """
    if name in plugins.scorers():
        return _of_another_distribution(name, where)
    if name in _OWN:
        title, need, own = _OWN[name]
        return _metric(name, title, need, own, proxy=name.endswith("_proxy"))
    if match := _AT.fullmatch(name):
        measure, k = match[1], int(match[2])
        title = f"{measure.replace('_', ' ').capitalize()} at {k}"
        return _metric(name, title, frozenset({"relevant_ids"}), _MEASURES[measure](k))
    if name == closeness.NAME:
        nearness = closeness.local(where)
        return CodeMetric(rubric=nearness.rubric, score=nearness.score)
    return None


def _of_another_distribution(name: str, where: str) -> CodeMetric:
    scorer = plugins.scorer(name, where, ours=_shipped_names() & {name} | ({name} if _AT.fullmatch(name) else set()))
    rubric = scorer.rubric
    if not _NAME.fullmatch(rubric.metric):
        raise ConfigError(f"the entry point {name!r}: rubric.metric: expected lower case, digits and _", where=where)
    if unknown := sorted(rubric.needs - set(get_args(Need))):
        known = ", ".join(get_args(Need))
        raise ConfigError(f"the entry point {name!r}: rubric.needs: no {unknown[0]!r}; known: {known}", where=where)
    if not rubric.scale_min < rubric.scale_max:
        raise ConfigError(f"the entry point {name!r}: rubric: scale_min must be below scale_max", where=where)
    return CodeMetric(rubric=rubric, score=scorer.score)


def _shipped_names() -> frozenset[str]:
    """Return what `metrics` in the settings may name without any plug-in, apart from measures at K."""
    prompts = {prompt: prompt_file.read(prompt_file.locate(prompt)) for prompt in prompt_file.shipped()}
    of_prompts = (metric for prompt in prompts.values() for metric in prompt.front.metrics)
    return frozenset({*_OWN, closeness.NAME, GroundednessProxy.rubric.metric, *prompts, *of_prompts})


def _metric(
    name: str, title: str, needs: frozenset[str], score: Callable[[Turn], Finding | Reason], *, proxy: bool = False
) -> CodeMetric:
    digest = hashlib.sha256(f"{name} {_VERSION}".encode()).hexdigest()[:12]
    return CodeMetric(
        rubric=Rubric(
            metric=name, rubric_id=digest, needs=needs, scale_min=0.0, scale_max=1.0, title=title, proxy=proxy
        ),
        score=score,
    )


def _f1(turn: Turn) -> Finding:
    score = overlap.f1(turn.response or "", turn.ground_truth or "")
    return Finding(score=score, defect=score < _HALF)


def _refusal(turn: Turn) -> Finding:
    declined = declines(turn.response or "")
    return Finding(score=None, defect=declined, label="full" if declined else "none", flags=flags(turn))


def _reciprocal_rank(turn: Turn) -> Finding | Reason:
    hits = _hits(turn)
    if isinstance(hits, Reason):
        return hits
    score = ranking.reciprocal_rank(hits)
    return Finding(score=score, defect=score < _HALF)


def _precision(k: int) -> Callable[[Turn], Finding | Reason]:
    def score(turn: Turn) -> Finding | Reason:
        hits = _hits(turn)
        if isinstance(hits, Reason):
            return hits
        value = ranking.precision(hits, k)
        return Finding(score=value, defect=value == 0)

    return score


def _recall(k: int) -> Callable[[Turn], Finding | Reason]:
    def score(turn: Turn) -> Finding | Reason:
        hits = _hits(turn)
        if isinstance(hits, Reason):
            return hits
        value = ranking.recall(hits, k, known=len(set(turn.relevant_ids or ())))
        return Reason.NOT_SUPPORTED if value is None else Finding(score=value, defect=value < _HALF)

    return score


def _ndcg(k: int) -> Callable[[Turn], Finding | Reason]:
    def score(turn: Turn) -> Finding | Reason:
        hits = _hits(turn)
        if isinstance(hits, Reason):
            return hits
        ideal = [1.0] * len(set(turn.relevant_ids or ()))
        value = ranking.ndcg([float(hit) for hit in hits], k, ideal=ideal)
        return Finding(score=value, defect=value < _HALF)

    return score


def _false_positives(k: int) -> Callable[[Turn], Finding | Reason]:
    """Of a question that nothing should be found for: how much of the first places is filled all the same."""

    def score(turn: Turn) -> Finding | Reason:
        if turn.relevant_ids:
            return Reason.NOT_SUPPORTED
        if turn.citations is None:
            return Reason.NO_CONTEXT
        value = min(len(turn.citations), k) / k
        return Finding(score=value, defect=value > 0)

    return score


def _hits(turn: Turn) -> list[bool] | Reason:
    """Return which of the documents, in rank order, are relevant; each relevant one counts where it comes first."""
    if turn.citations is None:
        return Reason.NO_CONTEXT
    missing = set(turn.relevant_ids or ())
    if not missing:
        return Reason.NOT_SUPPORTED
    hits: list[bool] = []
    for citation in turn.citations:
        names = {citation.id, citation.source} & missing
        missing -= names
        hits.append(bool(names))
    return hits


_MEASURES: Mapping[str, Callable[[int], Callable[[Turn], Finding | Reason]]] = {
    "precision": _precision,
    "recall": _recall,
    "ndcg": _ndcg,
    "false_positives": _false_positives,
}

_OWN: Mapping[str, tuple[str, frozenset[str], Callable[[Turn], Finding | Reason]]] = {
    "f1": ("F1 with the reference", frozenset({"response", "ground_truth"}), _f1),
    "reciprocal_rank": ("Reciprocal rank", frozenset({"relevant_ids"}), _reciprocal_rank),
    "refusal_proxy": ("Refusal (by its first words)", frozenset({"response"}), _refusal),
}
