"""A regression and its alert, with every field that a test does not care about filled in."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from monitor.model.trends import Alert, AlertState, Regression, Series

SHOP = Series(app="shop", environment="production", slice="", metric="groundedness", rubric_id="r1")
BEGAN_AT = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)


def rise(*, began_at: datetime = BEGAN_AT, detected_at: datetime | None = None, **changed: object) -> Regression:
    """Return a rise from 5 to 20 % that goes on, detected three hours after it began; `changed` are other fields."""
    regression = Regression(
        series=SHOP,
        rule="continuous",
        began_at=began_at,
        detected_at=detected_at or began_at + timedelta(hours=3),
        recovered_at=None,
        rate=0.2,
        rate_lower=0.15,
        rate_upper=0.25,
        baseline_rate=0.05,
        null_rate=0.06,
        evidence_log10=4.0,
        threshold_log10=3.0,
    )
    return replace(regression, **changed)  # type: ignore[arg-type]


def alert_about(
    regression: Regression, state: AlertState = AlertState.FIRING, *, alert_id: str = "a1", **changed: object
) -> Alert:
    """Return an alert that came to its state as soon as it could; `changed` are other fields."""
    at = regression.detected_at
    alert = Alert(
        alert_id=alert_id,
        fingerprint="f1",
        state=state,
        regression=regression,
        pending_at=at,
        firing_at=None if state is AlertState.PENDING else at,
        resolved_at=regression.recovered_at if state is AlertState.RESOLVED else None,
    )
    return replace(alert, **changed)  # type: ignore[arg-type]
