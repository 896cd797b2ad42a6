"""Thousands of names in a few requests: every stage behind the store has as much to do as with some hundred."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.model.judgements import Rubric
from monitor.model.names import NameLimits
from monitor.model.spans import Assembly
from monitor.model.turns import Turn, turn_id
from monitor.payloads.turn_records.fragments import turn_fragment
from monitor.settings.tree import DetectSettings, RollupSettings
from monitor.stages import detect, publish, rollup
from monitor.store.sql_store import SqlStore
from monitor.telemetry import Telemetry

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=2)
LATENESS = timedelta(minutes=15)
NAMES, A_REQUEST = 5000, 250
RUBRIC = Rubric(metric="relevance", rubric_id="r", needs=frozenset(), scale_min=0, scale_max=1)
LIMITS = NameLimits(apps=200, environments=20, releases=100)


def flood(store: SqlStore, kind: str) -> None:
    """Store a turn of each name."""
    turns = []
    for number in range(NAMES):
        fragment = turn_fragment(b'{"question": "q", "answer": "a"}', origin=str(number), app="x", received_at=NOW)
        ids = {"turn_id": turn_id(fragment.trace_id, "s"), "trace_id": fragment.trace_id, "span_id": "s"}
        names = {"app": "shop", "environment": "production", "release": "1", kind: f"{kind}-{number:04}"}
        turns.append(Turn(**ids, **names, started_at=NOW, ended_at=NOW))
    for first in range(0, NAMES, A_REQUEST):
        some = turns[first : first + A_REQUEST]
        assemblies = [Assembly(trace_id=turn.trace_id, through=1, turns=(turn,)) for turn in some]
        store.replace_turns(assemblies, now=NOW, limits=LIMITS)


@pytest.mark.parametrize(("kind", "most"), [("app", 200), ("environment", 20), ("release", 100)])
def test_a_flood_of_names(store: SqlStore, kind: str, most: int) -> None:
    """Windows, rows, series and the metrics page grow with the places, not with the names; no turn is left out."""
    flood(store, kind)
    assert most + 1 == rollup.tick(store, RollupSettings(), rubrics=[RUBRIC])
    rows = store.rollups()
    assert NAMES == sum(row.sums.turns for row in rows)
    detect.tick(store, DetectSettings(), lateness=LATENESS, now=LATER)
    gauges = publish.quality_gauges(rows, (), lateness=LATENESS, now=LATER)
    telemetry = Telemetry("test")
    for name, description in publish.GAUGES.items():
        telemetry.watch(name, lambda: gauges, description=description)
    page = telemetry.render()
    telemetry.close()
    # Three outcomes and one release, cost of judging, for an hour and a day, and whether an alert fires.
    assert page.count(f'{kind}="{kind}-'.encode()) <= 11 * most
    assert page.count(f'{kind}="other"'.encode()) >= 1
