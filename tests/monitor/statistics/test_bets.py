"""The bets of rate and score meters."""

import math
from collections.abc import Sequence
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.bets import rate_meter, score_meter
from monitor.statistics.meter import Meter, MeterReading, Watch
from monitor.statistics.reference import BADNESS, pinned_reference, rate_reference, score_reference

DISPERSIONS = st.floats(1, 20)


def mean_factor(factors: tuple[float, ...], chances: tuple[float, ...]) -> float:
    """Return the mean of a bet over one turn that adds 1 to one of the counts."""
    return sum(chance * math.exp(factor) for chance, factor in zip(chances, factors, strict=True))


def replay(meter: Meter, hours: Sequence[Sequence[float]]) -> list[MeterReading]:
    """Return the reading after each hour."""
    readings = list(accumulate(hours, meter.advance, initial=meter.start()))
    return readings[1:]


@given(defects=st.floats(0, 1000), dispersion=DISPERSIONS)
def test_no_bet_wins_at_the_null_rate(defects: float, dispersion: float) -> None:
    """At the null rate every bet on a rise has a mean of at most 1, and exactly 1 without dispersion."""
    meter = rate_meter(
        pinned_reference(1000, defects, dispersion_ratio=dispersion), watch=Watch.CONTINUOUS, threshold=100
    )
    null = meter.null_rate
    for per_turn, per_defect in meter.factors:
        mean = (1 - null) * math.exp(per_turn) + null * math.exp(per_turn + per_defect)
        assert mean <= 1 + 1e-9
        assert dispersion > 1 or mean == pytest.approx(1)


@given(rate=st.floats(0.05, 0.9), dispersion=DISPERSIONS)
def test_no_recovery_bet_wins_at_the_resolve_line(rate: float, dispersion: float) -> None:
    """At the resolve line every bet on a fall has a mean of at most 1."""
    meter = rate_meter(
        pinned_reference(10_000, 10_000 * rate, dispersion_ratio=dispersion), watch=Watch.CONTINUOUS, threshold=2
    )
    readings = replay(meter, [(1000, 1000)] * 50)
    incident = next(reading.incident for reading in readings if reading.fired)
    assert incident is not None
    for per_turn, per_defect in incident.reliefs:
        line = incident.resolve_line
        mean = (1 - line) * math.exp(per_turn) + line * math.exp(per_turn + per_defect)
        assert mean <= 1 + 1e-9


@given(
    reference=st.tuples(*[st.integers(0, 50)] * 5).filter(any),
    present=st.tuples(*[st.integers(0, 50)] * 5).filter(any),
)
def test_no_score_bet_wins_at_the_null_mean(reference: tuple[int, ...], present: tuple[int, ...]) -> None:
    """Whatever the scores, as long as their mean is no worse than the null, no bet has a mean above 1."""
    pinned = score_reference([reference] * 48)
    assert pinned is not None
    meter = score_meter(pinned, watch=Watch.CONTINUOUS, threshold=100)
    chances = tuple(count / sum(present) for count in present)
    badness = sum(chance * bad for chance, bad in zip(chances, BADNESS, strict=True))
    if badness <= meter.null_rate:
        assert all(mean_factor(factors, chances) <= 1 + 1e-9 for factors in meter.factors)
    else:
        assert badness > pinned.rate


def test_falling_scores_alarm_and_recover() -> None:
    """A mean score that falls from 4.5 to 4.0 alarms within a day, names its onset, and is cleared after recovery."""
    good, poor = (1, 2, 4, 32, 61), (4, 8, 12, 36, 40)
    reference = score_reference([good] * 168)
    assert reference is not None
    meter = score_meter(reference, watch=Watch.CONTINUOUS, threshold=8760)
    readings = replay(meter, [*[good] * 24, *[poor] * 24, *[good] * 48])
    fired = [i for i, reading in enumerate(readings) if reading.fired]
    resolved = [i for i, reading in enumerate(readings) if reading.resolved]
    assert len(fired) == len(resolved) == 1
    assert 24 <= fired[0] < 30
    assert 48 < resolved[0] < 60
    incident = readings[fired[0]].incident
    assert incident is not None
    assert incident.onset.hour == 24
    assert 5 - 4 * incident.rate == pytest.approx(4.0)


def test_scores_of_one_and_five_bet_like_a_rate() -> None:
    """A score of 1 or 5 only is a defect or none: the null mean is near the null rate."""
    scores = score_reference([(20, 0, 0, 0, 980)] * 168, minimum_effect=0.0)
    rates = rate_reference([(1000, 20)] * 168, minimum_effect=0.0)
    assert scores
    assert rates
    assert rates.null_rate == pytest.approx(scores.null_rate, rel=0.01)


@pytest.mark.parametrize("watch", Watch)
def test_a_reference_of_defects_alone_never_alarms(watch: Watch) -> None:
    """Where the null rate is 1 nothing can be worse, for rates and for scores."""
    rates, scores = rate_reference([(100, 100)] * 48), score_reference([(100, 0, 0, 0, 0)] * 48)
    assert rates
    assert scores
    rate_readings = replay(rate_meter(rates, watch=watch, threshold=20), [(100, 100)] * 100)
    score_readings = replay(score_meter(scores, watch=watch, threshold=20), [(100, 0, 0, 0, 0)] * 100)
    assert not any(reading.fired for reading in (*rate_readings, *score_readings))


@pytest.mark.parametrize("threshold", [0.0, 1.0, math.nan])
def test_impossible_threshold(threshold: float) -> None:
    """Evidence of 1 is none, so a threshold must be above it."""
    with pytest.raises(ValueError, match="above 1"):
        rate_meter(pinned_reference(100, 2, dispersion_ratio=1), watch=Watch.CONTINUOUS, threshold=threshold)
