"""The command `rag-monitor`: verbs that parse, call and print. Exit status: 0 ok, 1 failed, 2 usage or settings."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import click
import uvloop
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from monitor.cli import check as checks
from monitor.cli import demo as demonstration
from monitor.cli import demo_report
from monitor.cli import doctor as doctors
from monitor.cli.explain import as_json, as_text
from monitor.cli.explain import explain as explained
from monitor.cli.judge import judge
from monitor.cli.options import CONFIG, FORMAT, STORE, examples, moment, settings_file, settings_of
from monitor.cli.prompts import prompts
from monitor.cli.replay import Replayed
from monitor.cli.replay import replay as replayed
from monitor.detection import watched
from monitor.display import tables
from monitor.errors import ConfigError, MonitorError
from monitor.model.spans import EPOCH
from monitor.runtime.app import ROLES, running, utc_now
from monitor.runtime.build import load_dialects, open_existing, open_parts
from monitor.settings.tree import Settings
from monitor.store.sql_store import SqlStore, open_store
from monitor.telemetry import configure_logging

R = TypeVar("R")
T = TypeVar("T")

_FAILED, _USAGE, _INTERRUPTED = 1, 2, 130
_TABLE_ROWS = 50
_PIPE_WIDTH = 1000
"""Where there is no terminal no line is broken, so that `grep` finds whole ones."""
_BY = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}
_SWITCH_SECONDS = 0.0005
"""How long a stage's thread keeps the interpreter while a request waits; Python's own 5 ms are felt by senders."""
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 120}


def main() -> None:
    """Run the command and exit with its status."""
    try:
        status = commands(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(_INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(_USAGE)
    except ConfigError as error:
        click.echo(f"rag-monitor: {error}", err=True)
        sys.exit(_USAGE)
    except MonitorError as error:
        click.echo(f"rag-monitor: {error}", err=True)
        sys.exit(_FAILED)
    sys.exit(status if isinstance(status, int) else 0)


@click.group(context_settings=_CONTEXT, epilog=examples("rag-monitor demo", "rag-monitor run", "rag-monitor trends"))
@click.version_option(version("rag-monitor"), prog_name="rag-monitor")
def commands() -> None:
    """Watch deployed RAG chat apps: OpenTelemetry in, judged turns, honest trends and alerts out."""


commands.add_command(judge)
commands.add_command(prompts)


@commands.command(epilog=examples("rag-monitor run", "rag-monitor run -c rag-monitor.yaml --role ingest"))
@CONFIG
@STORE
@click.option("--role", "roles", multiple=True, type=click.Choice(ROLES), help="Part of the work; all without it.")
def run(config: Path | None, store_url: str | None, roles: tuple[str, ...]) -> None:
    """Accept telemetry, judge, roll up, alert; until SIGTERM or SIGINT."""
    settings = settings_of(config, store_url)
    configure_logging(settings.log.level)
    try:
        sys.setswitchinterval(_SWITCH_SECONDS)
        _loop_run(_serve(settings, frozenset(roles or ROLES)))
    except ConfigError as error:
        # The sections of plug-ins are read when they are built, which knows their place in the file but not the file.
        where = settings_file(config) or "settings"
        raise ConfigError("\n".join(f"{where}: {line}" for line in str(error).splitlines())) from None


async def _serve(settings: Settings, roles: frozenset[str]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running(settings, roles=roles) as monitor:
        for name, collector in monitor.collectors.items():
            address = ":".join(map(str, getattr(collector, "address", ())))
            click.echo(f"{name}: listening on {address}" if address else f"{name}: reading", err=True)
        click.echo(f"health and metrics: http://{monitor.web[0]}:{monitor.web[1]}/metrics", err=True)
        await stop.wait()


@commands.command(epilog=examples("rag-monitor check", "rag-monitor check -c rag-monitor.yaml"))
@CONFIG
@STORE
def check(config: Path | None, store_url: str | None) -> int:
    """Test settings, store, judge and sinks; changes nothing. A model judge is asked once, with a dozen tokens."""
    found = asyncio.run(checks.check(settings_of(config, store_url)))
    table = Table(box=None, show_header=False)
    for part in found:
        table.add_row("ok" if part.ok else "FAILED", part.part, escape(part.told))
    click.echo(_drawn(table), nl=False)
    return 0 if all(part.ok for part in found) else _FAILED


@commands.command(epilog=examples("rag-monitor doctor", "rag-monitor doctor --since 2h"))
@CONFIG
@STORE
@click.option("--since", metavar="WHEN", default="15m", show_default=True, help="A time or an age.")
@click.option("--limit", type=click.IntRange(min=1), default=500, show_default=True, help="At most so many traces.")
def doctor(config: Path | None, store_url: str | None, since: str, limit: int) -> None:
    """Say what arrived lately, app by app, what is missing in it, and the setting of the app that fixes it."""
    dialects = load_dialects(settings_of(config, store_url))
    with _store(config, store_url) as store, _quiet_pipe():
        for line in doctors.lines(doctors.diagnose(store, dialects, since=_when(since) or EPOCH, limit=limit)):
            click.echo(line)


@commands.command(epilog=examples("rag-monitor migrate --store sqlite:///rag-monitor.db"))
@CONFIG
@STORE
def migrate(config: Path | None, store_url: str | None) -> None:
    """Bring the store's schema up to date; `run` does it too."""
    settings = settings_of(config, store_url)
    store = open_store(settings.store.url, window=settings.rollup.window)
    try:
        store.check()
    finally:
        store.close()
    click.echo("the schema is up to date")


