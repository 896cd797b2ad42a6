"""Weighted sums of scored turns -> a defect rate with an honest interval.

The estimate is Hájek's ratio; its interval is taken on a design-based effective size in which the mean weight of the
defects is shrunk by one pseudo-turn of average weight, so no special case is needed where no defect was found
(linearised variance: Särndal, Swensson, Wretman 1992, section 5.7; interval on an effective size: Korn, Graubard 1998).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from monitor.statistics.intervals import wilson

_ROUNDING = 1e-9


class ScoredSums(Protocol):
    """Any additive sums over scored turns; w is 1 / inclusion probability, x is 1 for a defect and else 0."""

    @property
    def n(self) -> int:
        """Scored turns."""

    @property
    def sw(self) -> float:
        """Sum of w."""

    @property
    def sw2(self) -> float:
        """Sum of w squared."""

    @property
    def swx(self) -> float:
        """Sum of w x."""

    @property
    def sw2x(self) -> float:
        """Sum of w squared x."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The smallest `ScoredSums`."""

    n: int
    sw: float
    sw2: float
    swx: float
    sw2x: float


@dataclass(frozen=True, slots=True)
class Rate:
    """A defect rate with its interval; shares between 0 and 1."""

    value: float
    lower: float
    upper: float
    confidence: float
    scored: int
    """Turns scored, whatever their weights."""
    n_eff: float
    """Equally weighted turns that would give the same precision."""


def merge(rows: Iterable[ScoredSums]) -> Sums:
    """Return the sums over the turns of all rows; over no rows, the sums of no turns."""
    listed = tuple(rows)
    return Sums(
        n=sum(row.n for row in listed),
        sw=math.fsum(row.sw for row in listed),
        sw2=math.fsum(row.sw2 for row in listed),
        swx=math.fsum(row.swx for row in listed),
        sw2x=math.fsum(row.sw2x for row in listed),
    )


def wilson_rate(sums: ScoredSums, *, confidence: float = 0.95) -> Rate | None:
    """Return the rate with Wilson limits on the effective size; None where nothing was scored.

    Like every function here it raises ValueError for sums that no set of turns can have.

    >>> rate = wilson_rate(Sums(98, 710.0, 6425.0, 35.0, 237.5))
    >>> round(rate.value, 4), round(rate.lower, 4), round(rate.upper, 4), round(rate.n_eff, 1)
    (0.0493, 0.0208, 0.1122, 96.7)
    """
    if _empty(sums):
        return None
    n_eff = sums.sw / _spread(sums)
    lower, upper = wilson(_share(sums), n_eff, confidence=confidence)
    return Rate(_share(sums), lower, upper, confidence, sums.n, n_eff)


def effective_counts(sums: ScoredSums) -> tuple[float, float]:
    """Return the (scored, defects) of equally weighted turns that an evidence meter reads for a weighted hour.

    The size is Kish's, which does not depend on the outcome; (0, 0) where nothing was scored.

    >>> effective_counts(Sums(80, 400.0, 2000.0, 10.0, 50.0))
    (80.0, 2.0)
    """
    if _empty(sums):
        return 0.0, 0.0
    size = sums.sw**2 / sums.sw2
    return size, size * _share(sums)


def _empty(sums: ScoredSums) -> bool:
    slack = 1 + _ROUNDING
    possible = (
        0 <= sums.swx <= sums.sw * slack < math.inf
        and 0 <= sums.sw2x <= sums.sw2 * slack < math.inf
        and sums.sw**2 <= sums.n * sums.sw2 * slack
        and sums.swx**2 <= sums.n * sums.sw2x * slack
        and (sums.n > 0) == (sums.sw > 0)
    )
    if not possible:
        raise ValueError(f"weighted sums: no turns have n={sums.n}, {sums.sw=}, {sums.sw2=}, {sums.swx=}, {sums.sw2x=}")
    return sums.n == 0


def _share(sums: ScoredSums) -> float:
    return min(1.0, sums.swx / sums.sw)


def _spread(sums: ScoredSums) -> float:
    """Return the linearised variance over p(1 - p) as a mean weight: the turns behind one effective turn."""
    share, mean = _share(sums), sums.sw2 / sums.sw
    defective = (sums.sw2x + mean**2) / (sums.swx + mean)
    sound = (sums.sw2 - sums.sw2x + mean**2) / (sums.sw - sums.swx + mean)
    return (1 - share) * defective + share * sound


def bounds(share: float, scored: int, failed: int) -> tuple[float, float]:
    """Return what a defect rate of `share` among `scored` turns would be if all `failed` ones passed, and if none did.

    Failures are not missing at random: a filter withholds just the harmful turns.

    >>> bounds(0.2, 80, 20)
    (0.16000000000000003, 0.36)
    """
    if not scored + failed:
        return 0.0, 1.0
    judged = scored / (scored + failed)
    return share * judged, share * judged + (1 - judged)
