"""A monitor without the lexical proxy and without judging, for bench/soak.py: ingest, assemble, sample, roll up.

usage: _soak_server.py SETTINGS
"""

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from monitor.access.gate import gate
from monitor.http_server.server import Server
from monitor.runtime.build import build_collectors, open_parts
from monitor.runtime.intake import Intake
from monitor.runtime.leadership import Leadership
from monitor.runtime.pipeline import Pipeline
from monitor.runtime.schedule import Schedule, Tick
from monitor.runtime.stopping import Stopping
from monitor.runtime.vitals import Vitals
from monitor.settings.tree import load
from monitor.stages.rollup import Pace
from monitor.telemetry import Telemetry
from monitor.web.health import HealthPages


def now() -> datetime:
    """Return the wall clock's instant."""
    return datetime.now(UTC)


async def main(file: str) -> None:
    """Serve until SIGTERM."""
    settings, stop = load(Path(file), os.environ), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with AsyncExitStack() as stack:
        parts = replace(await stack.enter_async_context(open_parts(settings)), metrics=(), proxy=None)
        store, telemetry = parts.store, Telemetry("bench")
        stack.callback(telemetry.close)
        vitals = Vitals(store, telemetry, clock=now)
        stands_before = gate(settings.web, "web", now)
        pages = HealthPages(
            stands_before.access,
            listening=lambda: True,
            problems=vitals.problems,
            metrics=telemetry.render,
            metrics_type=telemetry.content_type,
        )
        server = Server(pages, host="127.0.0.1", port=settings.web.port, where="web", refusals=stands_before.refusals)
        await stack.enter_async_context(server)
        await stack.enter_async_context(vitals)

        pipeline = Pipeline(parts=parts, pace=Pace(settings.rollup.lateness))
        ticks = (
            Tick(name="assemble", every=settings.assemble.every, run=pipeline.assemble),
            Tick(name="sample", every=settings.sample.every, run=pipeline.sample),
            Tick(name="rollup", every=settings.rollup.every, run=pipeline.rollup),
        )
        leadership = Leadership(store, parts.worker, clock=now)
        stopping = Stopping(settings.runtime.stop_within)
        schedule = Schedule(ticks, leadership, telemetry, clock=now, stopping=stopping)
        await stack.enter_async_context(schedule)
        intake = await stack.enter_async_context(Intake(store, settings.intake))
        vitals.watch_intake(intake)
        for collector in build_collectors(settings, intake, parts.failures, clock=now).values():
            await stack.enter_async_context(collector)
        await stop.wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
