"""`AlertStore`: what is to be sent to whom."""

from __future__ import annotations

import math
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from incident import alert_about, rise

from monitor.errors import StoreUnavailable
from monitor.model.trends import NEVER, Alert, AlertState, Notification, Series, Undelivered
from monitor.store.sql_store import open_store
from monitor.stores import Store

if TYPE_CHECKING:
    from tests.contract.conftest import Make

MINUTE = timedelta(minutes=1)
SERIES = Series(app="shop", environment="production", slice="", metric="groundedness", rubric_id="g1")


@pytest.fixture
def alert(make: Make) -> Alert:
    """A firing alert with something in every field."""
    regression = rise(
        series=SERIES,
        began_at=make.now - 60 * MINUTE,
        detected_at=make.now,
        recovered_at=make.now + 90 * MINUTE,
        release="1.1",
        promise="At most one false alarm a month.",
        judge_change="The judge changed 1 Mar 2026 04:00 UTC: m became n.",
    )
    return alert_about(regression, firing_at=make.now + MINUTE, resolved_at=make.now + 99 * MINUTE, annotated=True)


def unsent(alert: Alert, channel: str = "slack", transition: AlertState = AlertState.FIRING) -> Notification:
    """A notification that was not tried yet."""
    assert alert.firing_at is not None
    return Notification(alert_id=alert.alert_id, channel=channel, transition=transition, waiting_since=alert.firing_at)


def test_alert_reads_back(store: Store, alert: Alert) -> None:
    """An alert reads back equal, field by field, with and without what is optional."""
    fresh = replace(
        alert,
        alert_id="a2",
        state=AlertState.PENDING,
        regression=replace(alert.regression, recovered_at=None),
        pending_at=alert.pending_at - MINUTE,
        firing_at=None,
        resolved_at=None,
        annotated=False,
    )
    store.save_alerts([alert, fresh])
    assert (alert, fresh) == store.alerts()


def test_infinite_evidence(store: Store, alert: Alert) -> None:
    """Evidence without bound is kept as the largest number there is."""
    store.save_alerts([replace(alert, regression=replace(alert.regression, evidence_log10=math.inf))])
    assert [sys.float_info.max] == [a.regression.evidence_log10 for a in store.alerts()]


def test_alerts_newest_first(store: Store, alert: Alert) -> None:
    """Alerts come newest first, narrowed down by state and number."""
    states = (AlertState.PENDING, AlertState.FIRING, AlertState.RESOLVED)
    alerts = [
        replace(alert, alert_id=f"a{n}", state=state, pending_at=alert.pending_at + n * MINUTE)
        for n, state in enumerate(states)
    ]
    store.save_alerts(alerts)
    assert tuple(reversed(alerts)) == store.alerts()
    assert (alerts[2],) == store.alerts(limit=1)
    assert (alerts[1], alerts[0]) == store.alerts(states=(AlertState.PENDING, AlertState.FIRING))
    assert store.alerts(states=()) == ()


def fired(alert: Alert) -> Alert:
    """The alert while its incident goes on."""
    return replace(alert, regression=replace(alert.regression, recovered_at=None), resolved_at=None, annotated=False)


def queued(store: Store, *notifications: Notification) -> None:
    """Have the notifications of a firing alert on record, by a move that leaves it as it is."""
    (alert,) = (a for a in store.alerts() if a.alert_id == notifications[0].alert_id)
    assert store.move_alert(alert, before=alert.state, notifications=notifications)


def test_alert_changes(store: Store, alert: Alert) -> None:
    """Saving a known alert writes what detection knows of it; its state and times stay."""
    store.save_alerts([fired(alert)])
    changed = replace(fired(alert).regression, rate=0.4, recovered_at=alert.regression.recovered_at)
    for _ in range(2):
        store.save_alerts([replace(alert, state=AlertState.RESOLVED, regression=changed, annotated=True)])
    assert (replace(fired(alert), regression=changed),) == store.alerts()


