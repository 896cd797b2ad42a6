"""Regressions become messages: states, notifications, retries and restarts, on a real database."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from incident import alert_about, rise

from monitor.errors import Permanent, Retryable, StoreUnavailable
from monitor.model.trends import NEVER, Alert, AlertState, Notification, Series
from monitor.settings.tree import AlertSettings
from monitor.stages import alert as stage
from monitor.store.sql_store import SqlStore, open_store

NOW = datetime(2026, 5, 4, 14, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SERIES = Series(app="bot", environment="production", slice="", metric="groundedness", rubric_id="r1")
SETTINGS = AlertSettings()


class Phone:
    """A channel that notes what it sent, or fails with `failure`."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.failure: Exception | None = None
        self.refused = 0

    async def send(self, alert: Alert) -> None:
        """Take the alert, or fail."""
        if self.failure is not None:
            self.refused += 1
            raise self.failure
        self.sent.append((alert.alert_id, alert.state.value))


def pending(alert_id: str = "a1", *, recovered_at: datetime | None = None, at: datetime = NOW) -> Alert:
    """Return an alert as detection leaves it."""
    regression = rise(series=SERIES, began_at=at - timedelta(hours=4), detected_at=at, recovered_at=recovered_at)
    return alert_about(regression, AlertState.PENDING, alert_id=alert_id)


def recovered(alert: Alert, at: datetime) -> Alert:
    """Return the alert with its recovery seen, as detection would."""
    return replace(alert, regression=replace(alert.regression, recovered_at=at))


async def deliver(
    store: SqlStore, *phones: Phone, now: datetime = NOW, settings: AlertSettings = SETTINGS, digest: str = "d0"
) -> tuple[Notification, ...]:
    """Deliver to phones named 0, 1, ..."""
    channels = {str(i): phone for i, phone in enumerate(phones)}
    digests = dict.fromkeys(channels, digest)
    return await stage.deliver(store, channels, settings, digests=digests, now=now)


def move(
    store: SqlStore, *, now: datetime = NOW, channels: tuple[str, ...] = ("0",), settings: AlertSettings = SETTINGS
) -> int:
    """Run the stage's tick."""
    return stage.tick(store, settings, channels=channels, horizon=timedelta(days=7), now=now)


def firing(store: SqlStore, *channels: str) -> None:
    """Have an alert that fires since `NOW`, with its messages queued."""
    store.save_alerts([pending()])
    move(store, channels=channels)


def only(store: SqlStore) -> Alert:
    """Return the only alert."""
    (alert,) = store.alerts()
    return alert


async def test_an_alert_fires_at_once_and_is_sent_to_every_channel(store: SqlStore) -> None:
    """Without a hold, pending becomes firing, with one message per channel; again, nothing happens."""
    store.save_alerts([pending()])
    assert move(store, channels=("0", "1")) == 1
    assert move(store, channels=("0", "1")) == 0
    first, second = Phone(), Phone()
    assert {n.channel for n in await deliver(store, first, second)} == {"0", "1"}
    assert await deliver(store, first, second) == ()
    assert first.sent == second.sent == [("a1", "firing")]
    assert (only(store).state, only(store).firing_at) == (AlertState.FIRING, NOW)


def test_a_hold_is_waited_for(store: SqlStore) -> None:
    """Before `hold` is over nothing is sent; a recovery meanwhile ends the alert without a message."""
    settings = AlertSettings(hold=timedelta(minutes=30))
    store.save_alerts([pending()])
    assert move(store, now=NOW + 29 * MINUTE, settings=settings) == 0
    store.save_alerts([recovered(pending(), NOW)])
    assert move(store, now=NOW + 31 * MINUTE, settings=settings) == 1
    assert only(store).state is AlertState.RESOLVED
    assert store.notifications(since=NOW) == ()


def test_a_hold_that_began_by_a_clock_that_was_ahead(store: SqlStore) -> None:
    """It does not last until that day: how long it was held is not known, so people are told."""
    store.save_alerts([pending(at=NOW + timedelta(days=8))])
    move(store, settings=AlertSettings.model_validate({"hold": "10m"}))
    assert AlertState.FIRING is only(store).state


