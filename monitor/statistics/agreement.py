"""How well a judge's verdicts agree with others on the same turns: people, another judge, or itself asked again.

A defect is the positive case. Intervals are Wilson's; kappa is Cohen's (1960); the area under the curve counts pairs,
ties as a half (Mann, Whitney 1947).
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.statistics.intervals import wilson


@dataclass(frozen=True, slots=True)
class Share:
    """A share with its 95 % interval."""

    value: float
    lower: float
    upper: float
    of: int
    """Turns that it is a share of."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Verdicts against truths."""

    turns: int
    sensitivity: Share | None
    """Of true defects, those that were found; None where there is none."""
    specificity: Share | None
    """Of turns without a defect, those that passed."""
    precision: Share | None
    """Of defects found, those that are true (positive predictive value)."""
    agreed: Share | None
    kappa: float | None
    """Agreement beyond chance: 1 for perfect, 0 for none; None where one of the two always says the same."""


def agreement(pairs: Sequence[tuple[bool, bool]]) -> Agreement:
    """Return how verdicts agree with truths; a pair is (judged a defect, is a defect).

    >>> round(agreement([(True, True), (True, False), (False, False), (False, False)]).kappa, 2)
    0.5
    """
    hits = sum(flagged and defective for flagged, defective in pairs)
    alarms = sum(flagged and not defective for flagged, defective in pairs)
    missed = sum(defective and not flagged for flagged, defective in pairs)
    passed = len(pairs) - hits - alarms - missed
    return Agreement(
        turns=len(pairs),
        sensitivity=share(hits, hits + missed),
        specificity=share(passed, passed + alarms),
        precision=share(hits, hits + alarms),
        agreed=share(hits + passed, len(pairs)),
        kappa=_kappa(hits, alarms, missed, passed),
    )


def share(count: int, of: int) -> Share | None:
    """Return count / of with its interval; None for a share of nothing."""
    if not of:
        return None
    lower, upper = wilson(count / of, of)
    return Share(count / of, lower, upper, of)


def area(scored: Sequence[tuple[float, bool]]) -> float | None:
    """Return the chance that a true defect scores below a turn without one; None where one of the kinds is missing.

    A pair is (score, is a defect), where low scores are bad ones.

    >>> area([(1.0, True), (3.0, False), (3.0, True), (5.0, False)])
    0.875
    """
    bad = sorted(score for score, defect in scored if defect)
    good = [score for score, defect in scored if not defect]
    if not bad or not good:
        return None
    # A tie with a defect is half a win.
    total = sum(bisect_left(bad, score) + bisect_right(bad, score) for score in good) / 2
    return total / (len(bad) * len(good))


def sign_test(more: int, fewer: int) -> float:
    """Return how likely it is, were both directions alike, that pairs that differ differ so one-sidedly (two-sided).

    The exact test of McNemar (1947) on paired verdicts: `more` passed before and are defects now, `fewer` the reverse.

    >>> sign_test(6, 0), sign_test(3, 3), sign_test(0, 0)
    (0.03125, 1.0, 1.0)
    """
    of = more + fewer
    tail = sum(math.comb(of, count) for count in range(min(more, fewer) + 1))
    return min(1.0, 2 * tail / (1 << of))


def _kappa(hits: int, alarms: int, missed: int, passed: int) -> float | None:
    turns = hits + alarms + missed + passed
    if not turns:
        return None
    flagged_share, defective_share = (hits + alarms) / turns, (hits + missed) / turns
    chance = flagged_share * defective_share + (1 - flagged_share) * (1 - defective_share)
    return None if chance == 1 else ((hits + passed) / turns - chance) / (1 - chance)
