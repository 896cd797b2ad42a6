"""Composition root: Settings -> an AsyncExitStack of running parts.

Started in this order and stopped in reverse: store, telemetry, judge, channels and Grafana, health pages, workers,
clock, collectors. So nothing is accepted before everything behind it runs, and what was accepted is flushed before
anything closes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

from monitor.access.addresses import entrance
from monitor.access.gate import gate
from monitor.errors import ConfigError
from monitor.http_server.server import Server
from monitor.ports import Channel, Clock, Collector
from monitor.runtime.build import Parts, build_channels, build_collectors, build_publisher, open_parts
from monitor.runtime.channel_digests import channel_digests
from monitor.runtime.descriptors import raise_descriptor_limit
from monitor.runtime.intake import Intake
from monitor.runtime.isolation import GuardedReports, PluginFailures, started
from monitor.runtime.leadership import Leadership
from monitor.runtime.memory import giving_back
from monitor.runtime.name_places import NamesLook
from monitor.runtime.overdue_text import OverdueText
from monitor.runtime.pipeline import Pipeline
from monitor.runtime.schedule import Schedule, Tick
from monitor.runtime.shared_clock import SharedClock
from monitor.runtime.stopping import Stopping
from monitor.runtime.vitals import Vitals
from monitor.settings.tree import Settings, WebSettings
from monitor.stages.detect import Round
from monitor.stages.rollup import Pace
from monitor.telemetry import Telemetry
from monitor.web.health import HealthPages

if TYPE_CHECKING:
    from monitor.grafana.publisher import GrafanaPublisher

log = logging.getLogger(__name__)

ROLES = ("ingest", "score", "schedule")


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A started monitor."""

    parts: Parts
    collectors: Mapping[str, Collector]
    web: tuple[str, int]
    """Address of the health pages."""
    web_entrance: str
    """All their addresses, and who may come in."""


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
        raise ConfigError(f"{', '.join(sorted(unknown))} unknown; known: {', '.join(ROLES)}", where="role")
    async with AsyncExitStack() as stack:
        raise_descriptor_limit()
        await stack.enter_async_context(giving_back())
        parts = await stack.enter_async_context(open_parts(settings))
        clock = SharedClock(parts.store.now)
        intake = Intake(parts.store, settings.intake)
        # Built before anything runs, so that a wrong section ends the start; collectors are entered last.
        channels = build_channels(settings, parts.failures)
        collectors = build_collectors(settings, intake, parts.failures, clock=clock) if "ingest" in roles else {}
        telemetry = Telemetry(version("rag-monitor"))
        stack.callback(telemetry.close)
        publisher = build_publisher(settings, clock)
        if publisher is not None:
            stack.push_async_callback(publisher.close)
        leadership = Leadership(parts.store, parts.worker, clock=clock)
        vitals = _vitals(parts, telemetry, clock, leadership, roles=roles)
        if "schedule" in roles:
            _watch_scheduled(vitals, parts, channels, publisher, clock)
        listening = asyncio.Event()
        web = await stack.enter_async_context(_web(settings, vitals, telemetry, listening))
        await stack.enter_async_context(vitals)
        stopping = Stopping(settings.runtime.stop_within)
        pipeline = _pipeline(parts, channels, publisher, stopping)
        if "score" in roles:
            await stack.enter_async_context(_scoring(pipeline, vitals, clock, stopping))
        if "schedule" in roles:
            schedule = Schedule(_ticks(pipeline, vitals), leadership, telemetry, clock=clock, stopping=stopping)
            await stack.enter_async_context(schedule)
        if "ingest" in roles:
            await stack.enter_async_context(_receiving(intake, collectors, vitals, parts.failures))
        log.info("started: roles %s", ", ".join(sorted(roles)))
        listening.set()
        stack.callback(listening.clear)
        # Left first: while collectors finish, judgements and ticks do, too.
        stack.callback(stopping.begin)
        said = web_entrance(settings.web, web.places)
        yield Running(parts=parts, collectors=collectors, web=web.address, web_entrance=said)
        log.info("stopping")


