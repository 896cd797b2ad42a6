"""Hours of a reference period -> the null an evidence meter bets against.

The null is the 90 % upper limit of the reference, or the reference raised by the minimum effect where that is higher.
Dispersion is how much more the reference's blocks scatter than independent turns would: clustering of turns in
sessions, bad hours and unequal weights in one number.

An hour is a tuple of additive counts, oldest first, with zeros for an hour in which nothing was scored:
(scored, defects) for a rate, five counts for scores 1 to 5.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

from monitor.statistics.intervals import clopper_pearson_upper, normal_quantile

BADNESS = (1.0, 0.75, 0.5, 0.25, 0.0)
"""Badness (5 - score) / 4 of the scores 1 to 5."""

MINIMUM_EFFECT = 0.10
"""Rises of up to this share of the reference count as no change."""

_LIMIT = 0.90
_BLOCK_HOURS = (1, 6, 24)
_FEWEST_BLOCKS = 4


@dataclass(frozen=True, slots=True)
class Reference:
    """A defect rate to be compared with, or a mean badness for scores."""

    scored: float
    defects: float
    """Defects among the scored turns; for scores, their summed badness."""
    rate: float
    dispersion: float
    """At least 1; counts behave like counts of this many times fewer turns."""
    upper: float
    """One-sided 90 % upper limit of the rate."""
    null_rate: float
    """The highest rate that counts as no change; the promise on false alarms holds up to here."""
    deviation: float
    """Standard deviation of one turn's badness."""


def dispersion(scatter: Sequence[tuple[float, float, float]]) -> float:
    """Return how many times more the blocks of 1, 6 and 24 hours scatter than independent turns would, at least 1.

    Each hour is (defects, expected defects, variance of the defects of independent turns). A block length counts with
    at least 4 whole blocks in which something was scored. The largest of the three ratios is returned.

    >>> dispersion([(4.0, 2.0, 2.0), (0.0, 2.0, 2.0), (4.0, 2.0, 2.0), (0.0, 2.0, 2.0)])
    2.6666666666666665
    """
    return max(1.0, *(block_dispersion(scatter, hours=hours) or 0.0 for hours in _BLOCK_HOURS))


def block_dispersion(scatter: Sequence[tuple[float, float, float]], *, hours: int) -> float | None:
    """Return that ratio for whole blocks of one length; None with fewer than 4 blocks in which something was scored."""
    ratios = []
    for start in range(0, len(scatter) - hours + 1, hours):
        block = scatter[start : start + hours]
        variance = sum(hour[2] for hour in block)
        if variance > 0:
            ratios.append((sum(hour[0] for hour in block) - sum(hour[1] for hour in block)) ** 2 / variance)
    return sum(ratios) / (len(ratios) - 1) if len(ratios) >= _FEWEST_BLOCKS else None


def rate_scatter(hours: Sequence[Sequence[float]], *, rate: float) -> tuple[tuple[float, float, float], ...]:
    """Return (scored, defects) hours as `dispersion` reads them, against this rate."""
    return tuple((defects, scored * rate, scored * rate * (1 - rate)) for scored, defects in hours)


def rate_reference(hours: Sequence[Sequence[float]], *, minimum_effect: float = MINIMUM_EFFECT) -> Reference | None:
    """Return the reference of (scored, defects) hours; None where nothing was scored.

    >>> round(rate_reference([(100, 2)] * 168).null_rate, 5)
    0.02203
    """
    scored, defects = (math.fsum(column) for column in zip(*hours, strict=True)) if hours else (0.0, 0.0)
    if scored == 0:
        return None
    rate = _shrunk(scored, defects)
    return pinned_reference(
        scored,
        defects,
        dispersion_ratio=dispersion(rate_scatter(hours, rate=rate)),
        minimum_effect=minimum_effect,
    )


def pinned_reference(
    scored: float,
    defects: float,
    *,
    dispersion_ratio: float,
    minimum_effect: float = MINIMUM_EFFECT,
) -> Reference:
    """Return the reference of stored totals whose dispersion was measured before.

    >>> round(pinned_reference(16800, 392, dispersion_ratio=1.751414530559664).null_rate, 9)
    0.025697875
    """
    if not dispersion_ratio >= 1:
        raise ValueError(f"reference: dispersion is {dispersion_ratio}; allowed: at least 1")
    upper = clopper_pearson_upper(defects / dispersion_ratio, scored / dispersion_ratio, confidence=_LIMIT)
    rate = _shrunk(scored, defects)
    return Reference(
        scored=scored,
        defects=defects,
        rate=rate,
        dispersion=dispersion_ratio,
        upper=upper,
        null_rate=_null(rate, upper, minimum_effect),
        deviation=math.sqrt(rate * (1 - rate)),
    )


def score_reference(
    histograms: Sequence[Sequence[float]], *, minimum_effect: float = MINIMUM_EFFECT
) -> Reference | None:
    """Return the reference of hourly histograms of scores 1 to 5; None where nothing was scored.

    Rates are mean badness. The upper limit is the normal one, and never below what as many turns without any defect
    leave possible.

    >>> reference = score_reference([(1, 2, 5, 40, 52)] * 168)
    >>> round(5 - 4 * reference.rate, 3), round(5 - 4 * reference.null_rate, 3)
    (4.4, 4.34)
    """
    counts = [math.fsum(column) for column in zip(*histograms, strict=True)]
    scored = math.fsum(counts)
    if scored == 0:
        return None
    defects = sum(map(mul, counts, BADNESS))
    rate = defects / scored
    variance = sum(count * (badness - rate) ** 2 for count, badness in zip(counts, BADNESS, strict=True)) / scored
    ratio = dispersion([(sum(map(mul, hour, BADNESS)), sum(hour) * rate, sum(hour) * variance) for hour in histograms])
    normal = rate + normal_quantile(_LIMIT) * math.sqrt(variance * ratio / scored)
    upper = min(1.0, max(normal, clopper_pearson_upper(0, scored / ratio, confidence=_LIMIT)))
    return Reference(
        scored=scored,
        defects=defects,
        rate=rate,
        dispersion=ratio,
        upper=upper,
        null_rate=_null(rate, upper, minimum_effect),
        deviation=math.sqrt(variance),
    )


def _shrunk(scored: float, defects: float) -> float:
    return (defects + 0.5) / (scored + 1)


def _null(rate: float, upper: float, minimum_effect: float) -> float:
    if minimum_effect < 0:
        raise ValueError(f"reference: minimum effect is {minimum_effect}; allowed: at least 0")
    return min(1.0, max(upper, (1 + minimum_effect) * rate))
