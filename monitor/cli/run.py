"""`rag-monitor run`: the monitor itself, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import sys
from functools import partial
from pathlib import Path

import click

from monitor.cli.options import CONFIG, STORE, blamed_at, examples, settings_of
from monitor.cli.output import run_loop
from monitor.errors import ConfigError
from monitor.log_lines import configure_logging
from monitor.ports import Collector, Entrance, Listening
from monitor.runtime.app import ROLES, running
from monitor.runtime.signals import signals_taken
from monitor.settings.tree import Settings

log = logging.getLogger(__name__)

_SWITCH_SECONDS = 0.0005
"""How long a stage's thread keeps the interpreter while a request waits; Python's own 5 ms are felt by senders."""


@click.command(epilog=examples("rag-monitor run", "rag-monitor run -c rag-monitor.yaml --role ingest"))
@CONFIG
@STORE
@click.option("--role", "roles", multiple=True, type=click.Choice(ROLES), help="Part of the work; all without it.")
def run(config: Path | None, store_url: str | None, roles: tuple[str, ...]) -> None:
    """Accept telemetry, judge, roll up, alert; until SIGTERM or SIGINT, of which a second one ends it at once."""
    settings = settings_of(config, store_url)
    configure_logging(settings.log.level, settings.log.format)
    try:
        sys.setswitchinterval(_SWITCH_SECONDS)
        run_loop(_serve(settings, frozenset(roles or ROLES)))
    except ConfigError as error:
        # The sections of plug-ins are read when they are built, which knows their place in the file but not the file.
        raise blamed_at(error, config, store_url) from None


async def _serve(settings: Settings, roles: frozenset[str]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    end = partial(loop.call_soon_threadsafe, stop.set)
    with signals_taken(end, within=settings.runtime.stop_within):
        await _run_until(stop, settings, roles)


async def _run_until(stop: asyncio.Event, settings: Settings, roles: frozenset[str]) -> None:
    async with running(settings, roles=roles) as monitor:
        for name, collector in monitor.collectors.items():
            _tell(settings, f"{name}: {_source(collector)}")
        _tell(settings, f"health and metrics: {monitor.web_entrance}")
        await stop.wait()


def _tell(settings: Settings, line: str) -> None:
    """Tell whoever started us; where programs read the log it has no other lines."""
    if settings.log.format == "json":
        log.info("%s", line)
    else:
        click.echo(line, err=True)


def _source(collector: Collector) -> str:
    if isinstance(collector, Entrance):
        return f"listening on {collector.entrance()}"
    if isinstance(collector, Listening):
        return f"listening on {':'.join(map(str, collector.address))}"
    return "reading"
