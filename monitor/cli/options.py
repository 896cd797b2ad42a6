"""What the verbs of the command line share: options, the end of a help page, and the settings that options lead to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType

import click
from click.core import ParameterSource

from monitor.errors import ConfigError
from monitor.runtime.app import utc_now
from monitor.runtime.store_opening import open_existing
from monitor.settings.section import duration
from monitor.settings.tree import Settings, blamed, load
from monitor.store.sql_store import SqlStore
from monitor.text.timestamps import parse_rfc3339

_DEFAULT_FILE = Path("rag-monitor.yaml")

_GIVEN_BEFORE = f"{__name__}.before"


def _beside_those_before(context: click.Context, parameter: click.Parameter, value: object) -> object:
    """Return the value of an option, or that of the same one before the verb; the nearest to the verb's end counts."""
    options: dict[str, tuple[str, object]] = context.meta.setdefault(_GIVEN_BEFORE, {})
    name = parameter.name or ""
    if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
        options[name] = (parameter.opts[0], value)
    return options[name][1] if name in options else value


_format = partial(
    click.option,
    "--format",
    "form",
    type=click.Choice(["table", "jsonl"]),
    default="table",
    show_default=True,
    callback=_beside_those_before,
    help="How to print.",
)
_store = partial(
    click.option,
    "--store",
    "store_url",
    metavar="URL",
    callback=_beside_those_before,
    help="SQLAlchemy URL; beats what the settings say of the store.",
)
_config = partial(
    click.option,
    "--config",
    "-c",
    type=click.Path(path_type=Path),
    envvar="RAG_MONITOR_CONFIG",
    callback=_beside_those_before,
    help="Settings file. Without it: ./rag-monitor.yaml if there is one, else the defaults.",
)
FORMAT, STORE, CONFIG = _format(), _store(), _config()


def before_verbs(group: click.Group) -> click.Group:
    """Return the group with the options of its verbs, so that they may also stand before the verb."""
    for option in (_format, _store, _config):
        option(expose_value=False)(group)
    return group


def refuse_unused() -> None:
    """Refuse options before a verb that does not know them; for the body of a group that has them.

    Raises:
        UsageError: an option would do nothing.
    """
    context = click.get_current_context()
    group = context.command
    verb = group.get_command(context, context.invoked_subcommand or "") if isinstance(group, click.Group) else None
    if verb is None or verb.hidden or isinstance(verb, click.Group):
        return
    known = {parameter.name for parameter in verb.params}
    for name, (option, _) in context.meta.get(_GIVEN_BEFORE, {}).items():
        if name not in known:
            raise click.UsageError(f"`{verb.name}` takes no {option}", context)


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
    settings = load(settings_file(config), {**os.environ, **more})
    return settings.model_copy(update={"store": settings.store.at(store_url)}) if store_url else settings


def blamed_at(error: ConfigError, config: Path | None, store_url: str | None) -> ConfigError:
    """Return an error about a section that is read later, with the file or variable that says so in front."""
    option = {"RAG_MONITOR__STORE__URL": store_url} if store_url else {}
    return blamed(error, settings_file(config), {**os.environ, **option})


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
