"""A reference and a threshold -> the bets of an evidence meter, for defect rates, for scores and for strata.

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
    return _odds_meter(reference, (reference.null_rate,), watch=watch, threshold=threshold)


def strata_meter(reference: Reference, *, watch: Watch, threshold: float) -> Meter:
    """Return the meter of hours split into strata against a `strata_reference`.

    An hour is compared with what the null expects of its own mix of strata (risk-adjusted CUSUM: Steiner et al. 2000).
    """
    lift = reference.null_rate / reference.rate
    nulls = tuple(min(1.0, rate * lift) for rate in reference.strata)
    return _odds_meter(reference, nulls, watch=watch, threshold=threshold)


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
        nulls=(null,) * len(BADNESS),
    )


def _odds_meter(reference: Reference, nulls: tuple[float, ...], *, watch: Watch, threshold: float) -> Meter:
    return Meter(
        watch=watch,
        log_threshold=_log_threshold(reference, threshold),
        null_rate=reference.null_rate,
        dispersion=reference.dispersion,
        factors=tuple(
            tuple(
                factor / reference.dispersion
                for null in nulls
                for factor in (-math.log1p((odds - 1) * null), math.log(odds))
            )
            for odds in ODDS_RATIOS
        ),
        turns=(1.0, 0.0) * len(nulls),
        badness=(0.0, 1.0) * len(nulls),
        nulls=tuple(null for null in nulls for _ in range(2)),
    )


def _log_threshold(reference: Reference, threshold: float) -> float:
    if not threshold > 1:
        raise ValueError(f"evidence meter: threshold is {threshold}; allowed: above 1")
    # Fresh stakes alone reach any threshold in the end; where nothing can be worse than the null, that is no alarm.
    return math.log(threshold) if reference.null_rate < 1 else math.inf
