"""`rag-monitor demo`: a chat app, watched through a bad release."""

from __future__ import annotations

import os
import shlex
from datetime import datetime, timedelta
from pathlib import Path

import click

from monitor.cli import demo_report
from monitor.cli.demonstration import Demonstration, Scenario, demonstrate, settings_for
from monitor.cli.options import examples
from monitor.cli.output import progress_bar, run_loop
from monitor.runtime.app import utc_now
from monitor.settings.tree import Settings


@click.command(epilog=examples("rag-monitor demo", "rag-monitor demo --seed 7 --out /tmp/demo"))
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default="demo-out", show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="Equal seeds give equal traffic.")
@click.option("--days", type=click.IntRange(min=6), default=8, show_default=True)
@click.option("--turns-per-hour", type=click.IntRange(min=5), default=20, show_default=True)
def demo(out: Path, seed: int, days: int, turns_per_hour: int) -> int:
    """Watch a small RAG chat app through a bad release, with no key and no other server.

    If OPENAI_API_KEY is set (and OPENAI_BASE_URL, OPENAI_MODEL), that model judges a tenth of the turns.
    """
    now = utc_now().replace(minute=0, second=0, microsecond=0)
    scenario = Scenario(seed=seed, days=days, turns_per_hour=turns_per_hour, start=now - timedelta(days=days))
    settings = settings_for(out, os.environ)
    demonstration = run_loop(_watch(out, settings, scenario))
    for line in demo_report.lines(demonstration):
        click.echo(line)
    picture = out / "trend.html"
    picture.write_text(demo_report.page(demonstration), encoding="utf-8")
    click.echo(f"Picture: {picture.resolve()}")
    click.echo(f"Look around: rag-monitor trends --store {shlex.quote(settings.store.url)}")
    return 0


async def _watch(out: Path, settings: Settings, scenario: Scenario) -> Demonstration:
    """Run the demo under a bar of progress, or a line a day where there is no terminal."""
    with progress_bar("watching") as bar:
        task = bar.add_task("", total=scenario.days * 24)

        def progress(until: datetime, turns: int) -> None:
            hours = (until - scenario.start) / timedelta(hours=1)
            reached = f"{until:%d %b %H:%M} UTC, {turns} turns"
            bar.update(task, completed=hours, description=reached)
            if bar.disable and hours % 24 == 0:
                click.echo(f"watched until {reached}", err=True)

        return await demonstrate(out, settings, scenario, progress=progress)
