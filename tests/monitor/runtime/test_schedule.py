"""The clock: never two of one tick at once, never dropped, never ended by one that raises."""

import asyncio
import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.errors import StoreUnavailable
from monitor.runtime.leadership import Leadership
from monitor.runtime.schedule import Schedule, Tick
from monitor.runtime.stopping import Stopping
from monitor.store.sql_store import SqlStore, open_store
from monitor.telemetry import Telemetry

MINUTE = timedelta(minutes=1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    """A store."""
    store = open_store(f"sqlite:///{tmp_path / 'monitor.db'}")
    yield store
    store.close()


@pytest.fixture
def leadership(store: SqlStore) -> Leadership:
    """Of a process that leads as soon as it asks."""
    return Leadership(store, "first", clock=clock)


def clock() -> datetime:
    """Return the wall clock."""
    return datetime.now(UTC)


async def until(condition: asyncio.Event) -> None:
    """Wait, but not for ever."""
    await asyncio.wait_for(condition.wait(), timeout=10)


async def test_slow_tick_never_overlaps_itself(leadership: Leadership) -> None:
    """A tick longer than its interval runs one at a time, and the skipped starts are counted."""
    running = most = runs = 0
    enough = asyncio.Event()

    async def slow(now: datetime) -> int:
        nonlocal running, most, runs
        assert now.tzinfo is UTC
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.12)
        running -= 1
        runs += 1
        if runs == 3:
            enough.set()
        return 1

    telemetry = Telemetry("test")
    ticks = [Tick(name="slow", every=timedelta(milliseconds=20), run=slow)]
    async with Schedule(ticks, leadership, telemetry, clock=clock, stopping=Stopping(MINUTE)):
        await until(enough)
    assert (most, running) == (1, 0)
    assert b'rag_monitor_tick_skipped_total{reason="overlap",tick="slow"}' in telemetry.render()
    telemetry.close()


async def test_raising_tick_is_counted_and_runs_again(leadership: Leadership) -> None:
    """An error ends neither the tick's later runs nor the other ticks, and shows as a reason."""
    runs = 0
    thrice = asyncio.Event()

    async def broken(_: datetime) -> int:
        nonlocal runs
        runs += 1
        if runs == 3:
            thrice.set()
        if runs % 2:
            raise StoreUnavailable("no", reason="locked")
        raise ValueError("a foreign fault")

    telemetry = Telemetry("test")
    ticks = [Tick(name="broken", every=timedelta(milliseconds=10), run=broken)]
    async with Schedule(ticks, leadership, telemetry, clock=clock, stopping=Stopping(MINUTE)):
        await until(thrice)
    page = telemetry.render().decode()
    assert 'rag_monitor_tick_failed_total{reason="locked",tick="broken"}' in page
    assert 'rag_monitor_tick_failed_total{reason="ValueError",tick="broken"}' in page
    telemetry.close()


async def test_without_the_lease_nothing_runs(store: SqlStore, leadership: Leadership) -> None:
    """A scheduler that does not lead asks again and does no work."""
    begun = asyncio.Event()

    async def leads(_: datetime) -> int:
        begun.set()
        return 0

    async def never(_: datetime) -> int:
        raise AssertionError("ran without the lease")

    telemetry = Telemetry("test")
    second = Leadership(store, "second", clock=clock)
    assert leadership.lead()
    async with (
        Schedule(
            [Tick(name="leads", every=timedelta(milliseconds=10), run=leads)],
            leadership,
            telemetry,
            clock=clock,
            stopping=Stopping(MINUTE),
        ),
        Schedule(
            [Tick(name="never", every=timedelta(milliseconds=10), run=never)],
            second,
            telemetry,
            clock=clock,
            stopping=Stopping(MINUTE),
        ),
    ):
        for _ in range(3):
            await until(begun)
            begun.clear()
    assert b"AssertionError" not in telemetry.render()
    telemetry.close()


async def test_leaving_waits_for_the_tick_under_way(leadership: Leadership) -> None:
    """A tick that has begun is finished before the schedule is left."""
    begun = asyncio.Event()
    finished = False

    async def tick(_: datetime) -> int:
        nonlocal finished
        begun.set()
        await asyncio.sleep(0.1)
        finished = True
        return 0

    telemetry = Telemetry("test")
    ticks = [Tick(name="tick", every=timedelta(seconds=60), run=tick)]
    async with Schedule(ticks, leadership, telemetry, clock=clock, stopping=Stopping(MINUTE)):
        await until(begun)
    assert finished
    telemetry.close()


