"""`rag-monitor migrate`: the store's schema becomes the one of this version."""

from __future__ import annotations

from pathlib import Path

import click

from monitor.cli.options import CONFIG, STORE, examples, settings_of
from monitor.runtime.store_opening import open_settled


@click.command(epilog=examples("rag-monitor migrate --store sqlite:///rag-monitor.db"))
@CONFIG
@STORE
def migrate(config: Path | None, store_url: str | None) -> None:
    """Bring the store's schema up to date; `run` does it too."""
    settings = settings_of(config, store_url)
    store = open_settled(settings)
    try:
        store.check()
    finally:
        store.close()
    click.echo("the schema is up to date")