async def test_a_pause_that_began_by_a_clock_that_was_ahead(store: SqlStore) -> None:
    """The message goes out at once when the clock is right again."""
    firing(store, "0")
    phone = Phone()
    phone.failure = Retryable("busy")
    await deliver(store, phone, now=NOW + timedelta(hours=23))
    phone.failure = None
    await deliver(store, phone, now=NOW + MINUTE)
    assert [("a1", "firing")] == phone.sent


async def test_a_recovery_is_sent_once(store: SqlStore) -> None:
    """Firing, then resolved: two messages in this order, and the alert is to be annotated anew."""
    phone = Phone()
    store.save_alerts([pending()])
    move(store)
    await deliver(store, phone)
    store.mark_annotated(only(store))
    store.save_alerts([recovered(only(store), NOW + 60 * MINUTE)])
    assert move(store, now=NOW + 61 * MINUTE) == 1
    assert move(store, now=NOW + 62 * MINUTE) == 0
    await deliver(store, phone, now=NOW + 62 * MINUTE)
    await deliver(store, phone, now=NOW + 63 * MINUTE)
    assert phone.sent == [("a1", "firing"), ("a1", "resolved")]
    assert not only(store).annotated
    assert only(store).resolved_at == NOW + 61 * MINUTE


async def test_a_message_that_was_decided_survives_a_restart(tmp_path: Path) -> None:
    """The process may be gone at any step: no second firing message, exactly one resolved, naming the right times."""
    url = f"sqlite:///{tmp_path / 'm.db'}"
    phone = Phone()
    over = NOW + 120 * MINUTE

    async def fresh(step: str) -> None:
        store = open_store(url)
        if step == "detect":
            store.save_alerts([pending()])
        elif step == "recover":
            store.save_alerts([recovered(only(store), over)])
        elif step == "move":
            move(store, now=over + MINUTE)
        else:
            await deliver(store, phone, now=over + 2 * MINUTE)
        store.close()

    for step in ("detect", "move", "tell", "tell", "move", "tell", "recover", "move", "move", "tell", "tell"):
        await fresh(step)
    assert phone.sent == [("a1", "firing"), ("a1", "resolved")]
    store = open_store(url)
    assert only(store).regression.recovered_at == over
    store.close()


async def test_a_stale_copy_of_an_alert_tells_nobody_twice(store: SqlStore) -> None:
    """Detection may write an alert it read before it fired: it goes on firing, and nobody hears of it again."""
    phone = Phone()
    stale = pending()
    store.save_alerts([stale])
    move(store)
    await deliver(store, phone)
    store.save_alerts([stale])
    assert move(store, now=NOW + MINUTE) == 0
    await deliver(store, phone, now=NOW + MINUTE)
    assert phone.sent == [("a1", "firing")]
    assert only(store).state is AlertState.FIRING


async def test_a_failed_message_is_tried_again_later_and_later(store: SqlStore) -> None:
    """The pauses double; a longer one that the other side asked for is kept."""
    phone = Phone()
    phone.failure = Retryable("busy")
    store.save_alerts([pending()])
    move(store)
    now = NOW
    pauses = []
    for _ in range(4):
        (failed,) = await deliver(store, phone, now=now)
        assert failed.not_before is not None
        assert failed.failure == "busy"
        assert await deliver(store, phone, now=failed.not_before - timedelta(seconds=1)) == ()
        pauses.append(failed.not_before - now)
        now = failed.not_before
    assert pauses == [timedelta(seconds=s) for s in (15, 30, 60, 120)]
    phone.failure = Retryable("busy", retry_after=timedelta(minutes=30))
    (failed,) = await deliver(store, phone, now=now)
    assert failed.not_before == now + timedelta(minutes=30)
    phone.failure = None
    await deliver(store, phone, now=failed.not_before)
    assert phone.sent == [("a1", "firing")]


@pytest.mark.parametrize("pause", [timedelta(days=30), timedelta(seconds=999_999_999_999), timedelta.max])
async def test_no_pause_is_longer_than_an_hour(store: SqlStore, pause: timedelta) -> None:
    """A channel that asks for days, or for longer than there are dates, is tried again in an hour."""
    busy, phone = Phone(), Phone()
    busy.failure = Retryable("busy", retry_after=pause)
    store.save_alerts([pending()])
    move(store, channels=("0", "1"))
    failed = {notification.channel: notification for notification in await deliver(store, busy, phone)}["0"]
    assert failed.not_before == NOW + timedelta(hours=1)
    assert phone.sent == [("a1", "firing")]