@commands.command(
    epilog=examples(
        "rag-monitor replay recorded/", "rag-monitor replay chats.jsonl --app shop --store sqlite:///shop.db"
    )
)
@click.argument("path", type=click.Path(path_type=Path))
@CONFIG
@STORE
@click.option("--judge", type=click.Choice(["offline", "openai"]), help="Beats `judge.kind` of the settings.")
@click.option("--app", default="imported", show_default=True, help="The app's name for turns that carry none.")
def replay(path: Path, config: Path | None, store_url: str | None, judge: str | None, app: str) -> int:
    """Put recorded OTLP bodies or JSONL turns through the whole pipeline, with event time as the clock.

    PATH is a folder of *.traces.pb|json and *.logs.pb|json in the order of their names, a folder of *.jsonl, or one
    such file; all may be gzipped. Reading the same path again changes nothing.
    """
    overrides = {"RAG_MONITOR__JUDGE__KIND": judge} if judge else {}
    settings = settings_of(config, store_url, overrides)
    configure_logging("WARNING")

    async def work() -> Replayed:
        async with open_parts(settings) as parts:
            with _progress("reading") as bar:
                task = bar.add_task("", total=None)

                def progress(done: int, of: int) -> None:
                    bar.update(task, completed=done, total=of)

                return await replayed(path, parts, app=app, now=utc_now(), progress=progress)

    found = _loop_run(work())
    for complaint in found.complaints:
        click.echo(complaint, err=True)
    left_out = sum(found.bad.values())
    driven = found.driven
    turns, judged = (driven.samplings, driven.judged) if driven else (0, 0)
    click.echo(f"{found.records} records read, {left_out} left out; {turns} turns are new, {judged} judged", err=True)
    return 0 if found.records or not left_out else _FAILED


@commands.command(epilog=examples("rag-monitor turns", "rag-monitor turns --app shop --since 2d --format jsonl"))
@CONFIG
@STORE
@click.option("--app", help="Only turns of this app.")
@click.option("--since", metavar="WHEN", help='A time ("2026-03-01T00:00Z") or an age ("2d").')
@click.option("--limit", type=click.IntRange(min=1), help="At most so many; a table stops at 50.")
@FORMAT
def turns(
    config: Path | None, store_url: str | None, app: str | None, since: str | None, limit: int | None, form: str
) -> None:
    """Print captured turns, oldest first. Their text is what users wrote: mind where you send it."""
    with _store(config, store_url) as store:
        found = store.turns(app=app, since=_when(since), limit=limit or (_TABLE_ROWS if form == "table" else None))
        _print(form, found, tables.turn_line, tables.turn_table)


@commands.command(epilog=examples("rag-monitor trends", "rag-monitor trends --by hour --since 2d --format jsonl"))
@CONFIG
@STORE
@click.option("--app", help="Only this app.")
@click.option("--metric", help="Only this metric.")
@click.option("--since", metavar="WHEN", help="A time or an age.")
@click.option("--by", type=click.Choice(["hour", "day", "week"]), default="day", show_default=True)
@FORMAT
def trends(
    config: Path | None,
    store_url: str | None,
    app: str | None,
    metric: str | None,
    since: str | None,
    by: str,
    form: str,
) -> None:
    """Print defect rates with their intervals, and what is not known: turns unscored, pending, not sampled."""
    with _store(config, store_url) as store:
        rows = tables.trend_rows(store.rollups(app=app, metric=metric, since=_when(since)), by=_BY[by])
        _print(form, rows, tables.trend_line, lambda found: tables.trend_table(tuple(found)))


