"""Calls ticks at intervals, one at a time each, whatever the clock is set to; it remembers nothing.

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
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from monitor.errors import MonitorError, Permanent, StoreUnavailable
from monitor.ports import Clock
from monitor.runtime.leadership import Leadership
from monitor.runtime.stopping import Stopping
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

    def __init__(
        self, ticks: Sequence[Tick], leadership: Leadership, telemetry: Telemetry, *, clock: Clock, stopping: Stopping
    ) -> None:
        self._ticks = tuple(ticks)
        self._leadership = leadership
        self._telemetry = telemetry
        self._clock = clock
        self._stopping = stopping
        self._failing: dict[str, str] = {}
        """Tick -> why it failed last; what stays the same is logged once."""
        self._ended = asyncio.Event()
        self._beats: Sequence[asyncio.Task[None]] = ()

    async def __aenter__(self) -> Self:
        """Begin; every tick runs once at once."""
        self._beats = [asyncio.create_task(self._keep_running(tick), name=tick.name) for tick in self._ticks]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for ticks under way, for a while, and let the next scheduler begin at once.

        Those that go on for longer are cancelled: a channel may be silent for minutes.
        """
        self._ended.set()
        _, late = await asyncio.wait(self._beats, timeout=self._stopping.left().total_seconds())
        for beat in late:
            log.warning("%s tick: not done in the time for stopping; the next scheduler does it again", beat.get_name())
            beat.cancel()
        await asyncio.gather(*self._beats, return_exceptions=True)
        with suppress(StoreUnavailable):
            await asyncio.to_thread(self._leadership.give_back)

    async def _keep_running(self, tick: Tick) -> None:
        """Run a tick, and again at each multiple of its interval; those that come while it runs are skipped."""
        every = tick.every.total_seconds()
        at = time.monotonic()
        while not self._ended.is_set():
            await self._guarded(tick)
            late = time.monotonic() - at
            self._telemetry.skipped(tick.name, count=int(late // every))
            at += every * (late // every + 1)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), at - time.monotonic())

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