async def attempts(
    store: SqlStore, phone: Phone, *, now: datetime, settings: AlertSettings = SETTINGS, digest: str = "d0"
) -> list[datetime]:
    """Deliver whenever it is due, until the message is given up; return the times of all attempts."""
    times = [now]
    while True:
        (failed,) = await deliver(store, phone, now=times[-1], settings=settings, digest=digest)
        assert failed.not_before is not None
        if failed.not_before == NEVER:
            return times
        assert failed.not_before - times[-1] <= timedelta(hours=1)
        times.append(failed.not_before)


@pytest.mark.parametrize("days", [1, 7])
async def test_a_message_is_tried_for_a_day_or_for_as_long_as_the_settings_say(store: SqlStore, days: int) -> None:
    """Each attempt comes within an hour of the last; the last one is as late as it can be, then it is given up."""
    phone = Phone()
    phone.failure = Retryable("down")
    settings = AlertSettings(retry_for=timedelta(days=days))
    firing(store, "0")
    first = NOW + timedelta(days=3)
    times = await attempts(store, phone, now=first, settings=settings)
    assert timedelta(hours=days * 24 - 1) <= times[-1] - first <= timedelta(days=days)
    phone.failure = None
    assert await deliver(store, phone, now=times[-1] + timedelta(days=30), settings=settings) == ()


async def test_a_clock_that_was_set_gives_no_message_up(store: SqlStore) -> None:
    """Two failures do not make a day: by a clock that is days ahead, or was when they began, the message is kept."""
    phone = Phone()
    phone.failure = Retryable("down")
    firing(store, "0")
    await deliver(store, phone)
    ahead = NOW + timedelta(days=3)
    (failed,) = await deliver(store, phone, now=ahead)
    assert failed.not_before is not None
    assert failed.not_before - ahead <= timedelta(minutes=1)
    phone.failure = None
    await deliver(store, phone, now=NOW + timedelta(minutes=2))
    assert phone.sent == [("a1", "firing")]


async def test_a_refusal_is_shown_at_once_and_tried_again_slowly(
    store: SqlStore, caplog: pytest.LogCaptureFixture
) -> None:
    """A person may mend the other side: a day of 404 costs some thirty attempts, and the next one may succeed."""
    phone = Phone()
    phone.failure = Permanent("no such room", reason="http_404")
    firing(store, "0")
    (refused,) = await deliver(store, phone)
    assert (refused.failure, refused.not_before) == ("http_404", NOW + timedelta(minutes=15))
    assert [r.levelno for r in caplog.records] == [logging.ERROR]
    (shown,) = store.undelivered(since=NOW)
    assert (shown.channel, shown.waiting, shown.failure, shown.is_silent) == ("0", 1, "http_404", True)
    phone.failure = None
    await deliver(store, phone, now=NOW + timedelta(minutes=15))
    assert phone.sent == [("a1", "firing")]
    assert store.undelivered(since=NOW) == ()


async def test_other_settings_of_a_channel_send_what_was_given_up(store: SqlStore) -> None:
    """The URL was wrong for days; with the right one people hear of what still fires, and not twice."""
    phone = Phone()
    phone.failure = Permanent("no such room", reason="http_404")
    firing(store, "0")
    times = await attempts(store, phone, now=NOW)
    assert 20 < len(times) < 40
    later = NOW + timedelta(days=5)
    assert await deliver(store, phone, now=later) == ()
    (shown,) = store.undelivered(since=later)
    assert (shown.given_up, shown.is_silent) == (1, True)
    assert len(await attempts(store, phone, now=later, digest="as wrong")) == len(times)
    phone.failure = None
    for days in (2, 3):
        await deliver(store, phone, now=later + timedelta(days=days), digest="right")
    assert phone.sent == [("a1", "firing")]


