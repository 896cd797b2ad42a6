"""`rag-monitor alerts`: the regressions that were detected, and what is watched for more."""

from __future__ import annotations

from pathlib import Path

import click

from monitor.cli.options import CONFIG, FORMAT, STORE, examples, open_store_of, settings_of
from monitor.cli.output import print_rows
from monitor.detection import watched
from monitor.display import tables
from monitor.runtime.app import utc_now


@click.command(epilog=examples("rag-monitor alerts", "rag-monitor alerts --format jsonl"))
@CONFIG
@STORE
@FORMAT
def alerts(config: Path | None, store_url: str | None, form: str) -> None:
    """Print alerts, newest first, each with its rate and what it was held against; then what is watched, and how."""
    detect = settings_of(config, store_url).detect
    with open_store_of(config, store_url) as store:
        print_rows(form, store.alerts(), tables.alert_line, lambda stored: tables.alert_table(tuple(stored)))
        if form == "table":
            now = utc_now()
            series = watched.watched(store.rollups(until=now), store.baselines(), detect, now=now)
            lines = watched.lines(series, detect)
            click.echo(tables.printable("\n".join(lines) or "nothing is watched: no turn was scored"))
