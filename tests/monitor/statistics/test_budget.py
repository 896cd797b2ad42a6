"""The threshold from a budget of false alarms."""

import pytest

from monitor.statistics.budget import continuous_threshold


def test_one_stream_has_the_whole_budget() -> None:
    """One alarm a month for one stream is one in 720 hours."""
    assert continuous_threshold() == 720.0


def test_impossible_budgets() -> None:
    """A budget that promises nothing, or that is no budget, is refused."""
    with pytest.raises(ValueError, match="above 0"):
        continuous_threshold(alarms_per_month=0)
    with pytest.raises(ValueError, match="share"):
        continuous_threshold(share=1.5)
