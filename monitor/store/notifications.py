"""Notifications: what is to be sent to whom, and the log of what was sent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, Row, and_, case, exists, func, or_, select

from monitor.model.trends import NEVER, AlertState, Notification, Undelivered
from monitor.store.statements import insert
from monitor.store.tables import alerts, notifications
from monitor.store.turn_rows import Cell

_ORDER = {state.value: place for place, state in enumerate(AlertState)}


def queue(connection: Connection, caused: Sequence[Notification]) -> None:
    """Write notifications; one that is known already is left as it is."""
    if caused:
        connection.execute(
            insert(connection, notifications).on_conflict_do_nothing(),
            [_row(n) for n in sorted(caused, key=lambda n: (n.alert_id, n.channel, n.transition))],
        )


def save(connection: Connection, notification: Notification) -> None:
    """Record an attempt or a success; what was sent stays sent."""
    statement = insert(connection, notifications).values(_row(notification))
    attempted = ("attempt", "sent_at", "not_before", "failure", "waiting_since", "channel_digest")
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["alert_id", "channel", "transition"],
            set_={name: statement.excluded[name] for name in attempted},
            where=notifications.c.sent_at.is_(None),
        )
    )


def firing_messages(connection: Connection) -> frozenset[tuple[str, str]]:
    """Return alert id and channel of each firing message of alerts that are firing."""
    rows = connection.execute(
        select(notifications.c.alert_id, notifications.c.channel)
        .join_from(notifications, alerts, alerts.c.alert_id == notifications.c.alert_id)
        .where(
            alerts.c.state == AlertState.FIRING.value,
            notifications.c.transition == AlertState.FIRING.value,
        )
    )
    return frozenset((row.alert_id, row.channel) for row in rows)


def unsent(connection: Connection, *, since: datetime) -> tuple[Notification, ...]:
    """Return notifications that are still wanted, those of the earliest transitions first."""
    transition_at = func.coalesce(
        case(
            (notifications.c.transition == AlertState.PENDING.value, alerts.c.pending_at),
            (notifications.c.transition == AlertState.FIRING.value, alerts.c.firing_at),
            else_=alerts.c.resolved_at,
        ),
        alerts.c.pending_at,
    )
    end = notifications.alias()
    end_is_known = exists().where(
        end.c.alert_id == notifications.c.alert_id,
        end.c.channel == notifications.c.channel,
        end.c.transition == AlertState.RESOLVED.value,
        end.c.sent_at.is_not(None),
    )
    rows = connection.execute(
        select(notifications, func.coalesce(notifications.c.waiting_since, transition_at).label("since"))
        .join_from(notifications, alerts, alerts.c.alert_id == notifications.c.alert_id)
        .where(
            notifications.c.sent_at.is_(None),
            or_(
                notifications.c.not_before.is_(None),
                notifications.c.not_before < NEVER,
                alerts.c.resolved_at.is_(None),
                alerts.c.resolved_at >= since,
            ),
            ~and_(notifications.c.transition == AlertState.FIRING.value, end_is_known),
        )
        .order_by(
            transition_at,
            case(_ORDER, value=notifications.c.transition),
            notifications.c.alert_id,
            notifications.c.channel,
        )
    )
    return tuple(_notification(row) for row in rows)


def undelivered(connection: Connection, *, since: datetime) -> tuple[Undelivered, ...]:
    """Return what each channel has not taken, by the channel's name."""
    by_channel: dict[str, list[Notification]] = {}
    for notification in unsent(connection, since=since):
        by_channel.setdefault(notification.channel, []).append(notification)
    if not by_channel:
        return ()
    sent = connection.execute(
        select(notifications.c.channel, func.max(notifications.c.sent_at).label("latest"))
        .where(notifications.c.sent_at.is_not(None))
        .group_by(notifications.c.channel)
    )
    latest = {row.channel: row.latest for row in sent}
    return tuple(_of_channel(name, by_channel[name], latest.get(name)) for name in sorted(by_channel))


def _of_channel(name: str, messages: Sequence[Notification], latest_sent_at: datetime | None) -> Undelivered:
    failed = sorted((n for n in messages if n.failure), key=lambda n: n.waiting_since)
    given_up = sum(n.not_before == NEVER for n in messages)
    return Undelivered(
        channel=name,
        waiting=len(messages) - given_up,
        given_up=given_up,
        oldest_at=min(n.waiting_since for n in messages),
        failure=failed[0].failure if failed else "",
        is_silent=any(latest_sent_at is None or latest_sent_at < n.waiting_since for n in failed),
    )


def _notification(row: Row[tuple[object, ...]]) -> Notification:
    return Notification(
        alert_id=row.alert_id,
        channel=row.channel,
        transition=AlertState(row.transition),
        waiting_since=row.since,
        attempt=row.attempt,
        sent_at=row.sent_at,
        not_before=row.not_before,
        failure=row.failure,
        channel_digest=row.channel_digest,
    )


def _row(notification: Notification) -> dict[str, Cell]:
    return {
        "alert_id": notification.alert_id,
        "channel": notification.channel,
        "transition": notification.transition.value,
        "attempt": notification.attempt,
        "sent_at": notification.sent_at,
        "not_before": notification.not_before,
        "failure": notification.failure,
        "waiting_since": notification.waiting_since,
        "channel_digest": notification.channel_digest,
    }
