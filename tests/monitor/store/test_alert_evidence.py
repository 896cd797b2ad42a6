"""Alerts of a store that was made before their evidence said its unit."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

from old_schema import migrate_to
from sqlalchemy import create_engine, text

from monitor.model.trends import Alert, AlertState, Regression, Series
from monitor.store.migration import migrate
from monitor.store.sql_store import open_store

OLD_ALERT = """
    INSERT INTO alerts (alert_id, fingerprint, state, app, environment, slice, metric, rubric_id, rule, began_at,
        detected_at, recovered_at, rate, rate_lower, rate_upper, baseline_rate, null_rate, evidence, threshold, release,
        promise, judge_change, pending_at, firing_at, resolved_at, annotated)
    VALUES ('a1', 'f1', 'firing', 'shop', 'production', '', 'groundedness', 'g1', 'release', 3600000000,
        7200000000, NULL, 0.2, 0.1, 0.3, 0.05, 0.06, 4.5, 3.5, '1.1',
        'The promise.', '', 7260000000, 7320000000, NULL, TRUE)
"""


def test_an_old_alert_reads_back(url: str) -> None:
    """An alert that was stored under the old column names has the same numbers after the migration."""
    engine = create_engine(url)
    with engine.begin() as connection:
        migrate_to("0006", connection)
        connection.execute(text(OLD_ALERT))
    engine.dispose()
    migrate(url)
    series = Series(app="shop", environment="production", slice="", metric="groundedness", rubric_id="g1")
    regression = Regression(
        series=series,
        rule="release",
        began_at=datetime(1970, 1, 1, 1, tzinfo=UTC),
        detected_at=datetime(1970, 1, 1, 2, tzinfo=UTC),
        recovered_at=None,
        rate=0.2,
        rate_lower=0.1,
        rate_upper=0.3,
        baseline_rate=0.05,
        null_rate=0.06,
        evidence_log10=4.5,
        threshold_log10=3.5,
        release="1.1",
        promise="The promise.",
    )
    expected = Alert(
        alert_id="a1",
        fingerprint="f1",
        state=AlertState.FIRING,
        regression=regression,
        pending_at=datetime(1970, 1, 1, 2, 1, tzinfo=UTC),
        firing_at=datetime(1970, 1, 1, 2, 2, tzinfo=UTC),
        annotated=True,
    )
    with closing(open_store(url, migrate=False)) as store:
        assert store.alerts() == (expected,)
