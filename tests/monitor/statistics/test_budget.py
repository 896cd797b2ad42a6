"""Thresholds from a budget of false alarms."""

import pytest

from monitor.statistics.budget import continuous_threshold, family_thresholds, release_threshold


@pytest.mark.parametrize(("metrics", "slices"), [(1, 0), (5, 0), (5, 20), (3, 1)])
def test_family_keeps_its_budget(metrics: int, slices: int) -> None:
    """Over 720 hours the expected false alarms of all streams add up to the budget."""
    app_level, slice_level = family_thresholds(metrics=metrics, slices=slices, alarms_per_month=2.5)
    total = metrics * 720 / app_level + metrics * slices * 720 / slice_level
    assert total == pytest.approx(2.5, rel=1e-12)


def test_one_stream_has_the_whole_budget() -> None:
    """One alarm a month for one stream is one in 720 hours."""
    assert continuous_threshold() == 720.0


def test_release_chance_is_split() -> None:
    """Five metrics share a chance of 5 %: each alarms at 100 to 1."""
    assert release_threshold(metrics=5, chance=0.05) == pytest.approx(100.0)


def test_impossible_budgets() -> None:
    """A budget that promises nothing, or that is no budget, is refused."""
    with pytest.raises(ValueError, match="above 0"):
        continuous_threshold(alarms_per_month=0)
    with pytest.raises(ValueError, match="share"):
        continuous_threshold(share=1.5)
    with pytest.raises(ValueError, match="metric"):
        family_thresholds(metrics=0, slices=3)
    with pytest.raises(ValueError, match="metric"):
        release_threshold(metrics=0)
    with pytest.raises(ValueError, match="chance"):
        release_threshold(chance=1.0)