@commands.command(epilog=examples("rag-monitor alerts", "rag-monitor alerts --format jsonl"))
@CONFIG
@STORE
@FORMAT
def alerts(config: Path | None, store_url: str | None, form: str) -> None:
    """Print alerts, newest first, each with its rate and what it was held against; then what is watched, and how."""
    detect = settings_of(config, store_url).detect
    with _store(config, store_url) as store:
        _print(form, store.alerts(), tables.alert_line, lambda found: tables.alert_table(tuple(found)))
        if form == "table":
            now = utc_now()
            found = watched.watched(store.rollups(until=now), store.baselines(), detect, now=now)
            click.echo(
                tables.printable("\n".join(watched.lines(found, detect)) or "nothing is watched: no turn was scored")
            )


@commands.command(epilog=examples("rag-monitor explain 3f9c", "rag-monitor explain 3f9c --format jsonl"))
@click.argument("turn_id")
@CONFIG
@STORE
@FORMAT
def explain(turn_id: str, config: Path | None, store_url: str | None, form: str) -> None:
    """Print everything stored about a turn: spans, turn, sampling, prompt, reply, verdict, window.

    TURN_ID may be cut to its first characters.
    """
    with _store(config, store_url) as store:
        found = explained(turn_id, store)
    with _quiet_pipe():
        click.echo(as_json(found) if form == "jsonl" else as_text(found))


@commands.command(epilog=examples("rag-monitor demo", "rag-monitor demo --seed 7 --out /tmp/demo"))
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default="demo-out", show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="Equal seeds give equal traffic.")
@click.option("--days", type=click.IntRange(min=6), default=8, show_default=True)
@click.option("--turns-per-hour", type=click.IntRange(min=5), default=20, show_default=True)
def demo(out: Path, seed: int, days: int, turns_per_hour: int) -> int:
    """Watch a small RAG chat app through a bad release, with no key and no other server.

    If OPENAI_API_KEY is set (and OPENAI_BASE_URL, OPENAI_MODEL), that model judges a tenth of the turns.
    """
    configure_logging("WARNING")
    now = utc_now().replace(minute=0, second=0, microsecond=0)
    scenario = demonstration.Scenario(
        seed=seed, days=days, turns_per_hour=turns_per_hour, start=now - timedelta(days=days)
    )
    settings = demonstration.settings_for(out, os.environ)

    async def work() -> demonstration.Demonstration:
        with _progress("watching") as bar:
            task = bar.add_task("", total=days * 24)

            def progress(until: datetime, turns: int) -> None:
                hours = (until - scenario.start) / timedelta(hours=1)
                reached = f"{until:%d %b %H:%M} UTC, {turns} turns"
                bar.update(task, completed=hours, description=reached)
                if bar.disable and hours % 24 == 0:
                    click.echo(f"watched until {reached}", err=True)

            return await demonstration.demonstrate(out, settings, scenario, progress=progress)

    found = _loop_run(work())
    for line in demo_report.lines(found):
        click.echo(line)
    picture = out / "trend.html"
    picture.write_text(demo_report.page(found), encoding="utf-8")
    click.echo(f"Picture: {picture.resolve()}")
    click.echo(f"Look around: rag-monitor trends --store {shlex.quote(settings.store.url)}")
    return 0


@contextmanager
def _store(config: Path | None, store_url: str | None) -> Iterator[SqlStore]:
    store = open_existing(settings_of(config, store_url))
    try:
        yield store
    finally:
        store.close()


def _print(form: str, found: Iterable[T], line: Callable[[T], str], table: Callable[[Iterable[T]], Table]) -> None:
    with _quiet_pipe():
        if form == "jsonl":
            for one in found:
                click.echo(line(one))
        else:
            click.echo(_drawn(table(found)), nl=False)


def _drawn(table: Table) -> str:
    """Return the table as wide as the terminal, or as wide as it wants to be where there is none."""
    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


@contextmanager
def _quiet_pipe() -> Iterator[None]:
    """Take it for success when the reader of our output has seen enough, as in `| head`."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes at exit, and must not complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _progress(what: str) -> Progress:
    console = Console(stderr=True)
    columns = (
        TextColumn(what),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console, disable=not console.is_terminal)


def _when(text: str | None) -> datetime | None:
    return None if text is None else moment(text, now=utc_now())


def _loop_run(work: Coroutine[object, object, R]) -> R:
    """Run on uvloop: the collectors' share of a core is what limits them."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
