"""Regressions become messages: pending, firing, resolved; then dedup, retry, record, as in Prometheus Alertmanager.

A transition and the notifications it causes are one transaction, so a process may die anywhere: what was decided is
sent after a restart and nothing is decided twice. Delivery is at least once; a message goes out again only when the
process died between the other side taking it and the row that says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from monitor.errors import Permanent, Retryable
from monitor.model.trends import Alert, AlertState, Notification
from monitor.ports import Channel
from monitor.retry import LONGEST, backoff
from monitor.settings.tree import AlertSettings
from monitor.stores import AlertStore

log = logging.getLogger(__name__)

NEVER = datetime.max.replace(tzinfo=UTC)
"""`not_before` of a notification that was given up."""

_PATIENCE = timedelta(minutes=2)
"""A channel that is silent this long is treated as failed, whatever its own time limit is."""
_OPEN = (AlertState.PENDING, AlertState.FIRING)
_ORDER = (AlertState.FIRING, AlertState.RESOLVED)


def tick(store: AlertStore, settings: AlertSettings, *, channels: Sequence[str], now: datetime) -> int:
    """Move alerts on and queue the notifications that people must get; return the number of alerts moved.

    An alert that recovered while pending is resolved without a notification.
    """
    moved = 0
    for alert in store.alerts(states=_OPEN):
        if (step := _advance(alert, hold=settings.hold, now=now)) is None:
            continue
        advanced, transitions = step
        caused = [
            Notification(alert_id=alert.alert_id, channel=channel, transition=transition)
            for transition in transitions
            for channel in channels
        ]
        if not store.move_alert(advanced, before=alert.state, notifications=caused):
            continue
        moved += 1
        series = alert.regression.series
        for transition in transitions:
            log.info("alert %s of %s %s: %s", alert.alert_id, series.app, series.metric, transition)
    return moved


def _advance(alert: Alert, *, hold: timedelta, now: datetime) -> tuple[Alert, tuple[AlertState, ...]] | None:
    """Return the alert in its next state with the transitions to notify of; None when it stays as it is."""
    recovered = alert.regression.recovered_at is not None
    if recovered:
        transitions = (AlertState.RESOLVED,) if alert.state is AlertState.FIRING else ()
        return replace(alert, state=AlertState.RESOLVED, resolved_at=now, annotated=False), transitions
    if alert.state is AlertState.PENDING and now >= alert.pending_at + hold:
        return replace(alert, state=AlertState.FIRING, firing_at=now, annotated=False), (AlertState.FIRING,)
    return None


async def deliver(
    store: AlertStore, channels: Mapping[str, Channel], settings: AlertSettings, *, now: datetime
) -> tuple[Notification, ...]:
    """Send what is due and return the notifications as recorded: sent, to be retried, or given up.

    Channels do not wait for each other; within a channel an incident's firing message goes before its resolved one.

    Raises:
        StoreUnavailable: what one channel was sent could not be recorded; all others were sent theirs before that.
    """
    waiting = [n for n in await asyncio.to_thread(store.notifications, due=NEVER) if n.not_before != NEVER]
    if not waiting:
        return ()
    alerts = {alert.alert_id: alert for alert in await asyncio.to_thread(store.alerts)}
    queues: dict[str, list[Notification]] = {}
    for notification in sorted(waiting, key=lambda n: _ORDER.index(n.transition)):
        queues.setdefault(notification.channel, []).append(notification)
    faults: list[Exception] = []
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                _isolated(_drain(store, channels.get(name), settings, queue=queue, alerts=alerts, now=now), faults)
            )
            for name, queue in queues.items()
        ]
    if faults:
        raise faults[0]
    return tuple(notification for task in tasks for notification in task.result())


async def _isolated(work: Awaitable[list[Notification]], faults: list[Exception]) -> list[Notification]:
    """Return what the work on one channel recorded; its fault goes to `faults`: raised, it would end the others'."""
    try:
        return await work
    except Exception as error:  # noqa: BLE001 -- raised when all channels are done
        faults.append(error)
        return []


async def _drain(
    store: AlertStore,
    channel: Channel | None,
    settings: AlertSettings,
    *,
    queue: Sequence[Notification],
    alerts: Mapping[str, Alert],
    now: datetime,
) -> list[Notification]:
    """Work off one channel's queue, firing messages first; an incident whose message failed waits with the next one."""
    recorded: list[Notification] = []
    postponed: set[str] = set()
    for notification in queue:
        if notification.alert_id in postponed:
            continue
        if notification.not_before is not None and notification.not_before > now:
            postponed.add(notification.alert_id)
            continue
        attempted = await _attempt(channel, alerts.get(notification.alert_id), notification, settings=settings, now=now)
        await asyncio.to_thread(store.save_notification, attempted)
        recorded.append(attempted)
        if attempted.sent_at is None and attempted.not_before != NEVER:
            postponed.add(notification.alert_id)
    return recorded


async def _attempt(
    channel: Channel | None, alert: Alert | None, notification: Notification, *, settings: AlertSettings, now: datetime
) -> Notification:
    """Send once and return what is to be recorded."""
    attempted = replace(notification, attempt=notification.attempt + 1, not_before=None)
    if channel is None or alert is None:
        return _give_up(attempted, "no_channel" if channel is None else "no_alert")
    try:
        async with asyncio.timeout(_PATIENCE.total_seconds()):
            await channel.send(replace(alert, state=notification.transition))
    except Permanent as error:
        return _give_up(attempted, error.reason)
    except Retryable as error:
        pause = error.retry_after if isinstance(error.retry_after, timedelta) else None
        return _retry_later(attempted, type(error).__name__, settings=settings, now=now, at_least=pause)
    except Exception as error:  # noqa: BLE001 -- a channel is foreign code; its fault must not keep others from sending
        return _retry_later(attempted, type(error).__name__, settings=settings, now=now, at_least=None)
    except asyncio.CancelledError as error:
        # The channel's own, unless it is this task that is to end.
        if (task := asyncio.current_task()) is None or task.cancelling():
            raise
        return _retry_later(attempted, type(error).__name__, settings=settings, now=now, at_least=None)
    return replace(attempted, sent_at=now, failure="")


def _retry_later(
    notification: Notification, failure: str, *, settings: AlertSettings, now: datetime, at_least: timedelta | None
) -> Notification:
    """Return the failed attempt with its next time: doubled each time or what the other asks for, at most an hour."""
    if notification.attempt >= settings.attempts:
        return _give_up(notification, failure)
    not_before = now + backoff(notification.attempt, first=settings.backoff, longest=LONGEST, at_least=at_least)
    log.warning(
        "alert %s: the %s message was not sent to channel %s (%s, attempt %d of %d); next attempt at %s",
        notification.alert_id, notification.transition, notification.channel, failure, notification.attempt,
        settings.attempts, not_before,
    )  # fmt: skip
    return replace(notification, failure=failure, not_before=not_before)


def _give_up(notification: Notification, failure: str) -> Notification:
    log.error(
        "alert %s: the %s message will never be sent to channel %s (%s after %d attempts)",
        notification.alert_id, notification.transition, notification.channel, failure, notification.attempt,
    )  # fmt: skip
    return replace(notification, failure=failure, not_before=NEVER)
