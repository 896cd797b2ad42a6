"""Defect rates of weighted turns."""

import itertools
import math
import random
from dataclasses import astuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.trends import Sums as WindowSums
from monitor.statistics.intervals import wilson
from monitor.statistics.rates import Sums, effective_counts, merge, wilson_rate

TURNS = st.lists(st.tuples(st.floats(1, 100), st.booleans()), min_size=1, max_size=60)
NOTHING = Sums(0, 0.0, 0.0, 0.0, 0.0)


def sums_of(turns: list[tuple[float, bool]]) -> Sums:
    """Return the sums of (weight, defect) turns."""
    return Sums(
        len(turns),
        math.fsum(w for w, _ in turns),
        math.fsum(w * w for w, _ in turns),
        math.fsum(w for w, x in turns if x),
        math.fsum(w * w for w, x in turns if x),
    )


def test_recorded_rates(golden: dict[str, Any]) -> None:
    """Rate, effective size and limits agree with an independent implementation, with and without defects."""
    for case in golden["rates"]:
        rate = wilson_rate(Sums(*case["sums"]))
        assert rate is not None
        expected = (case["value"], case["n_eff"], case["lower"], case["upper"])
        assert expected == pytest.approx((rate.value, rate.n_eff, rate.lower, rate.upper), rel=1e-12)


@given(turns=TURNS, cuts=st.lists(st.integers(0, 60), max_size=5))
def test_merging_windows(turns: list[tuple[float, bool]], cuts: list[int]) -> None:
    """Any split of the turns into windows merges to the sums of the whole."""
    edges = [0, *sorted(cuts), len(turns)]
    parts = [sums_of(turns[start:end]) for start, end in itertools.pairwise(edges)]
    assert astuple(sums_of(turns)) == pytest.approx(astuple(merge(parts)), rel=1e-12)


def test_merging_nothing() -> None:
    """No windows merge to the sums of no turns."""
    assert merge([]) == NOTHING


@given(scored=st.integers(1, 10_000), share=st.floats(0, 1), weight=st.floats(1, 1000))
def test_equal_weights(scored: int, share: float, weight: float) -> None:
    """With equal weights the effective size is the number of turns, and the limits are the plain ones."""
    defects = round(scored * share)
    rate = wilson_rate(Sums(scored, scored * weight, scored * weight**2, defects * weight, defects * weight**2))
    assert rate is not None
    assert scored == pytest.approx(rate.n_eff, rel=1e-9)
    assert wilson(defects / scored, scored) == pytest.approx((rate.lower, rate.upper), abs=1e-9)


@given(turns=TURNS)
def test_limits_hold_the_rate(turns: list[tuple[float, bool]]) -> None:
    """The limits lie in [0, 1] around the rate."""
    rate = wilson_rate(sums_of(turns))
    assert rate
    assert 0 <= rate.lower <= rate.value <= rate.upper <= 1


def test_nothing_scored() -> None:
    """Without scored turns there is no rate, rather than a rate of zero."""
    assert wilson_rate(NOTHING) is None
    assert effective_counts(NOTHING) == (0.0, 0.0)


def test_window_sums_are_read_as_they_are() -> None:
    """The sums of a rollup window give the same rate as the bare sums."""
    window = WindowSums(turns=900, n=98, k=5, sw=710.0, sw2=6425.0, swx=35.0, sw2x=237.5)
    assert wilson_rate(Sums(98, 710.0, 6425.0, 35.0, 237.5)) == wilson_rate(window)


@given(turns=TURNS, scale=st.floats(0.01, 100))
def test_effective_counts_ignore_the_scale_of_weights(turns: list[tuple[float, bool]], scale: float) -> None:
    """Multiplying every weight changes no effective count; they never exceed the turns."""
    scored, defects = effective_counts(sums_of(turns))
    scaled = effective_counts(sums_of([(w * scale, x) for w, x in turns]))
    assert (scored, defects) == pytest.approx(scaled, rel=1e-9)
    assert defects <= scored <= len(turns) * (1 + 1e-9)


@pytest.mark.parametrize(
    "sums",
    [
        Sums(10, 10.0, 10.0, 11.0, 11.0),
        Sums(10, 10.0, 10.0, -1.0, 1.0),
        Sums(0, 5.0, 5.0, 0.0, 0.0),
        Sums(5, 0.0, 0.0, 0.0, 0.0),
        Sums(10, 10.0, 1.0, 0.0, 0.0),
        Sums(10, 10.0, 10.0, 5.0, 0.0),
        Sums(10, math.nan, 10.0, 1.0, 1.0),
        Sums(10, math.inf, math.inf, 1.0, 1.0),
    ],
)
def test_impossible_sums(sums: Sums) -> None:
    """Sums that no turns can have are refused."""
    with pytest.raises(ValueError, match="no turns have"):
        wilson_rate(sums)


def test_coverage_under_unequal_weights(rng: random.Random) -> None:
    """Over 2000 samples of half rare-slice turns, 95 % limits hold the true rate in 93 to 98 % of them."""
    runs, covered = 2000, 0
    for _ in range(runs):
        rare = [(1.0, rng.random() < 0.20) for _ in range(100)]
        common = [(19.0, rng.random() < 0.05) for _ in range(100)]
        rate = wilson_rate(sums_of(rare + common))
        assert rate is not None
        covered += rate.lower <= 0.05 * 0.20 + 0.95 * 0.05 <= rate.upper
    assert 0.93 <= covered / runs <= 0.98