def test_stale_copy(store: Store, alert: Alert) -> None:
    """A copy that was read before the recovery takes nothing back: neither the recovery nor the state."""
    going_on = fired(alert)
    store.save_alerts([going_on])
    over = replace(alert, state=AlertState.RESOLVED, annotated=False)
    store.save_alerts([over])
    assert store.move_alert(over, before=AlertState.FIRING, notifications=[])
    store.save_alerts([replace(going_on, regression=replace(going_on.regression, rate=0.9))])
    assert (over,) == store.alerts()


def test_moved_by_another(store: Store, alert: Alert) -> None:
    """An alert that is in another state by now is neither moved nor annotated, and causes no notification."""
    pending = replace(fired(alert), state=AlertState.PENDING, firing_at=None)
    store.save_alerts([pending])
    assert not store.move_alert(alert, before=AlertState.FIRING, notifications=[unsent(alert)])
    assert not store.mark_annotated(alert)
    assert (pending,) == store.alerts()
    assert store.notifications(since=alert.firing_at) == ()
    assert store.mark_annotated(pending)
    assert (replace(pending, annotated=True),) == store.alerts()


def test_processes_that_do_not_wait_for_each_other(migrated_url: str, alert: Alert) -> None:
    """Detection with old copies, and two that move the same alerts: each alert is resolved once and stays so."""
    alerts = [replace(fired(alert), alert_id=f"a{n}") for n in range(20)]
    together = threading.Barrier(3)

    def detect() -> None:
        with closing(open_store(migrated_url)) as store:
            together.wait()
            for known in alerts:
                store.save_alerts([known])

    def resolve(channel: str) -> list[str]:
        with closing(open_store(migrated_url)) as store:
            together.wait()
            moved = []
            for known in alerts:
                over = replace(alert, alert_id=known.alert_id, state=AlertState.RESOLVED)
                store.save_alerts([over])
                caused = [unsent(over, channel, AlertState.RESOLVED)]
                if store.move_alert(over, before=AlertState.FIRING, notifications=caused):
                    moved.append(known.alert_id)
            return moved

    with closing(open_store(migrated_url)) as store:
        store.save_alerts(alerts)
        with ThreadPoolExecutor(3) as pool:
            detecting = pool.submit(detect)
            one, other = (pool.submit(resolve, channel) for channel in ("a", "b"))
            detecting.result()
            moved = [*one.result(), *other.result()]
        assert sorted(moved) == sorted(a.alert_id for a in alerts)
        assert {(a.state, a.regression.recovered_at) for a in store.alerts()} == {
            (AlertState.RESOLVED, alert.regression.recovered_at)
        }
        assert len(store.notifications(since=alert.resolved_at)) == len(alerts)


def test_notification_is_known(store: Store, alert: Alert) -> None:
    """A transition that is saved again causes no second notification, whether the first was sent or only tried."""
    store.save_alerts([alert])
    queued(store, unsent(alert), unsent(alert, "email"))
    sent = replace(unsent(alert), attempt=1, sent_at=alert.firing_at)
    tried = replace(unsent(alert, "email"), attempt=3, failure="Retryable", not_before=alert.firing_at)
    store.save_notification(sent)
    store.save_notification(tried)
    queued(store, unsent(alert), unsent(alert, "email"))
    assert (tried,) == store.notifications(since=alert.firing_at)


def test_sent_stays_sent(store: Store, alert: Alert) -> None:
    """A failure that is recorded late does not send an alert twice."""
    store.save_alerts([alert])
    queued(store, unsent(alert))
    store.save_notification(replace(unsent(alert), attempt=2, sent_at=alert.firing_at))
    store.save_notification(replace(unsent(alert), attempt=1, failure="TimeoutError"))
    assert store.notifications(since=alert.firing_at) == ()


def test_notifications_that_nobody_wants(store: Store, alert: Alert) -> None:
    """What was given up is wanted until its alert is over for a while; what is tried again, as long as it is."""
    assert alert.resolved_at is not None
    over = replace(alert, state=AlertState.RESOLVED)
    store.save_alerts([over])
    given_up = replace(unsent(alert), attempt=9, not_before=NEVER, failure="http_404", channel_digest="d")
    waiting = replace(unsent(alert, "email"), attempt=1, not_before=alert.firing_at, failure="no answer")
    queued(store, given_up, waiting)
    assert {given_up, waiting} == set(store.notifications(since=alert.resolved_at))
    assert (waiting,) == store.notifications(since=alert.resolved_at + MINUTE)


