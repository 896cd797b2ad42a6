"""APScheduler as a clock: it calls ticks, coalesced, one at a time each; it remembers nothing.

A tick reads what is to do from the store, so a missed, doubled or late one is harmless. The lease keeps several
schedulers from doing the same work twice; losing it costs nothing but that.
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

from apscheduler.events import EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from monitor.errors import MonitorError, Permanent, StoreUnavailable
from monitor.ports import Clock
from monitor.runtime.leadership import Leadership
from monitor.telemetry import Telemetry

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Work to do every so often; `run(now)` returns how many rows it wrote."""

    name: str
    every: timedelta
    run: Callable[[datetime], Awaitable[int]]


class Schedule(AbstractAsyncContextManager["Schedule"]):
    """Runs ticks while entered; leaving waits for the one under way."""

    def __init__(self, ticks: Sequence[Tick], leadership: Leadership, telemetry: Telemetry, *, clock: Clock) -> None:
        self._ticks = tuple(ticks)
        self._leadership = leadership
        self._telemetry = telemetry
        self._clock = clock
        self._failing: dict[str, str] = {}
        """Tick -> why it failed last; what stays the same is logged once."""
        self._running: set[asyncio.Task[object]] = set()
        self._scheduler = AsyncIOScheduler(timezone=UTC)

    async def __aenter__(self) -> Self:
        """Start the clock; every tick runs once at once."""
        self._scheduler.add_listener(self._on_skip, EVENT_JOB_MAX_INSTANCES | EVENT_JOB_MISSED)
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
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the clock, wait for ticks under way, and let the next scheduler begin at once."""
        # Shut down with ticks under way, APScheduler cancels them, which threads ignore, and logs a traceback for each.
        self._scheduler.pause()
        await asyncio.sleep(0)
        await asyncio.gather(*self._running, return_exceptions=True)
        self._scheduler.shutdown(wait=False)
        with suppress(StoreUnavailable):
            await asyncio.to_thread(self._leadership.give_back)

    async def _run(self, tick: Tick) -> None:
        if task := asyncio.current_task():
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        await self._guarded(tick)

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

    def _on_skip(self, event: JobEvent) -> None:
        reason = "overlap" if event.code == EVENT_JOB_MAX_INSTANCES else "missed"
        self._telemetry.skipped(event.job_id, reason=reason)
