"""Thresholds of evidence from a budget of false alarms.

False alarms add up whatever the dependence between streams, so a family's budget is split into shares.
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


def family_thresholds(*, metrics: int, slices: int, alarms_per_month: float = 1.0) -> tuple[float, float]:
    """Return the thresholds (of each app-level stream, of each slice stream) of one app's continuous watches.

    Half of the budget goes to the metrics of the whole app, half to the metrics x slices; without slices the app-level
    streams have all of it.

    >>> family_thresholds(metrics=5, slices=20)
    (7200.0, 144000.0)
    >>> family_thresholds(metrics=5, slices=0)
    (3600.0, 3600.0)
    """
    if metrics < 1 or slices < 0:
        raise ValueError(
            f"alarm budget: {metrics} metrics x {slices} slices; allowed: at least 1 metric, no fewer than 0 slices"
        )
    if slices == 0:
        whole = continuous_threshold(alarms_per_month=alarms_per_month, share=1 / metrics)
        return whole, whole
    return (
        continuous_threshold(alarms_per_month=alarms_per_month / 2, share=1 / metrics),
        continuous_threshold(alarms_per_month=alarms_per_month / 2, share=1 / (metrics * slices)),
    )


def release_threshold(*, metrics: int = 1, chance: float = 0.05) -> float:
    """Return the evidence at which a release watch alarms: 1 / (chance of ever a false alarm, split over metrics).

    >>> release_threshold(metrics=5)
    100.0
    """
    if metrics < 1:
        raise ValueError(f"alarm budget: {metrics} metrics; allowed: at least 1")
    if not 0 < chance < 1:
        raise ValueError(f"alarm budget: chance is {chance}; allowed: above 0 and below 1")
    return metrics / chance