async def test_other_settings_do_not_send_what_is_long_over(store: SqlStore) -> None:
    """An incident that ended days ago, of which a broken channel never heard, is history."""
    phone = Phone()
    phone.failure = Permanent("no such room", reason="http_404")
    firing(store, "0")
    await attempts(store, phone, now=NOW)
    store.save_alerts([recovered(only(store), NOW)])
    move(store, now=NOW + timedelta(days=2))
    await attempts(store, phone, now=NOW + timedelta(days=2))
    phone.failure = None
    assert await deliver(store, phone, now=NOW + timedelta(days=4), digest="other") == ()
    assert store.undelivered(since=NOW + timedelta(days=3)) == ()


async def test_a_channel_that_is_new_hears_what_is_firing(store: SqlStore) -> None:
    """Added while an incident goes on, it hears of its beginning and of its end; the others hear nothing twice."""
    old, new = Phone(), Phone()
    firing(store, "0")
    await deliver(store, old)
    day = NOW + timedelta(days=1)
    assert move(store, now=day, channels=("0", "1")) == 0
    await deliver(store, old, new, now=day)
    store.save_alerts([recovered(only(store), day)])
    move(store, now=day + MINUTE, channels=("0", "1"))
    await deliver(store, old, new, now=day + MINUTE)
    assert old.sent == new.sent == [("a1", "firing"), ("a1", "resolved")]


async def test_a_channel_that_is_new_hears_of_no_end_and_of_nothing_old(store: SqlStore) -> None:
    """What is over by now, or began to fire longer ago than detection looks back, is no news to a new channel."""
    new = Phone()
    firing(store)
    assert move(store, now=NOW + timedelta(days=8), channels=("0",)) == 0
    store.save_alerts([recovered(only(store), NOW)])
    assert move(store, now=NOW + timedelta(days=8), channels=("0",)) == 1
    assert await deliver(store, new, now=NOW + timedelta(days=8)) == ()


async def test_what_a_channel_refuses_keeps_nothing_else_back(store: SqlStore) -> None:
    """A message refused for its size or form waits alone: other alerts pass, and the end of its own incident does."""

    class Picky(Phone):
        async def send(self, alert: Alert) -> None:
            if (alert.alert_id, alert.state) == ("a1", AlertState.FIRING):
                raise Permanent("too large", reason="http_413")
            await super().send(alert)

    phone = Picky()
    store.save_alerts([pending(), pending("a2", at=NOW + MINUTE)])
    move(store, now=NOW + MINUTE)
    await deliver(store, phone, now=NOW + MINUTE)
    assert phone.sent == [("a2", "firing")]
    (shown,) = store.undelivered(since=NOW)
    assert (shown.waiting, shown.failure, shown.is_silent) == (1, "http_413", False)
    store.save_alerts([recovered(a, NOW) for a in store.alerts() if a.alert_id == "a1"])
    move(store, now=NOW + 2 * MINUTE)
    await deliver(store, phone, now=NOW + 20 * MINUTE)
    assert phone.sent == [("a2", "firing"), ("a1", "resolved")]
    assert store.undelivered(since=NOW) == ()


async def test_a_message_that_is_given_up_is_logged_as_lost(store: SqlStore, caplog: pytest.LogCaptureFixture) -> None:
    """One error, once, without what a foreign error says."""
    down = Phone()
    down.failure = OSError("secret-host unreachable")
    firing(store, "0")
    await attempts(store, down, now=NOW)
    assert len([r for r in caplog.records if r.levelno == logging.ERROR]) == 1
    assert "secret-host" not in caplog.text
    assert [n.failure for n in store.notifications(since=NOW)] == ["OSError"]


class Ringing(Phone):
    """A phone that is answered only after another channel has failed."""

    def __init__(self, failed: asyncio.Event) -> None:
        super().__init__()
        self.failed = failed

    async def send(self, alert: Alert) -> None:
        """Wait, then take the alert."""
        await self.failed.wait()
        await super().send(alert)


