"""Problems and numbers of a monitor's parts, as they are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.intake import Intake
from monitor.settings import IntakeSettings
from monitor.store.sql import SqlStore, open_store
from monitor.telemetry import Telemetry
from monitor.vitals import Vitals


@dataclass(frozen=True)
class Stats:
    """What a collector from another package might count."""

    rejected: Mapping[str, int] = field(default_factory=lambda: {"span_id": 2})
    lag: Mapping[str, int] = field(default_factory=lambda: {"spans": 7})
    silent_for: timedelta = timedelta(seconds=1.5)
    queue_depth: int = 3
    note: str = "not a number"


class Source(AbstractAsyncContextManager["Source"]):
    """A collector with a problem."""

    async def __aexit__(self, *_: object) -> None:
        """End."""

    def health(self) -> Mapping[str, str]:
        """Return one problem."""
        return {"broker": "no answer"}

    def stats(self) -> Stats:
        """Return numbers."""
        return Stats()


class Silent(AbstractAsyncContextManager["Silent"]):
    """A collector that counts nothing, and is well."""

    async def __aexit__(self, *_: object) -> None:
        """End."""

    def health(self) -> Mapping[str, str]:
        """Return no problem."""
        return {}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    """An empty store."""
    opened = open_store(f"sqlite:///{tmp_path / 'monitor.db'}")
    yield opened
    opened.close()


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    """Telemetry of a monitor of version 1."""
    made = Telemetry("1")
    yield made
    made.close()


def test_collectors_numbers(store: SqlStore, telemetry: Telemetry) -> None:
    """Whatever a collector counts is exported with its name; fields that no one knows are gauges of their own name."""
    vitals = Vitals(store, telemetry, clock=lambda: datetime.now(UTC))
    for name in ("here", "there"):
        vitals.watch_collector(name, Source())
    vitals.watch_collector("silent", Silent())
    page = telemetry.render().decode().splitlines()
    for name in ("here", "there"):
        assert f'rag_monitor_records_rejected_total{{collector="{name}",reason="span_id"}} 2.0' in page
        assert f'rag_monitor_lag_records{{collector="{name}",topic="spans"}} 7.0' in page
        assert f'rag_monitor_silent_seconds{{collector="{name}"}} 1.5' in page
        assert f'rag_monitor_collector_queue_depth{{collector="{name}"}} 3.0' in page
    assert not [line for line in page if "note" in line and not line.startswith("#")]


def test_problems(store: SqlStore, telemetry: Telemetry) -> None:
    """A problem is told by the part it is of."""
    vitals = Vitals(store, telemetry, clock=lambda: datetime.now(UTC))
    vitals.watch_intake(Intake(store, IntakeSettings()))
    vitals.watch_collector("kafka", Source())
    assert {"kafka.broker": "no answer"} == vitals.problems()
    assert 'rag_monitor_problem{part="kafka.broker"} 1.0' in telemetry.render().decode()