def _pipeline(
    parts: Parts, channels: Mapping[str, Channel], publisher: GrafanaPublisher | None, stopping: Stopping
) -> Pipeline:
    settings = parts.settings
    return Pipeline(
        parts=parts,
        channels=channels,
        channel_digests=channel_digests(settings, key=parts.store.key("channels")),
        publisher=publisher,
        pace=Pace(settings.rollup.lateness),
        detect_round=Round(),
        tick_limit=stopping.tick_limit,
    )


def _vitals(
    parts: Parts, telemetry: Telemetry, clock: SharedClock, leadership: Leadership, *, roles: frozenset[str]
) -> Vitals:
    vitals = Vitals(parts.store, telemetry, clock=clock)
    vitals.watch_clock(clock)
    # Whoever only takes in can do that without a scheduler, and a load balancer is to go on sending to it.
    vitals.watch_leadership(leadership, is_problem=roles != {"ingest"})
    vitals.watch_plugins(parts.failures)
    return vitals


def _web(settings: Settings, vitals: Vitals, telemetry: Telemetry, listening: asyncio.Event) -> Server:
    stands_before = gate(settings.web, "web", utc_now)
    vitals.watch_web(stands_before.refusals)
    pages = HealthPages(
        stands_before.access,
        listening=listening.is_set,
        problems=vitals.problems,
        metrics=telemetry.render,
        metrics_type=telemetry.content_type,
    )
    return Server(
        pages,
        host=settings.web.host,
        port=settings.web.port,
        where="web",
        refusals=stands_before.refusals,
        certificates=stands_before.certificates,
    )


def web_entrance(settings: WebSettings, places: Sequence[str]) -> str:
    """Return the pages' addresses and who may come in; `places` are their hosts and port."""
    scheme = "https" if settings.tls else "http"
    return entrance([f"{scheme}://{place}/metrics" for place in places], settings)


def _watch_scheduled(
    vitals: Vitals, parts: Parts, channels: Mapping[str, Channel], publisher: GrafanaPublisher | None, clock: Clock
) -> None:
    settings = parts.settings
    vitals.watch_retention(OverdueText(parts.store.kept_text, settings.retention, clock=clock))
    vitals.watch_names(NamesLook(parts.store.names, settings.assemble.names, clock=clock))
    vitals.watch_channels(tuple(channels), settings.alert)
    if publisher is not None:
        vitals.watch_publisher(publisher)


@asynccontextmanager
async def _receiving(
    intake: Intake, collectors: Mapping[str, Collector], vitals: Vitals, failures: PluginFailures
) -> AsyncIterator[None]:
    """Run the intake, then the collectors."""
    async with intake, AsyncExitStack() as stack:
        vitals.watch_intake(intake)
        for name, collector in collectors.items():
            await stack.enter_async_context(started(name, collector, failures))
            vitals.watch_collector(name, GuardedReports(collector, name, failures))
        yield


@asynccontextmanager
async def _scoring(pipeline: Pipeline, vitals: Vitals, clock: Clock, stopping: Stopping) -> AsyncIterator[None]:
    """Run the scoring worker; leaving gives jobs under way their grace period.

    A worker that ends by a fault of ours makes the monitor unready: a supervisor that looks can restart it, and the
    others of its work go on meanwhile.
    """
    scorer = pipeline.scorer(pipeline.parts.settings.score, clock=clock)
    worker = asyncio.create_task(scorer.run(stopping.event, left=stopping.left), name="score")
    vitals.watch_scorer(scorer, worker)
    try:
        yield
    finally:
        stopping.begin()
        await asyncio.gather(worker, return_exceptions=True)


def _ticks(pipeline: Pipeline, vitals: Vitals) -> tuple[Tick, ...]:
    settings = pipeline.parts.settings

    async def publish(now: datetime) -> int:
        await asyncio.to_thread(vitals.refresh_quality, lateness=settings.rollup.lateness, now=now)
        return await pipeline.publish(now)

    return (
        Tick(name="assemble", every=settings.assemble.every, run=pipeline.assemble),
        Tick(name="sample", every=settings.sample.every, run=pipeline.sample),
        Tick(name="rollup", every=settings.rollup.every, run=pipeline.rollup),
        Tick(name="detect", every=settings.detect.every, run=pipeline.detect),
        Tick(name="alert", every=settings.alert.every, run=pipeline.alert),
        Tick(name="publish", every=settings.grafana.every, run=publish),
        Tick(name="prune", every=settings.retention.every, run=pipeline.prune),
    )
