"""`rag-monitor check`: are the settings usable, and do store, judge and sinks answer. Changes nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import packages_distributions
from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table

from monitor import plugins
from monitor.access.addresses import written
from monitor.cli.options import CONFIG, STORE, examples, settings_of
from monitor.cli.output import FAILED, print_table
from monitor.errors import ConfigError, MonitorError, place
from monitor.model.judgements import ChatMessage, ChatRequest
from monitor.model.spans import Fragment
from monitor.ports import Collector, Entrance
from monitor.runtime.app import web_entrance
from monitor.runtime.build import (
    build_channels,
    build_collectors,
    build_endpoint,
    build_judge,
    build_metrics,
    build_publisher,
    load_dialects,
    named_metrics,
)
from monitor.runtime.isolation import PluginFailures
from monitor.runtime.store_opening import sqlite_file, store_address
from monitor.settings.tree import Settings
from monitor.store import migration
from monitor.store.database import Database

_PATIENCE = timedelta(seconds=10)
_OURS = ("monitor", "collectors")
_PING = ChatRequest(
    messages=(ChatMessage(role="user", content='Reply with the JSON object {"ok": true} and nothing else.'),),
    max_output_tokens=16,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One part; `ok` is False when the monitor could not do its work with it."""

    part: str
    ok: bool
    message: str
    """What it is, or what is wrong and allowed; free of secrets."""


@click.command(epilog=examples("rag-monitor check", "rag-monitor check -c rag-monitor.yaml"))
@CONFIG
@STORE
def check(config: Path | None, store_url: str | None) -> int:
    """Test settings, store, judge and sinks; changes nothing. A model judge is asked once, with a dozen tokens."""
    parts = asyncio.run(check_parts(settings_of(config, store_url)))
    print_table(check_table(parts))
    return 0 if all(part.ok for part in parts) else FAILED


def check_table(parts: Sequence[Checked]) -> Table:
    """Return what was said of the parts as a table, one row each."""
    table = Table(box=None, show_header=False)
    for _ in range(3):
        table.add_column(no_wrap=True)
    for part in parts:
        table.add_row("ok" if part.ok else "FAILED", part.part, escape(part.message))
    return table


async def check_parts(settings: Settings) -> tuple[Checked, ...]:
    """Return what is to be said of every part, in the order in which data flows."""
    parts = [_names(), await _tried("collectors", lambda: _collectors(settings)), *_listeners(settings)]
    parts.append(await _tried("dialects", lambda: _dialects(settings)))
    parts.append(await _tried("store", lambda: asyncio.to_thread(_store, settings)))
    parts.append(await _tried("metrics", lambda: _metrics(settings)))
    parts.append(await _tried("judge", lambda: _judge(settings)))
    parts.append(await _tried("channels", lambda: _channels(settings)))
    parts.append(await _tried("grafana", lambda: _grafana(settings)))
    return tuple(parts)


def _names() -> Checked:
    owners = packages_distributions()
    foreign = sorted({d for name in _OURS for d in owners.get(name, []) if d != "rag-monitor"})
    if foreign:
        message = f"{', '.join(foreign)} also ships a package named monitor or collectors; install us apart from it"
        return Checked(part="installation", ok=False, message=message)
    if clashes := plugins.clashes():
        return Checked(part="installation", ok=False, message="; ".join(clashes))
    return Checked(part="installation", ok=True, message="no other distribution shadows our packages")


async def _tried(part: str, look: Callable[[], Awaitable[str]]) -> Checked:
    try:
        return Checked(part=part, ok=True, message=await look())
    except MonitorError as error:
        return Checked(part=part, ok=False, message=str(error))
    except Exception as error:  # noqa: BLE001 -- the other parts are still to be looked at
        return Checked(part=part, ok=False, message=f"a fault of ours or of a library: {place(error)}")


class _Nowhere:
    """A sink that is never put to: collectors are built to check their settings and not entered."""

    async def put(self, fragments: Sequence[Fragment]) -> None:
        raise ConfigError(f"{len(fragments)} fragments arrived at a collector that was not entered", where="checking")


async def _collectors(settings: Settings) -> str:
    return ", ".join(_built(settings)) or "none"


def _built(settings: Settings) -> Mapping[str, Collector]:
    return build_collectors(settings, _Nowhere(), PluginFailures(), clock=lambda: datetime.now(UTC))


def _listeners(settings: Settings) -> Iterator[Checked]:
    """Yield who may come in where; of the collectors, when they can be built."""
    with suppress(MonitorError):
        for name, collector in _built(settings).items():
            if isinstance(collector, Entrance):
                yield Checked(part=f"listener {name}", ok=True, message=collector.entrance())
    place = written(settings.web.host, settings.web.port)
    yield Checked(part="listener web", ok=True, message=web_entrance(settings.web, (place,)))


async def _dialects(settings: Settings) -> str:
    return ", ".join(dialect.name for dialect in load_dialects(settings, PluginFailures()))


def _store(settings: Settings) -> str:
    address = store_address(settings.store)
    file = sqlite_file(address)
    if file is not None and not file.exists():
        folder = file.resolve().parent
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigError(f"no file can be made in {folder}", where="store.url")
        return f"{file} does not exist yet and will be made at start"
    with closing(Database(address, patience=_PATIENCE)) as database:
        # Without the query, where a password may stand too.
        shown = address.set(query={}).render_as_string(hide_password=True)
        if migration.is_empty(database):
            return f"{shown} is empty and will be set up at start"
        migration.check(database)
    return f"{shown} answers, its schema is current"


async def _metrics(settings: Settings) -> str:
    judge = build_judge(settings.judge)
    metrics = build_metrics(settings, judge, fence_key=b"check")
    names = ", ".join(m.rubric.metric for m in metrics)
    named = named_metrics(settings, "", fence_key=b"check")
    asking = [name for name, brought in named.items() if any(metric.max_output_tokens for metric in brought)]
    if judge is None and asking:
        return f"{names}; without a judge model (judge.kind: openai) not measured: {', '.join(asking)}"
    return names


async def _judge(settings: Settings) -> str:
    if settings.judge.kind == "none":
        return "none: a lexical proxy instead; it sees answers that leave their documents, not small changes"
    answers = []
    for where, endpoint in (("judge", settings.judge), ("judge.fallback", settings.judge.fallback)):
        if endpoint is not None:
            async with build_endpoint(endpoint, where) as client:
                reply = await client.probe(_PING)
            answers.append(f"{reply.model} answered in {reply.latency.total_seconds():.2f} s")
    return "; fallback: ".join(answers)


async def _channels(settings: Settings) -> str:
    channels = build_channels(settings, PluginFailures())
    for channel in channels.values():
        await channel.check()
    if not channels:
        return "none: alerts are only stored and shown"
    return f"{', '.join(channels)}: reachable; `rag-monitor channels test` sends a message, to see that it is taken"


async def _grafana(settings: Settings) -> str:
    publisher = build_publisher(settings, lambda: datetime.now(UTC))
    if publisher is None:
        return "not configured"
    try:
        return await publisher.check()
    finally:
        await publisher.close()
