"""How `rag-monitor run` ends: within a time, whatever hangs, and what was under way is given back."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from deadline import wait_until
from incident import alert_about, rise
from judge_server import JudgeServer, Step
from sqlalchemy import create_engine, make_url, text

from monitor.model.trends import AlertState, Series
from monitor.store.sql_store import open_store
from tests.e2e.test_judge import SETTINGS, put

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Command, Monitor, Start

STORE = "sqlite:///{}/monitor.db"
IN_ORDER, NOT_IN_ORDER = 0, 1


@pytest.fixture
def hanging() -> Iterator[JudgeServer]:
    """A server that takes every request and answers none."""
    server = JudgeServer()
    server.answer = lambda _: Step(hang=True)
    yield server
    server.close()


def ended(monitor: Monitor, how: signal.Signals = signal.SIGTERM) -> int:
    """The exit status after a signal, however long that takes."""
    monitor.process.send_signal(how)
    return monitor.process.wait(120)


def judging(command: Command, start: Start, server: JudgeServer, *, stop_within: str) -> Monitor:
    """A monitor whose judge has been asked about two turns and is silent."""
    (command.folder / "inbox").mkdir()
    settings = SETTINGS.format(url=server.url) + f"runtime: {{stop_within: {stop_within}}}\n"
    monitor = start("-c", command.write("hanging.yaml", settings))
    put(command, "a", 5)
    wait_until(lambda: len(server.asked) == 2, "the judge to be asked", seconds=60)
    return monitor


def test_judge_that_hangs(rag_monitor: Command, start: Start, hanging: JudgeServer) -> None:
    """It is waited for, then the jobs are given back: others may have them at once, and none of them is lost."""
    monitor = judging(rag_monitor, start, hanging, stop_within="10s")
    assert IN_ORDER == ended(monitor)
    with closing(open_store(STORE.format(rag_monitor.folder))) as store:
        assert 5 == store.backlog().jobs
        assert 5 == len(store.claim(now=datetime.now(UTC), lease=timedelta(minutes=1), limit=9))
    assert "Traceback" not in monitor.text()


def test_told_twice(rag_monitor: Command, start: Start, hanging: JudgeServer) -> None:
    """A second signal does not wait for what hangs, here for up to ten hours."""
    monitor = judging(rag_monitor, start, hanging, stop_within="10h")
    monitor.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "stopping" in monitor.text(), "the first signal to be seen", seconds=60)
    assert NOT_IN_ORDER == ended(monitor, signal.SIGINT)
    assert "told to end a second time" in monitor.text()


def test_webhook_that_hangs(rag_monitor: Command, start: Start, hanging: JudgeServer) -> None:
    """Its message is waited for, then left to the next start, which sends it."""
    settings = rag_monitor.write(
        "webhook.yaml",
        f"""
        store: {{url: "sqlite:///monitor.db"}}
        collectors: []
        web: {{port: 0}}
        channels: [{{kind: webhook, url: "{hanging.url}/alerts", timeout: 60s}}]
        runtime: {{stop_within: 10s}}
        """,
    )
    now = datetime.now(UTC)
    series = Series(app="shop", environment="", slice="", metric="groundedness", rubric_id="r1")
    incident = rise(series=series, began_at=now - timedelta(hours=4), detected_at=now - timedelta(hours=1))
    with closing(open_store(STORE.format(rag_monitor.folder))) as store:
        store.save_alerts([alert_about(incident, AlertState.FIRING, firing_at=now)])
    monitor = start("-c", settings)
    wait_until(lambda: hanging.asked, "the message to be sent", seconds=60)
    assert IN_ORDER == ended(monitor)
    assert "alert tick: not done in the time for stopping" in monitor.text()
    again = start("-c", settings, log="again.log")
    wait_until(lambda: len(hanging.asked) == 2, "the message to be sent again", seconds=60)
    assert IN_ORDER == ended(again)


def test_database_that_hangs(rag_monitor: Command, start: Start) -> None:
    """Threads that wait for it cannot be ended, so the process ends all the same, and says why."""
    settings = rag_monitor.write(
        "locked.yaml",
        """
        store: {url: "sqlite:///monitor.db"}
        collectors: []
        web: {port: 0}
        runtime: {stop_within: 2s}
        """,
    )
    monitor = start("-c", settings)
    with closing(sqlite3.connect(rag_monitor.folder / "monitor.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert NOT_IN_ORDER == ended(monitor)
        other.execute("ROLLBACK")
    assert "not ended within 0:00:02: something hangs" in monitor.text()
    assert IN_ORDER == ended(start("-c", settings, log="again.log"))


def test_database_server_that_hangs(rag_monitor: Command, start: Start, postgres_url: str) -> None:
    """A server that answers nothing any more, and closes no connection either, keeps the process no longer."""
    settings = rag_monitor.write(
        "frozen.yaml",
        f"""
        store: {{url: "{postgres_url}"}}
        collectors: []
        web: {{port: 0}}
        runtime: {{stop_within: 3s}}
        """,
    )
    monitor = start("-c", settings)
    wait_until(lambda: "scheduler lease gained" in monitor.text(), "the first tick", seconds=60)
    with frozen(postgres_url):
        assert NOT_IN_ORDER == ended(monitor)
    assert "not ended within 0:00:03: something hangs" in monitor.text()


@contextmanager
def frozen(url: str) -> Iterator[None]:
    """Freeze the server's processes that serve this database."""
    engine = create_engine(make_url(url).set(database="postgres"))
    with engine.connect() as connection:
        query = text("SELECT pid FROM pg_stat_activity WHERE datname = :name")
        serving = connection.execute(query, {"name": make_url(url).database}).scalars().all()
    engine.dispose()
    assert serving
    try:
        for pid in serving:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in serving:
            os.kill(pid, signal.SIGCONT)


def test_hang_up(rag_monitor: Command, start: Start) -> None:
    """SIGHUP, which a closed terminal sends, ends nothing; the log says what it does not do."""
    settings = rag_monitor.write("quiet.yaml", 'store: {url: "sqlite:///monitor.db"}\ncollectors: []\nweb: {port: 0}\n')
    monitor = start("-c", settings)
    monitor.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "SIGHUP: settings are read at a start only" in monitor.text(), "the log", seconds=60)
    assert (200, "ok\n") == monitor.get("/healthz")
    assert IN_ORDER == ended(monitor)
