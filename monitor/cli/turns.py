"""`rag-monitor turns`: what was captured."""

from __future__ import annotations

from pathlib import Path

import click

from monitor.cli.options import CONFIG, FORMAT, STORE, examples, moment, open_store_of
from monitor.cli.output import TABLE_ROWS, print_rows
from monitor.display import tables


@click.command(epilog=examples("rag-monitor turns", "rag-monitor turns --app shop --since 2d --format jsonl"))
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
    with open_store_of(config, store_url) as store:
        limit = limit or (TABLE_ROWS if form == "table" else None)
        stored = store.turns(app=app, since=moment(since) if since is not None else None, limit=limit)
        print_rows(form, stored, tables.turn_line, tables.turn_table)
