"""The smallest rate that would be seen."""

import math
import random

import pytest

from monitor.statistics.bets import rate_meter
from monitor.statistics.meter import Watch
from monitor.statistics.reference import pinned_reference
from monitor.statistics.sensitivity import smallest_visible_rate

REFERENCE = pinned_reference(16_800, 336, dispersion_ratio=1.0)


def smallest(*, scored: float = 100, threshold: float = 8760, hours: float = 168, chance: float = 0.8) -> float:
    """Return the smallest visible rate, or infinity."""
    rate = smallest_visible_rate(REFERENCE, threshold=threshold, scored_per_hour=scored, hours=hours, chance=chance)
    return math.inf if rate is None else rate


def test_the_rate_is_seen_as_often_as_stated(rng: random.Random) -> None:
    """Of 300 simulated weeks at the rate given for a chance of 80 %, 72 to 92 % alarm."""
    rate = smallest(scored=30)
    meter = rate_meter(REFERENCE, watch=Watch.CONTINUOUS, threshold=8760)
    seen = 0
    for _ in range(300):
        hours = ((30, sum(rng.random() < rate for _ in range(30))) for _ in range(168))
        reading = meter.start()
        for hour in hours:
            reading = meter.advance(reading, hour)
            if reading.fired:
                seen += 1
                break
    assert 0.72 <= seen / 300 <= 0.92


def test_more_of_everything_sees_more() -> None:
    """More traffic, more time, a lower threshold and a lower chance each make smaller rates visible."""
    rate = smallest()
    assert REFERENCE.null_rate < rate < 1
    assert smallest(scored=1000) < rate < smallest(scored=10)
    assert smallest(hours=720) < rate < smallest(hours=24)
    assert smallest(threshold=20) < rate < smallest(threshold=144_000)
    assert smallest(chance=0.5) < rate < smallest(chance=0.95)


@pytest.mark.parametrize(("scored", "hours"), [(0, 168), (100, 0), (0.01, 168)])
def test_nothing_is_seen_without_turns(scored: float, hours: float) -> None:
    """Where even a rate of 1 would not alarm in time there is no visible rate."""
    assert smallest(scored=scored, hours=hours) == math.inf


def test_nothing_is_worse_than_all() -> None:
    """Against a null rate of 1 nothing is visible."""
    reference = pinned_reference(100, 100, dispersion_ratio=1.0)
    assert smallest_visible_rate(reference, threshold=20, scored_per_hour=100) is None


@pytest.mark.parametrize(("chance", "threshold"), [(0.0, 20), (1.0, 20), (0.8, 1.0)])
def test_impossible_demands(chance: float, threshold: float) -> None:
    """Certainty, and a threshold that is none, are refused."""
    with pytest.raises(ValueError, match="allowed"):
        smallest(chance=chance, threshold=threshold)
