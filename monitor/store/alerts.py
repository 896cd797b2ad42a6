"""Alerts; `notifications` holds what people are sent of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import Connection, Row, or_, select, update

from monitor.model.trends import Alert, AlertState, Notification, Regression
from monitor.store.notifications import queue
from monitor.store.series import series_of
from monitor.store.statements import insert
from monitor.store.tables import alerts
from monitor.store.turn_rows import Cell


def newest(connection: Connection, *, states: Sequence[AlertState] | None, limit: int | None) -> tuple[Alert, ...]:
    """Return alerts, the last one to begin pending first."""
    statement = select(alerts).order_by(alerts.c.pending_at.desc(), alerts.c.alert_id)
    if states is not None:
        statement = statement.where(alerts.c.state.in_([state.value for state in states]))
    return tuple(_alert(row) for row in connection.execute(statement.limit(limit)))


def save(connection: Connection, changed: Sequence[Alert]) -> None:
    """Write alerts; of a known one only its regression, and not by a copy that does not know yet of its recovery."""
    if not changed:
        return
    statement = insert(connection, alerts)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["alert_id"],
            set_={name: statement.excluded[name] for name in _regression_row(changed[0].regression)},
            where=or_(alerts.c.recovered_at.is_(None), statement.excluded.recovered_at.is_not(None)),
        ),
        [_alert_row(alert) for alert in sorted(changed, key=lambda a: a.alert_id)],
    )


def move(connection: Connection, alert: Alert, *, before: AlertState, caused: Sequence[Notification]) -> bool:
    """Write the state and what it causes, unless the state on record is another one than `before`."""
    moved = connection.execute(
        update(alerts)
        .where(alerts.c.alert_id == alert.alert_id, alerts.c.state == before.value)
        .values(**_state_row(alert))
    )
    if not moved.rowcount:
        return False
    queue(connection, caused)
    return True


def mark_annotated(connection: Connection, alert: Alert) -> bool:
    """Note it, unless the alert is in another state by now."""
    marked = connection.execute(
        update(alerts)
        .where(alerts.c.alert_id == alert.alert_id, alerts.c.state == alert.state.value)
        .values(annotated=True)
    )
    return bool(marked.rowcount)


def _alert_row(alert: Alert) -> dict[str, Cell]:
    return {
        "alert_id": alert.alert_id,
        "fingerprint": alert.fingerprint,
        **_regression_row(alert.regression),
        "pending_at": alert.pending_at,
        **_state_row(alert),
    }


def _state_row(alert: Alert) -> dict[str, Cell]:
    return {
        "state": alert.state.value,
        "firing_at": alert.firing_at,
        "resolved_at": alert.resolved_at,
        "annotated": alert.annotated,
    }


def _regression_row(regression: Regression) -> dict[str, Cell]:
    return {
        **asdict(regression.series),
        "rule": regression.rule,
        "began_at": regression.began_at,
        "detected_at": regression.detected_at,
        "recovered_at": regression.recovered_at,
        "rate": regression.rate,
        "rate_lower": regression.rate_lower,
        "rate_upper": regression.rate_upper,
        "baseline_rate": regression.baseline_rate,
        "null_rate": regression.null_rate,
        # Evidence grows without bound, and an infinite amount of it is kept as the largest number there is.
        "evidence_log10": max(-sys.float_info.max, min(sys.float_info.max, regression.evidence_log10)),
        "threshold_log10": regression.threshold_log10,
        "release": regression.release,
        "promise": regression.promise,
        "judge_change": regression.judge_change,
    }


def _alert(row: Row[tuple[object, ...]]) -> Alert:
    return Alert(
        alert_id=row.alert_id,
        fingerprint=row.fingerprint,
        state=AlertState(row.state),
        regression=Regression(
            series=series_of(row),
            rule=row.rule,
            began_at=row.began_at,
            detected_at=row.detected_at,
            recovered_at=row.recovered_at,
            rate=row.rate,
            rate_lower=row.rate_lower,
            rate_upper=row.rate_upper,
            baseline_rate=row.baseline_rate,
            null_rate=row.null_rate,
            evidence_log10=row.evidence_log10,
            threshold_log10=row.threshold_log10,
            release=row.release,
            promise=row.promise,
            judge_change=row.judge_change,
        ),
        pending_at=row.pending_at,
        firing_at=row.firing_at,
        resolved_at=row.resolved_at,
        annotated=row.annotated,
    )
