"""Second opinions summarised: how far a judge agrees with itself, and a new version of it with the old one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.model.judgements import SecondOpinion, SecondOpinionKind
from monitor.statistics.agreement import Agreement, agreement
from monitor.statistics.intervals import normal_quantile

_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondOpinionSummary:
    """One metric's second opinions by one version of the judge."""

    kind: SecondOpinionKind
    metric: str
    rubric_id: str
    model: str
    fingerprint: str
    agreement: Agreement
    """Of second verdicts with first ones, on what is a defect."""
    shift: float | None
    """Mean of second scores less first ones; None for metrics without scores."""
    shift_lower: float | None
    shift_upper: float | None


def summarize(opinions: Sequence[SecondOpinion]) -> tuple[SecondOpinionSummary, ...]:
    """Return a summary for each kind, metric, rubric and version, in that order."""
    groups: dict[tuple[str, str, str, str, str], list[SecondOpinion]] = defaultdict(list)
    for o in opinions:
        groups[o.kind.value, o.job.metric, o.job.rubric_id, o.version.model, o.version.fingerprint].append(o)
    return tuple(_summary(group) for _, group in sorted(groups.items()))


def _summary(group: Sequence[SecondOpinion]) -> SecondOpinionSummary:
    first = group[0]
    shifts = [o.score - o.first_score for o in group if o.score is not None and o.first_score is not None]
    mean, margin = _mean(shifts)
    return SecondOpinionSummary(
        kind=first.kind,
        metric=first.job.metric,
        rubric_id=first.job.rubric_id,
        model=first.version.model,
        fingerprint=first.version.fingerprint,
        agreement=agreement([(o.defect, o.first_defect) for o in group]),
        shift=mean,
        shift_lower=None if mean is None else mean - margin,
        shift_upper=None if mean is None else mean + margin,
    )


def _mean(values: Sequence[float]) -> tuple[float | None, float]:
    """Return the mean and the half width of its normal interval; one value tells nothing of its spread."""
    if not values:
        return None, 0.0
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, math.inf
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, normal_quantile((1 + _CONFIDENCE) / 2) * math.sqrt(variance / len(values))
