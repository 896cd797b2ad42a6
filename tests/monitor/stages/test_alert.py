"""Regressions become messages: states, notifications, retries and restarts, on a real database."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from monitor.errors import Permanent, Retryable, StoreUnavailable
from monitor.model.trends import Alert, AlertState, Notification, Regression, Series
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
    regression = Regression(
        series=SERIES,
        rule="continuous",
        began_at=at - timedelta(hours=4),
        detected_at=at,
        recovered_at=recovered_at,
        rate=0.2,
        rate_lower=0.15,
        rate_upper=0.25,
        baseline_rate=0.05,
        null_rate=0.06,
        evidence_log10=4.0,
        threshold_log10=3.0,
    )
    return Alert(alert_id=alert_id, fingerprint="f1", state=AlertState.PENDING, regression=regression, pending_at=at)


def recovered(alert: Alert, at: datetime) -> Alert:
    """Return the alert with its recovery seen, as detection would."""
    return replace(alert, regression=replace(alert.regression, recovered_at=at))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    """An empty SQLite store."""
    opened = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    yield opened
    opened.close()


def deliver(
    store: SqlStore, *phones: Phone, now: datetime = NOW, settings: AlertSettings = SETTINGS
) -> tuple[Notification, ...]:
    """Deliver to phones named 0, 1, ..."""
    return asyncio.run(stage.deliver(store, {str(i): p for i, p in enumerate(phones)}, settings, now=now))


def move(
    store: SqlStore, *, now: datetime = NOW, channels: tuple[str, ...] = ("0",), settings: AlertSettings = SETTINGS
) -> int:
    """Run the stage's tick."""
    return stage.tick(store, settings, channels=channels, now=now)


def only(store: SqlStore) -> Alert:
    """Return the only alert."""
    (alert,) = store.alerts()
    return alert


def test_an_alert_fires_at_once_and_is_sent_to_every_channel(store: SqlStore) -> None:
    """Without a hold, pending becomes firing, with one message per channel; again, nothing happens."""
    store.save_alerts([pending()])
    assert move(store, channels=("0", "1")) == 1
    assert move(store, channels=("0", "1")) == 0
    first, second = Phone(), Phone()
    assert {n.channel for n in deliver(store, first, second)} == {"0", "1"}
    assert deliver(store, first, second) == ()
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
    assert store.notifications(due=stage.NEVER) == ()


def test_a_recovery_is_sent_once(store: SqlStore) -> None:
    """Firing, then resolved: two messages in this order, and the alert is to be annotated anew."""
    phone = Phone()
    store.save_alerts([pending()])
    move(store)
    deliver(store, phone)
    store.mark_annotated(only(store))
    store.save_alerts([recovered(only(store), NOW + 60 * MINUTE)])
    assert move(store, now=NOW + 61 * MINUTE) == 1
    assert move(store, now=NOW + 62 * MINUTE) == 0
    deliver(store, phone, now=NOW + 62 * MINUTE)
    deliver(store, phone, now=NOW + 63 * MINUTE)
    assert phone.sent == [("a1", "firing"), ("a1", "resolved")]
    assert not only(store).annotated
    assert only(store).resolved_at == NOW + 61 * MINUTE


def test_a_message_that_was_decided_survives_a_restart(tmp_path: Path) -> None:
    """The process may be gone at any step: no second firing message, exactly one resolved, naming the right times."""
    url = f"sqlite:///{tmp_path / 'm.db'}"
    phone = Phone()
    over = NOW + 120 * MINUTE

    def fresh(step: str) -> None:
        store = open_store(url)
        if step == "detect":
            store.save_alerts([pending()])
        elif step == "recover":
            store.save_alerts([recovered(only(store), over)])
        elif step == "move":
            move(store, now=over + MINUTE)
        else:
            deliver(store, phone, now=over + 2 * MINUTE)
        store.close()

    for step in ("detect", "move", "tell", "tell", "move", "tell", "recover", "move", "move", "tell", "tell"):
        fresh(step)
    assert phone.sent == [("a1", "firing"), ("a1", "resolved")]
    store = open_store(url)
    assert only(store).regression.recovered_at == over
    store.close()


