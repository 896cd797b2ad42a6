"""Agreement of verdicts with truths, against examples worked out by hand."""

import pytest

from monitor.statistics.agreement import agreement, area, share


def _pairs(hits: int, alarms: int, missed: int, passed: int) -> list[tuple[bool, bool]]:
    return [(True, True)] * hits + [(True, False)] * alarms + [(False, True)] * missed + [(False, False)] * passed


def test_shares() -> None:
    """Sensitivity is over true defects, specificity over the others, precision over what was found."""
    rates = agreement(_pairs(20, 10, 5, 65))
    assert rates.sensitivity is not None
    assert rates.specificity is not None
    assert rates.precision is not None
    assert rates.agreed is not None
    assert (0.8, 65 / 75, 2 / 3, 0.85) == (
        rates.sensitivity.value,
        rates.specificity.value,
        rates.precision.value,
        rates.agreed.value,
    )
    assert (25, 75, 30, 100) == (
        rates.sensitivity.of,
        rates.specificity.of,
        rates.precision.of,
        rates.turns,
    )


def test_kappa() -> None:
    """Cohen's own kind of example: 20, 5, 10, 15 of 50 agree on 70 % where chance gives 50 %, so kappa is 0.4."""
    assert pytest.approx(0.4) == agreement(_pairs(20, 5, 10, 15)).kappa
    assert pytest.approx(1.0) == agreement(_pairs(3, 0, 0, 7)).kappa
    assert pytest.approx(0.0) == agreement(_pairs(1, 1, 1, 1)).kappa


def test_one_sided() -> None:
    """Where both always say the same there is nothing to agree on beyond chance, and shares of nothing are None."""
    rates = agreement(_pairs(0, 0, 0, 9))
    assert (None, None, None) == (rates.sensitivity, rates.precision, rates.kappa)
    assert (0, None, None) == (agreement([]).turns, agreement([]).agreed, agreement([]).kappa)


def test_interval() -> None:
    """The interval is Wilson's: 8 of 10 lie between 49 % and 94 %."""
    rates = share(8, 10)
    assert rates is not None
    assert (0.490, 0.943) == (round(rates.lower, 3), round(rates.upper, 3))
    assert share(0, 0) is None


@pytest.mark.parametrize(
    ("scored", "expected"),
    [
        ([(1.0, True), (5.0, False)], 1.0),
        ([(5.0, True), (1.0, False)], 0.0),
        ([(3.0, True), (3.0, False)], 0.5),
        ([(1.0, True), (3.0, False), (3.0, True), (5.0, False)], 3.5 / 4),
        ([(1.0, True), (2.0, True), (2.0, False), (0.0, False)], 1.5 / 4),
        ([(1.0, True)], None),
        ([], None),
    ],
)
def test_area(scored: list[tuple[float, bool]], expected: float | None) -> None:
    """Each pair of a defect and another turn counts 1, a tie a half, and the wrong order 0."""
    assert expected == area(scored)
    assert expected == area(list(reversed(scored)))
