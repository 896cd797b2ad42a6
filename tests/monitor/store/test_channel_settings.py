"""Notifications of a store that was made before they said under which settings of a channel they were tried."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta

from old_schema import migrate_to
from sqlalchemy import create_engine, text

from monitor.model.trends import NEVER, Alert
from monitor.settings.tree import AlertSettings
from monitor.stages import alert as alert_stage
from monitor.store.migration import migrate
from monitor.store.sql_store import open_store

FIRED = datetime(1970, 1, 1, 2, 2, tzinfo=UTC)
OLD_ROWS = """
    INSERT INTO alerts (alert_id, fingerprint, state, app, environment, slice, metric, rubric_id, rule, began_at,
        detected_at, recovered_at, rate, rate_lower, rate_upper, baseline_rate, null_rate, evidence_log10,
        threshold_log10, release, promise, judge_change, pending_at, firing_at, resolved_at, annotated)
    VALUES ('a1', 'f1', 'firing', 'shop', 'production', '', 'groundedness', 'g1', 'release', 3600000000,
        7200000000, NULL, 0.2, 0.1, 0.3, 0.05, 0.06, 4.5, 3.5, '1.1',
        'The promise.', '', 7260000000, 7320000000, NULL, TRUE);
    INSERT INTO notifications (alert_id, channel, transition, attempt, sent_at, not_before, failure)
    VALUES ('a1', 'ops', 'firing', 8, NULL, {never}, 'http_404')
"""


class Phone:
    """A channel that takes everything."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def send(self, alert: Alert) -> None:
        """Take the alert."""
        self.sent.append(alert.alert_id)

    async def check(self) -> None:
        """Be reachable."""


async def test_what_an_older_version_gave_up_is_sent(url: str) -> None:
    """A message that was dropped while its incident goes on is counted since then, and sent after the upgrade."""
    never = (NEVER - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    engine = create_engine(url)
    with engine.begin() as connection:
        migrate_to("0009", connection)
        for statement in OLD_ROWS.format(never=never).split(";"):
            connection.execute(text(statement))
    engine.dispose()
    migrate(url)
    phone, now = Phone(), FIRED + timedelta(days=2)
    with closing(open_store(url, migrate=False)) as store:
        assert [(u.given_up, u.oldest_at, u.failure) for u in store.undelivered(since=now)] == [(1, FIRED, "http_404")]
        await alert_stage.deliver(store, {"ops": phone}, AlertSettings(), digests={"ops": "d"}, now=now)
        assert store.undelivered(since=now) == ()
    assert phone.sent == ["a1"]