def test_a_stale_copy_of_an_alert_tells_nobody_twice(store: SqlStore) -> None:
    """Detection may write an alert it read before it fired: it goes on firing, and nobody hears of it again."""
    phone = Phone()
    stale = pending()
    store.save_alerts([stale])
    move(store)
    deliver(store, phone)
    store.save_alerts([stale])
    assert move(store, now=NOW + MINUTE) == 0
    deliver(store, phone, now=NOW + MINUTE)
    assert phone.sent == [("a1", "firing")]
    assert only(store).state is AlertState.FIRING


def test_a_failed_message_is_tried_again_later_and_later(store: SqlStore) -> None:
    """The pauses double; a longer one that the other side asked for is kept."""
    phone = Phone()
    phone.failure = Retryable("busy")
    store.save_alerts([pending()])
    move(store)
    now = NOW
    pauses = []
    for _ in range(4):
        (failed,) = deliver(store, phone, now=now)
        assert failed.not_before is not None
        assert failed.failure == "Retryable"
        assert deliver(store, phone, now=failed.not_before - timedelta(seconds=1)) == ()
        pauses.append(failed.not_before - now)
        now = failed.not_before
    assert pauses == [timedelta(seconds=s) for s in (15, 30, 60, 120)]
    phone.failure = Retryable("busy", retry_after=timedelta(minutes=30))
    (failed,) = deliver(store, phone, now=now)
    assert failed.not_before == now + timedelta(minutes=30)
    phone.failure = None
    deliver(store, phone, now=failed.not_before)
    assert phone.sent == [("a1", "firing")]


@pytest.mark.parametrize("pause", [timedelta(days=30), timedelta(seconds=999_999_999_999), timedelta.max])
def test_no_pause_is_longer_than_an_hour(store: SqlStore, pause: timedelta) -> None:
    """A channel that asks for days, or for longer than there are dates, is tried again in an hour."""
    busy, phone = Phone(), Phone()
    busy.failure = Retryable("busy", retry_after=pause)
    store.save_alerts([pending()])
    move(store, channels=("0", "1"))
    failed = {notification.channel: notification for notification in deliver(store, busy, phone)}["0"]
    assert failed.not_before == NOW + timedelta(hours=1)
    assert phone.sent == [("a1", "firing")]


def test_a_hundred_attempts(store: SqlStore) -> None:
    """However many attempts are allowed, each comes within an hour of the last, and the last one is the end."""
    phone = Phone()
    phone.failure = Retryable("down")
    settings = AlertSettings(attempts=100)
    store.save_alerts([pending()])
    move(store, settings=settings)
    now = NOW
    for _ in range(99):
        (failed,) = deliver(store, phone, now=now, settings=settings)
        assert failed.not_before is not None
        assert failed.not_before - now <= timedelta(hours=1)
        now = failed.not_before
    (given_up,) = deliver(store, phone, now=now, settings=settings)
    assert (phone.refused, given_up.not_before) == (100, stage.NEVER)