def test_beginning_after_end(store: Store, alert: Alert) -> None:
    """Whoever was sent the end of an incident is not sent its beginning any more."""
    store.save_alerts([replace(alert, state=AlertState.RESOLVED)])
    queued(store, unsent(alert), unsent(alert, "email"), unsent(alert, transition=AlertState.RESOLVED))
    store.save_notification(replace(unsent(alert, transition=AlertState.RESOLVED), attempt=1, sent_at=alert.firing_at))
    assert ["email"] == [n.channel for n in store.notifications(since=alert.pending_at)]


def test_firing_messages(store: Store, alert: Alert) -> None:
    """The firing messages of alerts that fire, whether they were sent or not; those of others are history."""
    over = replace(alert, alert_id="a2", state=AlertState.RESOLVED)
    store.save_alerts([alert, over])
    queued(store, unsent(alert), unsent(alert, "email"), unsent(alert, "pager", AlertState.RESOLVED))
    queued(store, unsent(over))
    store.save_notification(replace(unsent(alert), attempt=1, sent_at=alert.firing_at))
    assert {("a1", "slack"), ("a1", "email")} == store.firing_messages()


def test_undelivered(store: Store, alert: Alert) -> None:
    """A channel's messages are counted with the oldest; it is silent until it takes one that is no older."""
    at = alert.pending_at
    others = [replace(alert, alert_id=f"a{n}") for n in (2, 3)]
    store.save_alerts([alert, *others])
    failed = replace(unsent(alert), attempt=2, failure="http_413", not_before=at + MINUTE, waiting_since=at)
    given_up = replace(unsent(others[0]), attempt=9, failure="down", not_before=NEVER, waiting_since=at - MINUTE)
    queued(store, failed, unsent(alert, "email"))
    queued(store, given_up)
    queued(store, unsent(others[1]))
    email = Undelivered(channel="email", waiting=1, given_up=0, oldest_at=at + MINUTE, failure="", is_silent=False)
    slack = Undelivered(channel="slack", waiting=2, given_up=1, oldest_at=at - MINUTE, failure="down", is_silent=True)
    assert (email, slack) == store.undelivered(since=at)
    store.save_notification(replace(unsent(others[1]), attempt=1, sent_at=at - MINUTE / 2))
    assert store.undelivered(since=at)[1] == replace(slack, waiting=1)
    store.save_alerts([replace(alert, alert_id="a4")])
    later = replace(unsent(replace(alert, alert_id="a4")), attempt=1)
    queued(store, later)
    store.save_notification(replace(later, sent_at=at))
    assert store.undelivered(since=at)[1] == replace(slack, waiting=1, is_silent=False)


def test_notifications_in_order(store: Store, alert: Alert) -> None:
    """What happened first is sent first: by the time of the transition, then pending, firing, resolved."""
    at_once = replace(alert, alert_id="a2", pending_at=alert.pending_at - MINUTE, firing_at=alert.pending_at - MINUTE)
    caused = [
        unsent(alert, transition=AlertState.RESOLVED),
        unsent(alert, transition=AlertState.FIRING),
        unsent(at_once, transition=AlertState.FIRING),
        unsent(at_once, transition=AlertState.PENDING),
    ]
    store.save_alerts([alert, at_once])
    queued(store, *caused)
    assert tuple(reversed(caused)) == store.notifications(since=alert.firing_at)


def test_alert_and_notification_together(store: Store, alert: Alert) -> None:
    """An alert whose notification cannot be written is not moved either."""
    store.save_alerts([alert])
    stranger = replace(unsent(alert), alert_id="unknown")
    over = replace(alert, state=AlertState.RESOLVED)
    with pytest.raises(StoreUnavailable):
        store.move_alert(over, before=AlertState.FIRING, notifications=[stranger])
    assert (alert,) == store.alerts()
