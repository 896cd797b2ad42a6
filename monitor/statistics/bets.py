"""A reference and a threshold -> the bets of an evidence meter, for defect rates and for scores.

A bet's log factor is linear in the counts of an hour and divided by the dispersion; with mean at most 1 per turn at
the null rate it keeps that mean when tempered so (Jensen).
"""

import math

from monitor.statistics.meter import Meter, Watch
from monitor.statistics.reference import BADNESS, Reference

ODDS_RATIOS = (1.25, 1.5, 2.0, 3.0, 5.0)
"""The rises of a rate that are bet on, in equal parts."""

SCORE_SHIFTS = (0.1, 0.2, 0.4, 0.8)
"""The falls of a mean score that are bet on, in standard deviations of one turn, in equal parts."""

_LARGEST_STAKE = 0.9


def rate_meter(reference: Reference, *, watch: Watch, threshold: float) -> Meter:
    """Return the meter of (scored, defects) hours against a `rate_reference`; see `budget` for thresholds."""
    null = reference.null_rate
    return Meter(
        watch=watch,
        log_threshold=_log_threshold(reference, threshold),
        null_rate=null,
        dispersion=reference.dispersion,
        factors=tuple(
            (-math.log1p((odds - 1) * null) / reference.dispersion, math.log(odds) / reference.dispersion)
            for odds in ODDS_RATIOS
        ),
        turns=(1.0, 0.0),
        badness=(0.0, 1.0),
    )


def score_meter(reference: Reference, *, watch: Watch, threshold: float) -> Meter:
    """Return the meter of hourly histograms of scores 1 to 5 against a `score_reference`; a fall is a regression.

    The bet on the mean of a bounded outcome: Waudby-Smith, Ramdas 2024.
    """
    null = reference.null_rate
    largest = _LARGEST_STAKE / null
    stakes = [min(shift / reference.deviation, largest) if reference.deviation else largest for shift in SCORE_SHIFTS]
    return Meter(
        watch=watch,
        log_threshold=_log_threshold(reference, threshold),
        null_rate=null,
        dispersion=reference.dispersion,
        factors=tuple(
            tuple(math.log1p(stake * (badness - null)) / reference.dispersion for badness in BADNESS)
            for stake in stakes
        ),
        turns=(1.0,) * len(BADNESS),
        badness=BADNESS,
    )


def _log_threshold(reference: Reference, threshold: float) -> float:
    if not threshold > 1:
        raise ValueError(f"evidence meter: threshold is {threshold}; allowed: above 1")
    # Fresh stakes alone reach any threshold in the end; where nothing can be worse than the null, that is no alarm.
    return math.log(threshold) if reference.null_rate < 1 else math.inf
