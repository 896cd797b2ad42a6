"""References: null rates and dispersion."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.intervals import clopper_pearson_upper
from monitor.statistics.reference import (
    block_dispersion,
    dispersion,
    pinned_reference,
    rate_reference,
    rate_scatter,
    score_reference,
)

HOURS = st.lists(
    st.integers(0, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1, max_size=60
)


def test_recorded_reference(golden: dict[str, Any]) -> None:
    """Rate and null rate agree with an independent implementation."""
    case = golden["reference"]
    reference = pinned_reference(case["scored"], case["defects"], dispersion_ratio=case["dispersion"])
    assert (case["rate"], case["null_rate"]) == pytest.approx((reference.rate, reference.null_rate), rel=1e-12)


def test_dispersion_by_hand() -> None:
    """Four hours each one standard deviation off scatter 4/3 as much as independent turns, with one mean fitted."""
    scatter = [(3.0, 2.0, 1.0), (1.0, 2.0, 1.0), (3.0, 2.0, 1.0), (1.0, 2.0, 1.0)]
    assert block_dispersion(scatter, hours=1) == pytest.approx(4 / 3)
    assert block_dispersion(scatter, hours=6) is None
    assert dispersion(scatter) == pytest.approx(4 / 3)


def test_slow_waves_show_in_long_blocks() -> None:
    """A rate that stays high for half a day scatters most in the 6-hour blocks, and the largest ratio counts."""
    scatter = rate_scatter(([(100, 8)] * 12 + [(100, 2)] * 12) * 2, rate=0.05)
    hourly, by_six = block_dispersion(scatter, hours=1), block_dispersion(scatter, hours=6)
    assert hourly is not None
    assert by_six is not None
    assert hourly < by_six == dispersion(scatter)


def test_too_few_blocks() -> None:
    """Three hours with scored turns measure no dispersion: the ratio is 1."""
    assert dispersion(rate_scatter([(10, 9), (10, 0), (10, 9), (0, 0)], rate=0.5)) == 1.0


def test_a_broken_block_is_left_out() -> None:
    """Hours after the last whole block do not count for that block length."""
    whole = rate_scatter([(100, 5)] * 24, rate=0.05)
    longer = (*whole, *rate_scatter([(100, 50)] * 5, rate=0.05))
    assert block_dispersion(whole, hours=6) == block_dispersion(longer, hours=6)


@given(hours=HOURS)
def test_null_rate_is_above_the_reference(hours: list[tuple[int, int]]) -> None:
    """The null rate is at most 1 and at least the upper limit and the rate; nothing scored gives no reference."""
    reference = rate_reference(hours)
    if sum(scored for scored, _ in hours) == 0:
        assert reference is None
    else:
        assert reference is not None
        assert 0 < reference.rate < 1
        assert reference.upper <= reference.null_rate <= 1
        assert reference.dispersion >= 1


@given(hours=HOURS, where=st.integers(0, 60))
def test_pinned_totals_are_the_reference(hours: list[tuple[int, int]], where: int) -> None:
    """Totals and dispersion are all a reference needs, so a stored one comes back the same."""
    hours.insert(where, (50, 3))
    reference = rate_reference(hours)
    assert reference is not None
    again = pinned_reference(reference.scored, reference.defects, dispersion_ratio=reference.dispersion)
    assert reference == again


def test_minimum_effect() -> None:
    """With much traffic the null rate is the reference raised by the minimum effect."""
    hours = [(100_000, 100)] * 168
    raised = rate_reference(hours)
    bare = rate_reference(hours, minimum_effect=0.0)
    assert raised
    assert bare
    assert raised.null_rate == pytest.approx(1.10 * raised.rate)
    assert bare.null_rate == bare.upper < raised.null_rate


def test_impossible_references() -> None:
    """A dispersion below 1, a negative effect, and more defects than turns are refused."""
    with pytest.raises(ValueError, match="dispersion"):
        pinned_reference(100, 2, dispersion_ratio=0.5)
    with pytest.raises(ValueError, match="effect"):
        rate_reference([(100, 2)], minimum_effect=-0.1)
    with pytest.raises(ValueError, match="defects"):
        rate_reference([(100, 101)])


def test_clustering_is_measured(rng: random.Random) -> None:
    """Turns that come in sessions of five equal outcomes scatter about five times as much."""
    hours = [(100, 5 * sum(rng.random() < 0.1 for _ in range(20))) for _ in range(168)]
    hourly = block_dispersion(rate_scatter(hours, rate=0.1), hours=1)
    reference = rate_reference(hours)
    assert hourly
    assert reference
    assert 3.5 < hourly < 6.5
    assert hourly * 0.99 < reference.dispersion


def test_scores_become_badness() -> None:
    """Scores 1 to 5 read as badness from 1 to 0, with its standard deviation."""
    reference = score_reference([(10, 0, 0, 0, 30)] * 48)
    assert reference is not None
    assert (reference.rate, reference.defects, reference.scored) == (0.25, 480.0, 1920)
    assert reference.deviation == pytest.approx((0.25 * 0.75) ** 0.5)


def test_perfect_scores_leave_doubt() -> None:
    """A reference of fives only still allows what as many turns without a defect allow."""
    reference = score_reference([(0, 0, 0, 0, 10)] * 48)
    assert reference is not None
    assert (reference.rate, reference.deviation, reference.dispersion) == (0.0, 0.0, 1.0)
    assert reference.null_rate == clopper_pearson_upper(0, 480, confidence=0.90)


def test_no_scores() -> None:
    """Without scores there is no reference."""
    assert score_reference([(0, 0, 0, 0, 0)] * 48) is None
    assert score_reference([]) is None
