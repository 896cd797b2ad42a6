"""`rag-monitor trends`: the defect rates over time."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from monitor.cli.known_names import check_names
from monitor.cli.options import CONFIG, FORMAT, STORE, examples, moment, open_store_of
from monitor.cli.output import print_rows
from monitor.display import tables

_BY = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}


@click.command(epilog=examples("rag-monitor trends", "rag-monitor trends --by hour --since 2d --format jsonl"))
@CONFIG
@STORE
@click.option("--app", help="Only this app.")
@click.option("--metric", help="Only this metric.")
@click.option("--since", metavar="WHEN", help="A time or an age.")
@click.option("--by", type=click.Choice(tuple(_BY)), default="day", show_default=True)
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
    with open_store_of(config, store_url) as store:
        check_names(store, app=app, metrics=() if metric is None else (metric,))
        windows = store.rollups(app=app, metric=metric, since=moment(since) if since is not None else None)
        rows = tables.trend_rows(windows, by=_BY[by])
        print_rows(form, rows, tables.trend_line, lambda trend: tables.trend_table(tuple(trend)))
