"""Who schedules, and that nobody does: two processes on one database, and clocks that are wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine, update

from monitor.runtime.build import open_parts
from monitor.runtime.leadership import Leadership
from monitor.settings.tree import Settings
from monitor.store.sql_store import SqlStore, open_store
from monitor.store.tables import leases

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of a database."""
    return f"sqlite:///{tmp_path / 'monitor.db'}"


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    """A store."""
    store = open_store(url)
    yield store
    store.close()


def leadership(store: SqlStore, holder: str, *, now: datetime = NOW) -> Leadership:
    """A process's view of the lease."""
    return Leadership(store, holder, clock=lambda: now)


def set_end(url: str, ends: datetime) -> None:
    """Have the lease end then, as a process whose clock was wrong has written it."""
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(update(leases).values(expires_at=ends))
    engine.dispose()


async def test_two_processes_of_one_host_and_process_id(url: str) -> None:
    """In two containers that share a host's name both are process 1; one of them leads."""
    settings = Settings.model_validate({"store": {"url": url}, "judge": {"kind": "none"}, "metrics": []})
    async with open_parts(settings) as one, open_parts(settings) as other:
        assert one.worker != other.worker
        of_one, of_other = (Leadership(p.store, p.worker, clock=lambda: NOW) for p in (one, other))
        assert [True, False, True, False] == [of_one.lead(), of_other.lead(), of_one.lead(), of_other.lead()]
        of_one.give_back()
        assert [True, False] == [of_other.lead(), of_one.lead()]


def test_leader_that_died_with_its_clock_a_day_ahead(store: SqlStore, url: str) -> None:
    """What it wrote keeps the next one out no longer than any lease is given for."""
    assert leadership(store, "dead").lead()
    set_end(url, datetime.now(UTC) + timedelta(days=1))
    assert leadership(store, "next").lead()


def test_giving_back_what_another_has_meanwhile(store: SqlStore, url: str) -> None:
    """A process that was held for longer than its lease takes it from nobody when it ends."""
    slow, next_one = leadership(store, "slow"), leadership(store, "next")
    assert slow.lead()
    set_end(url, datetime.now(UTC) - timedelta(seconds=1))
    assert next_one.lead()
    slow.give_back()
    assert not leadership(store, "third").lead()


def test_nobody_schedules(store: SqlStore, url: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is a problem that says since when, a number and one line of the log, until somebody does again."""
    seen = leadership(store, "looks on")
    assert leadership(store, "dead").lead()
    seen.look()
    assert ({}, 0) == (seen.health(), seen.gauges()[0].value)
    set_end(url, datetime.now(UTC) - timedelta(hours=2, seconds=30))
    with caplog.at_level(logging.WARNING):
        seen.look()
        seen.look()
    assert seen.health()["lease"].startswith("nobody schedules since 2026-03-02 09:59 UTC")
    assert seen.gauges()[0].value == pytest.approx(7230, abs=29)
    assert ["nobody schedules: traces are not assembled, and no alert is sent"] == [
        record.getMessage() for record in caplog.records
    ]
    assert leadership(store, "next").lead()
    seen.look()
    assert ({}, 0) == (seen.health(), seen.gauges()[0].value)


def test_a_restart_is_no_problem(store: SqlStore, url: str) -> None:
    """A lease that ended a few seconds ago, or was never taken by then, is waited for."""
    seen = leadership(store, "looks on")
    seen.look()
    assert {} == seen.health()
    assert leadership(store, "restarting").lead()
    set_end(url, datetime.now(UTC) - timedelta(seconds=5))
    seen.look()
    assert {} == seen.health()
