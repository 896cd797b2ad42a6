"""Whether all names have a place is exported, and said once."""

import logging
from datetime import UTC, datetime, timedelta

import pytest

from monitor.model.names import NameLimits
from monitor.model.spans import Assembly
from monitor.model.turns import Turn, turn_id
from monitor.payloads.turn_records.fragments import turn_fragment
from monitor.runtime.name_places import NamesLook
from monitor.settings.name_places import NamePlaces
from monitor.store.sql_store import SqlStore

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


def arrive(store: SqlStore, app: str) -> None:
    """Store a turn of that app, where there is a place for one."""
    fragment = turn_fragment(b'{"question": "q", "answer": "a"}', origin=app, app=app, received_at=NOW)
    store.append([fragment])
    ids = {"turn_id": turn_id(fragment.trace_id, "s"), "trace_id": fragment.trace_id, "span_id": "s"}
    turn = Turn(**ids, app=app, started_at=NOW, ended_at=NOW)
    limits = NameLimits(apps=1, environments=1, releases=1)
    store.replace_turns([Assembly(trace_id=fragment.trace_id, through=1, turns=(turn,))], now=NOW, limits=limits)


def test_refused_and_over(store: SqlStore, caplog: pytest.LogCaptureFixture) -> None:
    """A name without a place is a warning, however many follow; a day without one is said, too."""
    caplog.set_level(logging.INFO)
    days = iter((0, 0, 0, 1))
    look = NamesLook(store.names, NamePlaces(max_apps=1), clock=lambda: NOW + next(days) * timedelta(days=1))
    seen = []
    for app in ("shop", "flood 1", "flood 2", None):
        if app is not None:
            arrive(store, app)
        look.look()
        seen.append({(g.name, g.labels["kind"]): g.value for g in look.gauges()})
    assert [1, 1, 1, 1] == [gauges["names", "app"] for gauges in seen]
    assert [0, 1, 1, 0] == [gauges["names_refused", "app"] for gauges in seen]
    assert [
        "names: turns of new apps stand under 'other': assemble.names.max_apps is 1",
        "names: for a day there was a place for every app",
    ] == [record.getMessage() for record in caplog.records]
