"""Regressions become messages: pending, firing, resolved; then dedup, retry, record, as in Prometheus Alertmanager.

A transition and the notifications it causes are one transaction, so a process may die anywhere: what was decided is
sent after a restart and nothing is decided twice. Delivery is at least once; a message goes out again only when the
process died between the other side taking it and the row that says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from monitor.errors import Permanent, Retryable
from monitor.model.trends import NEVER, Alert, AlertState, Notification
from monitor.ports import Channel, GoOn, to_the_end
from monitor.retry import LONGEST, backoff
from monitor.settings.tree import AlertSettings
from monitor.stores import AlertStore

log = logging.getLogger(__name__)

_REFUSED_PAUSE = timedelta(minutes=15)
"""After the first refusal."""
_LONGEST_REASON = 200
_NO_CHANNEL = "the settings name no such channel"
_PATIENCE = timedelta(minutes=2)
"""A channel that is silent this long is treated as failed, whatever its own time limit is."""
_AHEAD = timedelta(minutes=1)
"""What is dated this much later than now was dated by a clock that was ahead."""
_OPEN = (AlertState.PENDING, AlertState.FIRING)
_ORDER = (AlertState.FIRING, AlertState.RESOLVED)


def tick(
    store: AlertStore,
    settings: AlertSettings,
    *,
    channels: Sequence[str],
    horizon: timedelta,
    now: datetime,
    go_on: GoOn = to_the_end,
) -> int:
    """Move alerts on and queue the notifications that people must get; return the number of alerts moved.

    `go_on` is asked before each alert.

    A channel that is new hears of what began to fire within the horizon and still does; of an end only who heard of
    the beginning, or is still to hear of it. An alert that recovered while pending is resolved without a notification.
    """
    known = store.firing_messages()
    moved = 0
    for alert in store.alerts(states=_OPEN):
        if not go_on():
            break
        if (step := _advance(alert, hold=settings.hold, now=now)) is None:
            continue
        advanced, transitions = step
        caused = [
            Notification(alert_id=alert.alert_id, channel=channel, transition=transition, waiting_since=now)
            for transition in transitions
            for channel in channels
            if transition is AlertState.FIRING or (alert.alert_id, channel) in known
        ]
        if not store.move_alert(advanced, before=alert.state, notifications=caused):
            continue
        moved += 1
        series = alert.regression.series
        for transition in transitions:
            log.info("alert %s of %s %s: %s", alert.alert_id, series.app, series.metric, transition)
    _tell_new_channels(store, channels, since=now - horizon, now=now)
    return moved


def _tell_new_channels(store: AlertStore, channels: Sequence[str], *, since: datetime, now: datetime) -> None:
    firing = [a for a in store.alerts(states=(AlertState.FIRING,)) if a.firing_at is not None and a.firing_at >= since]
    known = store.firing_messages()
    unheard = [(a.alert_id, channel) for a in firing for channel in channels if (a.alert_id, channel) not in known]
    if not unheard:
        return
    store.queue_notifications(
        [
            Notification(alert_id=alert_id, channel=channel, transition=AlertState.FIRING, waiting_since=now)
            for alert_id, channel in unheard
        ]
    )
    for alert_id, channel in unheard:
        log.info("alert %s: channel %s is new and hears that it is firing", alert_id, channel)


def _advance(alert: Alert, *, hold: timedelta, now: datetime) -> tuple[Alert, tuple[AlertState, ...]] | None:
    """Return the alert in its next state with the transitions to notify of; None when it stays as it is."""
    recovered = alert.regression.recovered_at is not None
    if recovered:
        transitions = (AlertState.RESOLVED,) if alert.state is AlertState.FIRING else ()
        return replace(alert, state=AlertState.RESOLVED, resolved_at=now, annotated=False), transitions
    held = now >= alert.pending_at + hold or now < alert.pending_at - _AHEAD
    if alert.state is AlertState.PENDING and held:
        return replace(alert, state=AlertState.FIRING, firing_at=now, annotated=False), (AlertState.FIRING,)
    return None


async def deliver(
    store: AlertStore,
    channels: Mapping[str, Channel],
    settings: AlertSettings,
    *,
    digests: Mapping[str, str],
    now: datetime,
    go_on: GoOn = to_the_end,
) -> tuple[Notification, ...]:
    """Send what is due and return the notifications as recorded: sent, to be retried, or given up.

    `go_on` is asked before each message.

    Channels do not wait for each other; within a channel an incident's firing message goes before its resolved one.
    `digests` stand for the channels' settings: what failed under others is new, even when it was given up.

    Raises:
        StoreUnavailable: what one channel was sent could not be recorded; all others were sent theirs before that.
    """
    unsent = await asyncio.to_thread(store.notifications, since=now - settings.retry_for)
    waiting = [n for n in (_under(digests, n, now=now) for n in unsent) if n.not_before != NEVER]
    if not waiting:
        return ()
    alerts = {alert.alert_id: alert for alert in await asyncio.to_thread(store.alerts)}
    queues: dict[str, list[Notification]] = {}
    for notification in sorted(waiting, key=lambda n: _ORDER.index(n.transition)):
        queues.setdefault(notification.channel, []).append(notification)
    faults: list[Exception] = []
    drain = partial(_drain, store, settings=settings, alerts=alerts, now=now, go_on=go_on)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_isolated(drain(channels.get(name), queue=queue), faults))
            for name, queue in queues.items()
        ]
    if faults:
        raise faults[0]
    return tuple(notification for task in tasks for notification in task.result())


def _under(digests: Mapping[str, str], notification: Notification, *, now: datetime) -> Notification:
    """Return a notification as it is under the channel's present settings: untried, when it was tried under others."""
    digest = digests.get(notification.channel, notification.channel_digest)
    if digest == notification.channel_digest:
        return notification
    return replace(notification, channel_digest=digest, attempt=0, not_before=None, waiting_since=now)


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
    *,
    settings: AlertSettings,
    queue: Sequence[Notification],
    alerts: Mapping[str, Alert],
    now: datetime,
    go_on: GoOn,
) -> list[Notification]:
    """Work off one channel's queue, firing messages first; an incident whose message failed waits with the next one."""
    recorded: list[Notification] = []
    postponed: set[str] = set()
    for notification in queue:
        if not go_on():
            break
        if notification.alert_id in postponed:
            continue
        # No pause is longer than `LONGEST`, unless the clock was ahead when it began.
        if notification.not_before is not None and now < notification.not_before <= now + LONGEST:
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
        # A digest of "" is no channel's: should the channel come back, its messages are new to it.
        return _give_up(replace(attempted, channel_digest=""), _NO_CHANNEL if channel is None else "no such alert")
    failure = await _failure(channel, replace(alert, state=notification.transition))
    if failure is None:
        return replace(attempted, sent_at=now, failure="")
    if failure.is_refusal and notification.transition is AlertState.FIRING and alert.state is AlertState.RESOLVED:
        # It would keep the end from people, which is all that there is left to hear.
        return _give_up(attempted, failure.reason)
    return _retry_later(attempted, failure, settings=settings, now=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """Why a message was not sent."""

    reason: str
    is_refusal: bool = False
    """Whether the other side, as it is now, will never take it."""
    at_least: timedelta | None = None
    """The pause that the other side asks for."""


async def _failure(channel: Channel, alert: Alert) -> _Failure | None:
    """Send; return None, or why the other side has not taken the alert."""
    try:
        async with asyncio.timeout(_PATIENCE.total_seconds()):
            await channel.send(alert)
    except Permanent as error:
        return _Failure(reason=error.reason, is_refusal=True)
    except Retryable as error:
        pause = error.retry_after if isinstance(error.retry_after, timedelta) else None
        return _Failure(reason=_words(error), at_least=pause)
    except Exception as error:  # noqa: BLE001 -- a channel is foreign code; its fault must not keep others from sending
        return _Failure(reason=type(error).__name__)
    except asyncio.CancelledError as error:
        # The channel's own, unless it is this task that is to end.
        if (task := asyncio.current_task()) is None or task.cancelling():
            raise
        return _Failure(reason=type(error).__name__)
    return None


def _words(error: Retryable) -> str:
    """Return the message of an error of ours, which is free of secrets and user text, and short enough to keep."""
    return str(error)[:_LONGEST_REASON] or type(error).__name__


def _retry_later(
    notification: Notification, failure: _Failure, *, settings: AlertSettings, now: datetime
) -> Notification:
    """Return the failed attempt with its next time; given up when messages are not tried for as long as that.

    Pauses double up to an hour. After a refusal they begin longer: somebody may mend the other side, but not at once.
    Half of the time must have passed in pauses: the clock may be set, and a message that is given up stays so.
    """
    first = _REFUSED_PAUSE if failure.is_refusal else settings.backoff
    pause = partial(backoff, first=first, longest=LONGEST)
    not_before = now + pause(notification.attempt, at_least=failure.at_least)
    is_over = not_before > notification.waiting_since + settings.retry_for
    paused = sum((pause(attempt) for attempt in range(1, notification.attempt + 1)), timedelta(0))
    if is_over and paused >= settings.retry_for / 2:
        return _give_up(notification, failure.reason)
    log.log(
        logging.ERROR if failure.is_refusal and notification.attempt == 1 else logging.WARNING,
        "alert %s: the %s message was not sent to channel %s (%s, attempt %d since %s); next attempt at %s",
        notification.alert_id, notification.transition, notification.channel, failure.reason, notification.attempt,
        notification.waiting_since, not_before,
    )  # fmt: skip
    return replace(notification, failure=failure.reason, not_before=not_before)


def _give_up(notification: Notification, failure: str) -> Notification:
    log.error(
        "alert %s: the %s message is not sent to channel %s any more (%s after %d attempts since %s), unless the "
        "channel's settings change",
        notification.alert_id, notification.transition, notification.channel, failure, notification.attempt,
        notification.waiting_since,
    )  # fmt: skip
    return replace(notification, failure=failure, not_before=NEVER)
