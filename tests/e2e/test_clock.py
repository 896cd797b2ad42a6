"""`rag-monitor run` while somebody sets the machine's clock by a day: nothing is lost, doubled or stuck."""

from __future__ import annotations

import signal
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from deadline import wait_until
from judge_server import JudgeServer, Step

from monitor.store.sql_store import open_store
from tests.e2e.test_judge import SETTINGS, grade, put

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clock_service import WallClock

    from tests.e2e.conftest import Command, Start

DAY = timedelta(days=1)
CLOCKS = (
    ("+0", "started"),
    ("+1d", "the clock was set 1 day, 0:00:00 ahead"),
    ("+0", "the clock is right again"),
    ("-1d", "the clock was set 1 day, 0:00:00 back"),
    ("+0", "the clock is right again"),
)
"""Offsets of the clock, and what the log says then."""


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    """A judge that likes everything."""
    server = JudgeServer()
    server.answer = lambda _: grade(5, "fp_1")
    yield server
    server.close()


@pytest.fixture
def settings(rag_monitor: Command, server: JudgeServer) -> Path:
    """Settings of a monitor that asks the judge about what is put into `inbox`."""
    (rag_monitor.folder / "inbox").mkdir()
    return rag_monitor.write("judge.yaml", SETTINGS.format(url=server.url))


def judged_once(command: Command, count: int) -> None:
    """Each of so many turns has one verdict, is dated today by the real clock, and nothing waits."""
    with closing(open_store(f"sqlite:///{command.folder / 'monitor.db'}")) as store:
        turns = tuple(store.turns())
        assert count == len(turns)
        assert all(abs(turn.started_at - datetime.now(UTC)) < DAY / 2 for turn in turns)
        assert {1} == {len(store.outcomes(turn.turn_id)) for turn in turns}
        now = datetime.now(UTC)
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        assert count == store.spend(since=midnight - 2 * DAY, until=midnight + 3 * DAY).calls
        backlog = store.backlog()
    assert (0, 0, 0) == (backlog.fragments, backlog.turns, backlog.jobs)


def rolled_up(command: Command) -> None:
    """Wait until no window is marked."""
    with closing(open_store(f"sqlite:///{command.folder / 'monitor.db'}")) as store:
        wait_until(lambda: store.backlog().windows == 0, "rollup to be done", seconds=60)


def test_clock_that_is_set_while_it_runs(
    rag_monitor: Command, settings: Path, start: Start, server: JudgeServer, wall_clock: WallClock
) -> None:
    """A day ahead, right, a day back and right again: all that arrives meanwhile is judged once, without a delay."""
    monitor = start("-c", settings, **wall_clock.environment)
    for number, (offset, said) in enumerate(CLOCKS):
        wall_clock.set(offset)
        often = CLOCKS[: number + 1].count((offset, said))
        wait_until(lambda s=said, n=often: monitor.text().count(s) == n, f"the log to have {said!r}", seconds=60)
        put(rag_monitor, f"round {number}", 4)
        asked = 4 * (number + 1)
        wait_until(lambda asked=asked: len(server.asked) == asked, "the round's answers", seconds=60)
    wait_until(lambda: monitor.metric("jobs_finished_total", "scored") == 20, "20 verdicts", seconds=60)
    rolled_up(rag_monitor)
    assert 200 == monitor.get("/readyz")[0]
    assert 0 == monitor.stop()
    judged_once(rag_monitor, 20)
    assert "Traceback" not in monitor.text()


@pytest.mark.parametrize("offset", ["+1d", "-1d"])
def test_process_that_died_while_the_clock_was_wrong(
    rag_monitor: Command, settings: Path, start: Start, server: JudgeServer, *, wall_clock: WallClock, offset: str
) -> None:
    """What it had taken, and what it was to do, the next one does within a minute of its start by the right clock."""
    server.answer = lambda _: Step(hang=True)
    wall_clock.set(offset)
    monitor = start("-c", settings, **wall_clock.environment)
    put(rag_monitor, "before", 4)
    wait_until(lambda: len(server.asked) == 2, "the judge to be asked", seconds=60)
    put(rag_monitor, "unread", 4)
    monitor.process.send_signal(signal.SIGKILL)
    monitor.process.wait()
    server.answer = lambda _: grade(5, "fp_1")
    wall_clock.set("+0")
    again = start("-c", settings, log="again.log", **wall_clock.environment)
    wait_until(lambda: again.metric("jobs_finished_total", "scored") == 8, "8 verdicts", seconds=60)
    assert 200 == again.get("/readyz")[0]
    assert 0 == again.stop()