@pytest.mark.parametrize(
    "failure",
    [
        ZeroDivisionError(),
        asyncio.CancelledError(),
        Retryable("busy", retry_after=cast("timedelta", 5)),
        Retryable("busy", retry_after=timedelta(seconds=-5)),
    ],
)
async def test_a_channel_in_trouble_keeps_no_other_from_telling(store: SqlStore, failure: BaseException) -> None:
    """One channel's failure, even of a kind nobody foresaw, leaves the others alone and is tried again itself."""

    class Broken:
        async def send(self, _: Alert) -> None:
            failed.set()
            raise failure

    failed = asyncio.Event()
    phone = Ringing(failed)
    store.save_alerts([pending()])
    move(store, channels=("0", "1"))
    recorded = await stage.deliver(store, {"0": Broken(), "1": phone}, SETTINGS, digests={}, now=NOW)
    assert {n.channel: (n.sent_at, n.not_before) for n in recorded} == {
        "0": (None, NOW + timedelta(seconds=15)),
        "1": (NOW, None),
    }
    assert phone.sent == [("a1", "firing")]


async def test_what_cannot_be_recorded_keeps_no_other_from_telling(tmp_path: Path) -> None:
    """A database that refuses one channel's row fails the tick at its end, after all others were sent and recorded."""
    store = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    with closing(sqlite3.connect(tmp_path / "m.db")) as database:
        database.execute(
            "CREATE TRIGGER refuse BEFORE UPDATE ON notifications WHEN NEW.channel = '0' AND NEW.sent_at IS NOT NULL "
            "BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )

    class Slow(Phone):
        async def send(self, alert: Alert) -> None:
            while asyncio.all_tasks() - before - {asyncio.current_task()}:  # noqa: ASYNC110 -- nothing tells of an end
                await asyncio.sleep(0)
            await super().send(alert)

    before = asyncio.all_tasks()
    refused, slow = Phone(), Slow()
    store.save_alerts([pending()])
    move(store, channels=("0", "1"))
    with pytest.raises(StoreUnavailable):
        await deliver(store, refused, slow)
    assert (refused.sent, slow.sent) == ([("a1", "firing")],) * 2
    assert [n.channel for n in store.notifications(since=NOW)] == ["0"]
    store.close()


async def test_resolved_never_overtakes_firing(store: SqlStore) -> None:
    """A channel that was down hears of the incident first and of its end then, although both wait by now."""
    phone = Phone()
    phone.failure = Retryable("down")
    store.save_alerts([pending()])
    move(store)
    await deliver(store, phone)
    store.save_alerts([recovered(only(store), NOW)])
    move(store, now=NOW + timedelta(seconds=5))
    assert await deliver(store, phone, now=NOW + timedelta(seconds=6)) == ()
    phone.failure = None
    await deliver(store, phone, now=NOW + MINUTE)
    assert phone.sent == [("a1", "firing"), ("a1", "resolved")]


async def test_a_channel_that_is_gone_from_the_settings_is_given_up(store: SqlStore) -> None:
    """What waits for a channel that was taken away waits no longer; when it is there again, it hears."""
    phone = Phone()
    firing(store, "0")
    phone.failure = Retryable("down")
    await deliver(store, phone)
    (failed,) = await deliver(store, now=NOW + MINUTE)
    assert (failed.failure, failed.not_before) == ("the settings name no such channel", NEVER)
    assert await deliver(store, now=NOW + 2 * MINUTE) == ()
    phone.failure = None
    await deliver(store, phone, now=NOW + 3 * MINUTE)
    assert phone.sent == [("a1", "firing")]


async def test_a_message_taken_but_not_recorded_is_sent_again(store: SqlStore) -> None:
    """At least once: a process that ends between the two sends it a second time, under the same id."""
    sent: list[str] = []

    class Last:
        async def send(self, alert: Alert) -> None:
            sent.append(alert.alert_id)
            if len(sent) == 1:
                taken.set()
                await asyncio.Event().wait()

    taken = asyncio.Event()
    store.save_alerts([pending()])
    move(store)
    delivering = asyncio.create_task(stage.deliver(store, {"0": Last()}, SETTINGS, digests={}, now=NOW))
    await taken.wait()
    delivering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await delivering
    await stage.deliver(store, {"0": Last()}, SETTINGS, digests={}, now=NOW)
    await stage.deliver(store, {"0": Last()}, SETTINGS, digests={}, now=NOW)
    assert sent == ["a1", "a1"]
