"""APScheduler as a clock: it calls ticks, coalesced, one at a time each, and remembers nothing.

A tick reads what is to do from the store, so a missed, doubled or late one is harmless. The lease keeps several
schedulers from doing the same work twice; losing it costs nothing but that.

APScheduler plans by the wall clock, so one that is set back by a day would leave it waiting for a day. When that clock
is set, every tick is planned anew.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

from apscheduler.events import EVENT_JOB_MAX_INSTANCES, JobEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from monitor.errors import MonitorError, Permanent, StoreUnavailable
from monitor.ports import Clock
from monitor.runtime.leadership import Leadership
from monitor.runtime.stopping import Stopping
from monitor.telemetry import Telemetry

log = logging.getLogger(__name__)

_LOOK = timedelta(seconds=1)
"""How often the wall clock is compared with the steady one."""
_STEP = timedelta(seconds=1)
"""By how much it differs when it was set; slewing, as time servers do, stays far below within a look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Work to do every so often; `run(now)` returns how many rows it wrote."""

    name: str
    every: timedelta
    run: Callable[[datetime], Awaitable[int]]


class Schedule(AbstractAsyncContextManager["Schedule"]):
    """Runs ticks while entered; leaving waits for the one under way."""

    def __init__(
        self,
        ticks: Sequence[Tick],
        leadership: Leadership,
        telemetry: Telemetry,
        *,
        clock: Clock,
        stopping: Stopping,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Prepare; `clock` is what ticks are told, `wall` (seconds since 1970) is what APScheduler goes by."""
        self._ticks = tuple(ticks)
        self._leadership = leadership
        self._telemetry = telemetry
        self._clock = clock
        self._stopping = stopping
        self._wall = wall
        self._failing: dict[str, str] = {}
        """Tick -> why it failed last; what stays the same is logged once."""
        self._running: set[asyncio.Task[object]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._scheduler = AsyncIOScheduler(timezone=UTC)

    async def __aenter__(self) -> Self:
        """Begin; every tick runs once at once."""
        self._scheduler.add_listener(self._on_overlap, EVENT_JOB_MAX_INSTANCES)
        for tick in self._ticks:
            self._scheduler.add_job(
                self._run,
                "interval",
                args=(tick,),
                id=tick.name,
                seconds=tick.every.total_seconds(),
                next_run_time=datetime.now(UTC),
                coalesce=True,
                max_instances=1,
                # The default drops a run that is a second late with a log line nobody reads.
                misfire_grace_time=None,
            )
        self._scheduler.start()
        self._watch = asyncio.create_task(self._follow_wall_clock(), name="wall clock")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for ticks under way, for a while, and let the next scheduler begin at once.

        Those that go on for longer are cancelled: a channel may be silent for minutes.
        """
        if self._watch is not None:
            self._watch.cancel()
        # Shut down with ticks under way, APScheduler cancels them at once and logs a traceback for each.
        self._scheduler.pause()
        await asyncio.sleep(0)
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=self._stopping.left().total_seconds())
            for task in late:
                log.warning(
                    "%s tick: not done in the time for stopping; the next scheduler does it again", task.get_name()
                )
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
        self._scheduler.shutdown(wait=False)
        with suppress(StoreUnavailable):
            await asyncio.to_thread(self._leadership.give_back)

    async def _follow_wall_clock(self) -> None:
        """Let every tick run at once whenever the wall clock was set."""
        ahead = self._wall() - time.monotonic()
        while True:
            await asyncio.sleep(_LOOK.total_seconds())
            before, ahead = ahead, self._wall() - time.monotonic()
            if abs(ahead - before) > _STEP.total_seconds():
                for job in self._scheduler.get_jobs():
                    job.modify(next_run_time=datetime.now(UTC))

    async def _run(self, tick: Tick) -> None:
        if task := asyncio.current_task():
            task.set_name(tick.name)
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        await self._guarded(tick)

    def _on_overlap(self, event: JobEvent) -> None:
        self._telemetry.skipped(event.job_id)

    async def _guarded(self, tick: Tick) -> None:
        began = time.monotonic()
        try:
            if not await asyncio.to_thread(self._leadership.lead):
                return
            rows = await tick.run(self._clock())
        except MonitorError as error:
            reason = error.reason if isinstance(error, StoreUnavailable | Permanent) else type(error).__name__
            self._failed(tick, reason, logging.WARNING, str(error))
        except Exception as error:  # noqa: BLE001 -- the clock's one broad catch: no tick may end the others
            # The message of a foreign error may hold user text; its type and place do not.
            at = traceback.extract_tb(error.__traceback__)[-1]
            self._failed(tick, type(error).__name__, logging.ERROR, f"at {at.filename}:{at.lineno}")
        else:
            self._telemetry.ticked(tick.name, rows=rows, seconds=time.monotonic() - began)
            if self._failing.pop(tick.name, None):
                log.info("%s tick: works again", tick.name)

    def _failed(self, tick: Tick, reason: str, level: int, message: str) -> None:
        self._telemetry.failed(tick.name, reason=reason)
        if self._failing.get(tick.name) != reason:
            self._failing[tick.name] = reason
            log.log(level, "%s tick: %s: %s", tick.name, reason, message)
