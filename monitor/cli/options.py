"""What the verbs of the command line share: options, the end of a help page, and the settings that options lead to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType

import click

from monitor.errors import ConfigError
from monitor.runtime.app import utc_now
from monitor.runtime.build import open_existing
from monitor.settings.section import duration
from monitor.settings.tree import Settings, load
from monitor.store.sql_store import SqlStore
from monitor.text.timestamps import parse_rfc3339

_DEFAULT_FILE = Path("rag-monitor.yaml")

FORMAT = click.option(
    "--format", "form", type=click.Choice(["table", "jsonl"]), default="table", show_default=True, help="How to print."
)
STORE = click.option("--store", "store_url", metavar="URL", help="SQLAlchemy URL; beats `store.url` of the settings.")
CONFIG = click.option(
    "--config",
    "-c",
    type=click.Path(path_type=Path),
    envvar="RAG_MONITOR_CONFIG",
    help="Settings file. Without it: ./rag-monitor.yaml if there is one, else the defaults.",
)


def examples(*lines: str) -> str:
    """Return the end of a help page, which click shall not wrap."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def renamed(old: str, new: str) -> click.Command:
    """Return a verb that is not listed, and refuses to work under its old name."""

    @click.command(old, hidden=True, context_settings={"ignore_unknown_options": True}, add_help_option=False)
    @click.argument("_rest", nargs=-1, type=click.UNPROCESSED)
    def refuse(_rest: tuple[str, ...]) -> None:
        raise ConfigError(f"this verb is called `{new}` now", where=old)

    return refuse


def settings_of(config: Path | None, store_url: str | None, more: Mapping[str, str] = MappingProxyType({})) -> Settings:
    """Return the settings of a file, or of the one in the working directory, under `more` variables and a store's URL.

    Raises:
        ConfigError: the file cannot be read, or a key is wrong.
    """
    environ = {**os.environ, **more, **({"RAG_MONITOR__STORE__URL": store_url} if store_url else {})}
    return load(settings_file(config), environ)


def settings_file(config: Path | None) -> Path | None:
    """Return the file that was named, or the one in the working directory; None for the defaults."""
    return config or (_DEFAULT_FILE if _DEFAULT_FILE.exists() else None)


@contextmanager
def open_store_of(config: Path | None, store_url: str | None) -> Iterator[SqlStore]:
    """Open the store that the settings name for reading, and close it.

    Raises:
        ConfigError: the settings are wrong.
        StoreUnavailable: there is no store, or its schema is not the one of this version.
    """
    store = open_existing(settings_of(config, store_url))
    try:
        yield store
    finally:
        store.close()


def moment(text: str) -> datetime:
    """Return the instant of an ISO 8601 time (UTC unless it says otherwise) or of an age, such as "2d".

    Raises:
        ConfigError: it is neither.
    """
    try:
        age = duration(text)
        if isinstance(age, timedelta):
            return utc_now() - age
    except ValueError:
        pass
    try:
        return parse_rfc3339(text)
    except ValueError:
        raise ConfigError(
            f'{text!r} is neither a time ("2026-03-01T00:00Z") nor an age ("2d")', where="--since"
        ) from None
