"""Composition root: Settings -> an AsyncExitStack of running parts.

Started in this order and stopped in reverse: store, telemetry, judge, channels and Grafana, health pages, workers,
clock, collectors. So nothing is accepted before everything behind it runs, and what was accepted is flushed before
anything closes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, cast

from monitor import plugins
from monitor.errors import ConfigError
from monitor.http_server import Server
from monitor.ports import Channel, Collector
from monitor.runtime.build import Parts, build_channels, build_collectors, build_scorer, open_parts
from monitor.runtime.intake import Intake
from monitor.runtime.memory import giving_back
from monitor.runtime.schedule import Schedule, Tick
from monitor.runtime.vitals import Vitals
from monitor.settings.tree import Settings
from monitor.stages import alert, assemble, detect, publish, rollup, sample
from monitor.telemetry import Telemetry
from monitor.web.health import HealthPages

if TYPE_CHECKING:
    from monitor.grafana.publisher import GrafanaPublisher

log = logging.getLogger(__name__)

ROLES = ("ingest", "score", "schedule")
_PRUNED_AT_ONCE, _PRUNE_ROUNDS = 1000, 200
"""Rows of a kind per transaction, and transactions per tick: other writers get their turn in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A started monitor."""

    parts: Parts
    collectors: Mapping[str, Collector]
    web: tuple[str, int]
    """Address of the health pages."""


def utc_now() -> datetime:
    """Return the wall clock's instant."""
    return datetime.now(UTC)


@asynccontextmanager
async def running(settings: Settings, *, roles: frozenset[str] = frozenset(ROLES)) -> AsyncIterator[Running]:
    """Run the roles while entered; several processes with different roles share only the database.

    Raises:
        ConfigError: a setting cannot be used.
        StoreUnavailable: the database cannot be opened.
    """
    if unknown := roles - set(ROLES):
        raise ConfigError(f"role: {', '.join(sorted(unknown))} unknown; known: {', '.join(ROLES)}")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(giving_back())
        channels = build_channels(settings)
        parts = await stack.enter_async_context(open_parts(settings))
        intake = Intake(parts.store, settings.intake)
        # Built before anything runs, so that a wrong section ends the start; entered last.
        collectors = build_collectors(settings, intake, clock=utc_now) if "ingest" in roles else {}
        telemetry = Telemetry(version("rag-monitor"))
        stack.callback(telemetry.close)
        publisher = _publisher(settings)
        if publisher is not None:
            stack.push_async_callback(publisher.close)
        vitals = Vitals(parts.store, telemetry, clock=utc_now)
        pages = HealthPages(problems=vitals.problems, metrics=telemetry.render, metrics_type=telemetry.content_type)
        web = await stack.enter_async_context(
            Server(pages, host=settings.web.host, port=settings.web.port, where="web")
        )
        await stack.enter_async_context(vitals)
        if "score" in roles:
            await stack.enter_async_context(_scoring(parts, vitals))
        if "schedule" in roles:
            ticks = _ticks(parts, channels, publisher, vitals)
            await stack.enter_async_context(Schedule(ticks, parts.store, telemetry, clock=utc_now))
        if "ingest" in roles:
            await stack.enter_async_context(intake)
            vitals.watch_intake(intake)
            for name, collector in collectors.items():
                await stack.enter_async_context(collector)
                vitals.watch_collector(name, collector)
        log.info("started: roles %s", ", ".join(sorted(roles)))
        yield Running(parts=parts, collectors=collectors, web=web.address)
        log.info("stopping")


@asynccontextmanager
async def _scoring(parts: Parts, vitals: Vitals) -> AsyncIterator[None]:
    """Run the scoring worker; leaving gives jobs under way their grace period.

    A worker that ends by a fault of ours makes the monitor unready: a supervisor that looks can restart it, and the
    others of its work go on meanwhile.
    """
    stop = asyncio.Event()
    scorer = build_scorer(parts, clock=utc_now, settings=parts.settings.score)
    worker = asyncio.create_task(scorer.run(stop), name="score")
    vitals.watch_scorer(scorer, worker)
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(worker, return_exceptions=True)


def prune(parts: Parts, now: datetime) -> int:
    """Delete what is older than the settings keep and return the rows touched; what is left waits for the next tick."""
    kept = parts.settings.retention
    touched = 0
    for _ in range(_PRUNE_ROUNDS):
        rows = parts.store.prune(text_before=now - kept.text, fragments_before=now - kept.spans, limit=_PRUNED_AT_ONCE)
        touched += rows
        if not rows:
            break
    return touched


def _publisher(settings: Settings) -> GrafanaPublisher | None:
    if not settings.grafana.url:
        return None
    publisher = cast("type[GrafanaPublisher]", plugins.on_demand("monitor.grafana.publisher").GrafanaPublisher)
    return publisher(settings.grafana, clock=utc_now)


def _ticks(
    parts: Parts, channels: Mapping[str, Channel], publisher: GrafanaPublisher | None, vitals: Vitals
) -> tuple[Tick, ...]:
    settings, store = parts.settings, parts.store
    pace = rollup.Pace(settings.rollup.lateness)

    async def alerting(now: datetime) -> int:
        moved = await asyncio.to_thread(alert.tick, store, settings.alert, channels=tuple(channels), now=now)
        return moved + len(await alert.deliver(store, channels, settings.alert, now=now))

    async def publishing(now: datetime) -> int:
        await asyncio.to_thread(vitals.refresh_quality, lateness=settings.rollup.lateness, now=now)
        return await publish.tick(store, publisher) if publisher else 0

    ticks = [
        Tick(
            name="assemble",
            every=settings.assemble.every,
            run=_threaded(
                lambda now: assemble.tick(
                    store,
                    settings.assemble,
                    now=now,
                    decode=parts.decode,
                    dialects=parts.dialects,
                    hash_user=parts.hash_user,
                )
            ),
        ),
        Tick(
            name="sample",
            every=settings.sample.every,
            run=_threaded(
                lambda now: sample.tick(store, settings.sample, rubrics=parts.rubrics, proxy=parts.proxy, now=now)
            ),
        ),
        Tick(
            name="rollup",
            every=settings.rollup.every,
            run=_threaded(lambda _: rollup.tick(store, settings.rollup, rubrics=parts.rubrics, pace=pace)),
        ),
        Tick(
            name="detect",
            every=settings.detect.every,
            run=_threaded(lambda now: detect.tick(store, settings.detect, lateness=settings.rollup.lateness, now=now)),
        ),
        Tick(name="alert", every=settings.alert.every, run=alerting),
        Tick(name="publish", every=settings.grafana.every, run=publishing),
        Tick(
            name="prune",
            every=settings.retention.every,
            run=_threaded(lambda now: prune(parts, now)),
        ),
    ]
    return tuple(ticks)


def _threaded(work: Callable[[datetime], int]) -> Callable[[datetime], Awaitable[int]]:
    """Stages are synchronous; the loop serves collectors meanwhile."""

    async def run(now: datetime) -> int:
        return await asyncio.to_thread(work, now)

    return run
