"""Whether retention keeps pace is exported, and said once."""

import logging
from datetime import UTC, datetime, timedelta

import pytest

from monitor.model.spans import Assembly
from monitor.payloads.turn_records.fragments import turn_fragment
from monitor.runtime.overdue_text import OverdueText
from monitor.settings.tree import RetentionSettings
from monitor.store.sql_store import SqlStore

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def test_behind_and_in_pace_again(store: SqlStore, caplog: pytest.LogCaptureFixture) -> None:
    """Rows ten ticks too old are a warning once two ticks left them, and its end is said; what waits is not overdue."""
    caplog.set_level(logging.INFO)
    minutes = iter((0, 99, 70, 71, 73, 73))
    kept = RetentionSettings(spans=timedelta(hours=1))
    overdue = OverdueText(store.kept_text, kept, clock=lambda: NOW + next(minutes) * MINUTE)
    seen = []

    def look() -> None:
        overdue.look()
        seen.append([gauge.value for gauge in overdue.gauges()])

    store.append([turn_fragment(b'{"question": "q", "answer": "a"}', origin="1", app="shop", received_at=NOW)])
    look()
    look()
    (received,) = store.received(since=None, after="", limit=9)
    (stored,) = store.fragments([received.trace_id])[received.trace_id]
    store.replace_turns([Assembly(trace_id=received.trace_id, through=stored.position, turns=())], now=NOW)
    look()
    look()
    look()
    store.kept_text.prune(text_before=NOW, fragments_before=NOW + MINUTE, limit=9)
    look()
    assert [[0, 0], [0, 0], [600, 0], [660, 0], [780, 0], [0, 0]] == seen
    assert ["spans", "text"] == [gauge.labels["what"] for gauge in overdue.gauges()]
    assert [
        "retention is behind: rows are 13 minutes older than retention.spans keeps them",
        "retention keeps pace again",
    ] == [record.getMessage() for record in caplog.records]
