"""A monitor without the lexical proxy and without judging, for bench/soak.py: ingest, assemble, sample, roll up.

usage: _soak_server.py SETTINGS
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from monitor.http_server import Server
from monitor.runtime.build import build_collectors, open_parts
from monitor.runtime.intake import Intake
from monitor.runtime.schedule import Schedule, Tick
from monitor.runtime.vitals import Vitals
from monitor.settings.tree import load
from monitor.stages import assemble, rollup, sample
from monitor.telemetry import Telemetry
from monitor.web.health import HealthPages


def now() -> datetime:
    """Return the wall clock's instant."""
    return datetime.now(UTC)


def threaded(work: Callable[[datetime], int]) -> Callable[[datetime], Awaitable[int]]:
    """Run a stage beside the event loop."""
    return lambda at: asyncio.to_thread(work, at)


async def main(file: str) -> None:
    """Serve until SIGTERM."""
    settings, stop = load(Path(file), os.environ), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with AsyncExitStack() as stack:
        parts = await stack.enter_async_context(open_parts(settings))
        store, telemetry = parts.store, Telemetry("bench")
        stack.callback(telemetry.close)
        vitals = Vitals(store, telemetry, clock=now)
        pages = HealthPages(problems=vitals.problems, metrics=telemetry.render, metrics_type=telemetry.content_type)
        await stack.enter_async_context(Server(pages, host="127.0.0.1", port=settings.web.port, where="web"))
        await stack.enter_async_context(vitals)

        pace = rollup.Pace(settings.rollup.lateness)

        def assembling(at: datetime) -> int:
            return assemble.tick(
                store,
                settings.assemble,
                now=at,
                decode=parts.decode,
                dialects=parts.dialects,
                hash_user=parts.hash_user,
            )

        def sampling(at: datetime) -> int:
            return sample.tick(store, settings.sample, rubrics=(), proxy=None, now=at)

        def rolling_up(_: datetime) -> int:
            return rollup.tick(store, settings.rollup, rubrics=(), pace=pace)

        ticks = (
            Tick(name="assemble", every=settings.assemble.every, run=threaded(assembling)),
            Tick(name="sample", every=settings.sample.every, run=threaded(sampling)),
            Tick(name="rollup", every=settings.rollup.every, run=threaded(rolling_up)),
        )
        await stack.enter_async_context(Schedule(ticks, store, telemetry, clock=now))
        intake = await stack.enter_async_context(Intake(store, settings.intake))
        vitals.watch_intake(intake)
        for collector in build_collectors(settings, intake, clock=now).values():
            await stack.enter_async_context(collector)
        await stop.wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
