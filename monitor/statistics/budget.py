"""The threshold of evidence from a budget of false alarms.

False alarms add up whatever the dependence between streams, so the budget of many is split into shares.
"""

HOURS_PER_MONTH = 720.0
"""A month of 30 days, the unit in which budgets are stated."""


def continuous_threshold(*, alarms_per_month: float = 1.0, share: float = 1.0) -> float:
    """Return the evidence at which a continuous watch alarms: its mean time to a false alarm, in hours.

    `share` is this stream's part of the budget. The chance of a false alarm within m hours is at most m / threshold.

    >>> continuous_threshold(alarms_per_month=1, share=0.1)
    7200.0
    """
    if not alarms_per_month > 0:
        raise ValueError(f"alarm budget: alarms per month is {alarms_per_month}; allowed: above 0")
    if not 0 < share <= 1:
        raise ValueError(f"alarm budget: share is {share}; allowed: above 0, at most 1")
    return HOURS_PER_MONTH / (alarms_per_month * share)
