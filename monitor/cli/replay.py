"""Recorded telemetry through the whole pipeline, with event time as the clock: `rag-monitor replay`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import click

from monitor.cli.options import CONFIG, STORE, examples, settings_of
from monitor.cli.output import FAILED, progress_bar, run_loop
from monitor.recordings.whole import files, portions
from monitor.runtime.app import utc_now
from monitor.runtime.build import Parts, open_parts
from monitor.runtime.drive import Driven, complete_at, drive
from monitor.runtime.intake import Intake
from monitor.runtime.pipeline import Pipeline
from monitor.settings.tree import Settings

_STILL_COMPLAINED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a replay read and made."""

    records: int
    """Spans, log records and imported turns made durable, each delivery counted."""
    bad: Mapping[str, int]
    """Records left out, by reason."""
    complaints: tuple[str, ...]
    """Where and why, the first of them."""
    driven: Driven | None
    """None when there was nothing to drive."""


@click.command(
    epilog=examples(
        "rag-monitor replay recorded/", "rag-monitor replay chats.jsonl --app shop --store sqlite:///shop.db"
    )
)
@click.argument("path", type=click.Path(path_type=Path))
@CONFIG
@STORE
@click.option("--judge", type=click.Choice(["none", "openai"]), help="Beats `judge.kind` of the settings.")
@click.option("--app", default="imported", show_default=True, help="The app's name for turns that carry none.")
def replay(path: Path, config: Path | None, store_url: str | None, judge: str | None, app: str) -> int:
    """Put recorded OTLP bodies or JSONL turns through the whole pipeline, with event time as the clock.

    PATH is a folder of *.traces.pb|json and *.logs.pb|json in the order of their names, a folder of *.jsonl, or one
    such file; all may be gzipped. Reading the same path again changes nothing.
    """
    overrides = {"RAG_MONITOR__JUDGE__KIND": judge} if judge else {}
    settings = settings_of(config, store_url, overrides)
    replayed = run_loop(_replay(path, settings, app))
    for complaint in replayed.complaints:
        click.echo(complaint, err=True)
    left_out = sum(replayed.bad.values())
    driven = replayed.driven
    turns, judged = (driven.samplings, driven.judged) if driven else (0, 0)
    click.echo(
        f"{replayed.records} records read, {left_out} left out; {turns} turns are new, {judged} judged", err=True
    )
    return 0 if replayed.records or not left_out else FAILED


async def _replay(path: Path, settings: Settings, app: str) -> Replayed:
    async with open_parts(settings) as parts:
        with progress_bar("reading") as bar:
            task = bar.add_task("", total=None)

            def progress(done: int, of: int) -> None:
                bar.update(task, completed=done, total=of)

            return await replay_recording(path, parts, app=app, now=utc_now(), progress=progress)


async def replay_recording(
    path: Path, parts: Parts, *, app: str, now: datetime, progress: Callable[[int, int], None] = lambda _done, _of: None
) -> Replayed:
    """Read `path` into the store and drive every stage to completion.

    Args:
        path: a folder of recorded request bodies or of JSONL files, or one such file.
        parts: what to work with.
        app: the app's name for imported turns that carry none.
        now: the time of records that carry none.
        progress: called with bytes read and bytes in all.

    Raises:
        ConfigError: there is nothing to read at `path`.
        StoreUnavailable: the database cannot be written.
    """
    total = sum(source.stat().st_size for source in files(path))
    done = records = 0
    latest: datetime | None = None
    bad: Counter[str] = Counter()
    complaints: list[str] = []
    async with Intake(parts.store, parts.settings.intake) as intake:
        for portion in portions(path, app=app, started_at=now):
            if portion.fragments:
                await intake.put(portion.fragments)
            records += sum(fragment.count for fragment in portion.fragments)
            bad.update(portion.bad)
            complaints += portion.complaints[: _STILL_COMPLAINED - len(complaints)]
            if portion.latest is not None:
                latest = max(latest, portion.latest) if latest else portion.latest
            done += portion.size
            progress(done, total)
    driven = await drive(Pipeline(parts=parts), now=complete_at(latest, parts.settings)) if latest else None
    return Replayed(records=records, bad=dict(bad), complaints=tuple(complaints), driven=driven)