async def test_a_lasting_failure_is_told_once(leadership: Leadership, caplog: pytest.LogCaptureFixture) -> None:
    """A tick that fails again and again logs when it begins to, when the reason changes, and when it works again."""
    with caplog.at_level(logging.INFO, logger="monitor.runtime.schedule"):
        runs = 0
        done = asyncio.Event()

        async def failing(_: datetime) -> int:
            nonlocal runs
            runs += 1
            if runs <= 3:
                raise StoreUnavailable(f"attempt {runs}", reason="locked")
            if runs <= 6:
                raise ValueError("what a user wrote")
            if runs == 8:
                done.set()
            return 1

        telemetry = Telemetry("test")
        ticks = [Tick(name="failing", every=timedelta(milliseconds=10), run=failing)]
        async with Schedule(ticks, leadership, telemetry, clock=clock, stopping=Stopping(MINUTE)):
            await until(done)
        page = telemetry.render().decode()
        assert 'rag_monitor_tick_failed_total{reason="locked",tick="failing"} 3.0' in page
        telemetry.close()
    messages = [r.getMessage() for r in caplog.records if "tick:" in r.getMessage()]
    assert "failing tick: locked: attempt 1" == messages[0]
    assert messages[1].startswith("failing tick: ValueError: at ")
    assert "failing tick: works again" == messages[2]
    assert 3 == len(messages)
    assert "what a user wrote" not in caplog.text


async def test_leaving_lets_the_next_scheduler_begin(store: SqlStore, leadership: Leadership) -> None:
    """A scheduler that stops in order gives its lease back, so nobody waits for it to expire."""
    ran = asyncio.Event()

    async def tick(_: datetime) -> int:
        ran.set()
        return 0

    telemetry, second = Telemetry("test"), Leadership(store, "second", clock=clock)
    async with Schedule(
        [Tick(name="tick", every=timedelta(seconds=60), run=tick)],
        leadership,
        telemetry,
        clock=clock,
        stopping=Stopping(MINUTE),
    ):
        await until(ran)
        assert not second.lead()
    assert second.lead()
    telemetry.close()


async def test_a_tick_that_hangs_is_left_to_the_next_scheduler(
    store: SqlStore, leadership: Leadership, caplog: pytest.LogCaptureFixture
) -> None:
    """When the time for stopping is over it is cancelled, the log says so, and the lease is given back."""
    begun, cancelled = asyncio.Event(), False

    async def hangs(_: datetime) -> int:
        nonlocal cancelled
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled = True
            raise
        return 0

    stopping = Stopping(timedelta(milliseconds=100))
    telemetry = Telemetry("test")
    ticks = [Tick(name="alert", every=MINUTE, run=hangs)]
    async with Schedule(ticks, leadership, telemetry, clock=clock, stopping=stopping):
        await until(begun)
        stopping.begin()
    assert cancelled
    assert "alert tick: not done in the time for stopping" in caplog.text
    assert Leadership(store, "second", clock=clock).lead()
    telemetry.close()


@pytest.mark.parametrize("step", [timedelta(days=1), -timedelta(days=1)])
async def test_when_the_clock_is_set_every_tick_runs_at_once(leadership: Leadership, step: timedelta) -> None:
    """Planned by the time before, one would wait for as long as the clock was set back."""
    runs, offset = 0, timedelta(0)
    first, second = asyncio.Event(), asyncio.Event()

    async def tick(_: datetime) -> int:
        nonlocal runs
        runs += 1
        (first if runs == 1 else second).set()
        return 0

    telemetry = Telemetry("test")
    schedule = Schedule(
        [Tick(name="tick", every=timedelta(days=1), run=tick)],
        leadership,
        telemetry,
        clock=clock,
        stopping=Stopping(MINUTE),
        wall=lambda: time.time() + offset.total_seconds(),
    )
    async with schedule:
        await until(first)
        # Let the schedule look at the clock once before it is set.
        await asyncio.sleep(0)
        offset = step
        await until(second)
    assert runs == 2
    telemetry.close()
