"""Confidence limits of one proportion."""

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.intervals import (
    beta_quantile,
    clopper_pearson_upper,
    normal_quantile,
    wilson,
)

SHARES = st.floats(0, 1)
SIZES = st.floats(0.01, 1e9)
CONFIDENCES = st.floats(0.5, 0.9999)


@pytest.mark.parametrize(
    ("defects", "scored", "wilson_limits", "exact_upper"),
    [
        (81, 263, (0.2553, 0.3662), 0.3676),
        (15, 148, (0.0624, 0.1605), 0.1617),
        (0, 20, (0.0, 0.1611), 0.1684),
        (1, 29, (0.0061, 0.1718), 0.1776),
    ],
)
def test_published_limits(defects: int, scored: int, wilson_limits: tuple[float, float], exact_upper: float) -> None:
    """The 95 % limits are those of Newcombe 1998, table I, methods 3 and 5."""
    assert wilson_limits == tuple(round(limit, 4) for limit in wilson(defects / scored, scored))
    assert exact_upper == round(clopper_pearson_upper(defects, scored, confidence=0.975), 4)


def test_recorded_upper_limits(golden: dict[str, Any]) -> None:
    """Upper limits agree with an independent implementation, also for no defect and for fractional counts."""
    for case in golden["clopper_pearson_upper"]:
        limit = clopper_pearson_upper(case["defects"], case["scored"], confidence=case["confidence"])
        assert case["limit"] == pytest.approx(limit, rel=0, abs=1e-12)


@given(share=SHARES, size=SIZES, confidence=CONFIDENCES)
def test_wilson_holds_the_share(share: float, size: float, confidence: float) -> None:
    """The limits lie in [0, 1] and around the share."""
    lower, upper = wilson(share, size, confidence=confidence)
    assert 0 <= lower <= share <= upper <= 1


@given(shares=st.tuples(SHARES, SHARES).map(sorted), size=SIZES)
def test_wilson_grows_with_the_share(shares: list[float], size: float) -> None:
    """A higher share never has a lower limit."""
    (low_lower, low_upper), (high_lower, high_upper) = (wilson(share, size) for share in shares)
    assert low_lower <= high_lower + 1e-12
    assert low_upper <= high_upper + 1e-12


@given(share=SHARES, size=SIZES)
def test_wilson_narrows_with_size(share: float, size: float) -> None:
    """Twice the turns give an interval at least as narrow."""
    lower, upper = wilson(share, size)
    narrower_lower, narrower_upper = wilson(share, 2 * size)
    assert narrower_upper - narrower_lower <= upper - lower + 1e-12


@given(counts=st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n))))
def test_upper_limit_has_the_stated_tail(counts: tuple[int, int]) -> None:
    """At the 90 % upper limit as few defects as were seen have a chance of 10 %, by exact rational arithmetic."""
    defects, scored = counts
    rate = Fraction(clopper_pearson_upper(defects, scored, confidence=0.90))
    tail = sum(math.comb(scored, k) * rate**k * (1 - rate) ** (scored - k) for k in range(defects + 1))
    assert float(tail) == pytest.approx(0.10, rel=1e-9)


@given(
    probability=st.floats(1e-6, 1 - 1e-6),
    a=st.floats(1e-3, 1e6),
    b=st.floats(1e-3, 1e6),
    factor=st.floats(1.001, 2.0),
)
def test_beta_quantile_grows_with_probability(probability: float, a: float, b: float, factor: float) -> None:
    """A higher probability never has a lower quantile, and quantiles stay in [0, 1]."""
    low = beta_quantile(probability, a, b=b)
    high = beta_quantile(min(probability * factor, 1 - 1e-7), a, b=b)
    assert 0 <= low <= high + 1e-12 <= 1 + 1e-12


def test_many_turns() -> None:
    """A hundred million turns are no trouble: the limit is the normal one to 9 digits."""
    normal = 0.02 + normal_quantile(0.90) * math.sqrt(0.02 * 0.98 / 1e8)
    assert normal == pytest.approx(clopper_pearson_upper(2e6, 1e8, confidence=0.90), rel=0, abs=2e-8)


def test_all_defective() -> None:
    """Where every turn is a defect the upper limit is 1."""
    assert clopper_pearson_upper(10, 10, confidence=0.90) == 1.0


@pytest.mark.parametrize(
    ("defects", "scored", "confidence"),
    [
        (0, 0, 0.9),
        (-1, 10, 0.9),
        (11, 10, 0.9),
        (math.nan, 10, 0.9),
        (1, math.nan, 0.9),
        (1, math.inf, 0.9),
        (1, 10, 0.0),
        (1, 10, 1.0),
        (0, 10, 1.0),
        (0, 10, math.nan),
    ],
)
def test_impossible_counts(defects: float, scored: float, confidence: float) -> None:
    """Counts or a confidence that cannot be are refused."""
    with pytest.raises(ValueError, match="allowed"):
        clopper_pearson_upper(defects, scored, confidence=confidence)


@pytest.mark.parametrize(("share", "size"), [(-0.1, 10), (1.1, 10), (math.nan, 10), (0.5, 0), (0.5, math.nan)])
def test_impossible_share(share: float, size: float) -> None:
    """A share outside [0, 1] or a size that is not positive is refused."""
    with pytest.raises(ValueError, match="allowed"):
        wilson(share, size)


@pytest.mark.parametrize(("probability", "a", "b"), [(0, 1, 1), (1, 1, 1), (0.5, 0, 1), (0.5, 1, math.inf)])
def test_impossible_quantile(probability: float, a: float, b: float) -> None:
    """A probability or shape that no beta distribution has is refused."""
    with pytest.raises(ValueError, match="allowed"):
        beta_quantile(probability, a, b=b)
