"""`rag-monitor alerts`: the regressions that were detected, and what is normal for each trend."""

from __future__ import annotations

from pathlib import Path

import click

from monitor.cli.options import CONFIG, FORMAT, STORE, examples, open_store_of, settings_of
from monitor.cli.output import print_rows
from monitor.detection.baseline_status import baseline_statuses, status_lines
from monitor.display import tables
from monitor.display.alert_text import one_line
from monitor.display.undelivered import unannotated_line, undelivered_line
from monitor.runtime.app import utc_now


@click.command(epilog=examples("rag-monitor alerts", "rag-monitor alerts --format jsonl"))
@CONFIG
@STORE
@FORMAT
def alerts(config: Path | None, store_url: str | None, form: str) -> None:
    """Print alerts, newest first, each with its defect rate and the normal one; then the baseline of each trend.

    Channels that have not taken a message are named, with how many and why; so is Grafana.
    """
    settings = settings_of(config, store_url)
    detect = settings.detect
    with open_store_of(config, store_url) as store:
        print_rows(form, store.alerts(), tables.alert_line, lambda stored: tables.alert_table(tuple(stored)))
        if form == "table":
            now = utc_now()
            statuses = baseline_statuses(store.rollups(until=now), store.baselines(), detect, now=now)
            lines = status_lines(statuses, detect)
            click.echo(tables.printable("\n".join(lines) or "no trend yet: no turn was scored"))
            for undelivered in store.undelivered(since=now - settings.alert.retry_for):
                line = f"channel {one_line(undelivered.channel)}: {undelivered_line(undelivered)}"
                click.echo(tables.printable(line))
            if settings.grafana.url and (line := unannotated_line(store.alerts())):
                click.echo(f"Grafana: {line}; /readyz and the log say why")