def test_a_channel_that_refuses_or_fails_too_often_is_given_up(
    store: SqlStore, caplog: pytest.LogCaptureFixture
) -> None:
    """A permanent failure at once, another after the allowed attempts; both are logged and never tried again."""
    wrong, down = Phone(), Phone()
    wrong.failure = Permanent("no such room", reason="http_404")
    down.failure = OSError("secret-host unreachable")
    settings = AlertSettings(attempts=3)
    store.save_alerts([pending()])
    move(store, channels=("0", "1"), settings=settings)
    for hours in range(6):
        deliver(store, wrong, down, now=NOW + timedelta(hours=hours), settings=settings)
    assert (wrong.refused, down.refused) == (1, 3)
    assert store.notifications(due=NOW + timedelta(days=1000)) == ()
    assert len([r for r in caplog.records if r.levelno == logging.ERROR]) == 2
    assert "secret-host" not in caplog.text


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
def test_a_channel_in_trouble_keeps_no_other_from_telling(store: SqlStore, failure: BaseException) -> None:
    """One channel's failure, even of a kind nobody foresaw, leaves the others alone and is tried again itself."""

    class Broken:
        async def send(self, _: Alert) -> None:
            failed.set()
            raise failure

    failed = asyncio.Event()
    phone = Ringing(failed)
    store.save_alerts([pending()])
    move(store, channels=("0", "1"))
    recorded = asyncio.run(stage.deliver(store, {"0": Broken(), "1": phone}, SETTINGS, now=NOW))
    assert {n.channel: (n.sent_at, n.not_before) for n in recorded} == {
        "0": (None, NOW + timedelta(seconds=15)),
        "1": (NOW, None),
    }
    assert phone.sent == [("a1", "firing")]


def test_what_cannot_be_recorded_keeps_no_other_from_telling(tmp_path: Path) -> None:
    """A database that refuses one channel's row fails the tick at its end, after all others were sent and recorded."""
    store = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    with closing(sqlite3.connect(tmp_path / "m.db")) as database:
        database.execute(
            "CREATE TRIGGER refuse BEFORE UPDATE ON notifications WHEN NEW.channel = '0' AND NEW.sent_at IS NOT NULL "
            "BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )

    class Slow(Phone):
        async def send(self, alert: Alert) -> None:
            tick_and_own = 2
            while len(asyncio.all_tasks()) > tick_and_own:  # noqa: ASYNC110 -- nothing tells that the other has ended
                await asyncio.sleep(0)
            await super().send(alert)

    refused, slow = Phone(), Slow()
    store.save_alerts([pending()])
    move(store, channels=("0", "1"))
    with pytest.raises(StoreUnavailable):
        deliver(store, refused, slow)
    assert (refused.sent, slow.sent) == ([("a1", "firing")],) * 2
    assert [n.channel for n in store.notifications(due=NOW)] == ["0"]
    store.close()


def test_resolved_never_overtakes_firing(store: SqlStore) -> None:
    """A channel that was down hears of the incident first and of its end then, although both wait by now."""
    phone = Phone()
    phone.failure = Retryable("down")
    store.save_alerts([pending()])
    move(store)
    deliver(store, phone)
    store.save_alerts([recovered(only(store), NOW)])
    move(store, now=NOW + timedelta(seconds=5))
    assert deliver(store, phone, now=NOW + timedelta(seconds=6)) == ()
    phone.failure = None
    deliver(store, phone, now=NOW + MINUTE)
    assert phone.sent == [("a1", "firing"), ("a1", "resolved")]


def test_a_channel_that_is_gone_from_the_settings_is_given_up(store: SqlStore) -> None:
    """What waits for a channel that was taken away waits no longer."""
    store.save_alerts([pending()])
    move(store, channels=("pager",))
    (failed,) = deliver(store)
    assert (failed.failure, failed.not_before) == ("no_channel", stage.NEVER)


def test_a_message_taken_but_not_recorded_is_sent_again(store: SqlStore) -> None:
    """At least once: a process that ends between the two sends it a second time, under the same id."""
    sent: list[str] = []

    class Last:
        async def send(self, alert: Alert) -> None:
            sent.append(alert.alert_id)
            if len(sent) == 1:
                taken.set()
                await asyncio.Event().wait()

    async def end_when_taken() -> None:
        delivering = asyncio.create_task(stage.deliver(store, {"0": Last()}, SETTINGS, now=NOW))
        await taken.wait()
        delivering.cancel()
        await delivering

    taken = asyncio.Event()
    store.save_alerts([pending()])
    move(store)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(end_when_taken())
    asyncio.run(stage.deliver(store, {"0": Last()}, SETTINGS, now=NOW))
    asyncio.run(stage.deliver(store, {"0": Last()}, SETTINGS, now=NOW))
    assert sent == ["a1", "a1"]
