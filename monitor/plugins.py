"""A kind in the settings becomes a module here, and nowhere else: the only dynamic import.

The name of a file is the kind (`channels/webhook.py` is `webhook`); of collectors, that of a folder
(`collectors/kafka/collector.py` is `kafka`). Other distributions add kinds through the entry-point group
`rag_monitor.<group>`, each pointing at such a module, and metrics through `rag_monitor.metrics`, each pointing at a
scorer. What they bring is checked when it is loaded: see docs/extending.md. Parts of our own whose libraries are heavy
are loaded here too, when the settings ask for what they do.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import cast

from monitor.errors import FAULTS, ConfigError, MonitorError, cause_at_start
from monitor.plugin_contract import check_channel, check_collector, check_module, check_scorer
from monitor.ports import Channel, Clock, Collector, Dialect, Sink, TurnScorer
from monitor.settings.tree import PluginSection, plugin_config

_OURS = "rag-monitor"
_PACKAGES = {"collectors": "collectors", "channels": "monitor.channels", "dialects": "monitor.dialects"}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_IN_FOLDERS = {"collectors": "collector"}
"""Groups whose kinds are folders, and the module in each that is the kind's; a file beside them is none."""


def kinds(group: str) -> tuple[str, ...]:
    """Return the kinds known in `group` ("collectors", "channels" or "dialects"), sorted."""
    return tuple(sorted({*_shipped(group), *(entry.name for entry in _entries(group))}))


def scorers() -> tuple[str, ...]:
    """Return the names of scorers that other distributions bring, sorted."""
    return tuple(sorted({entry.name for entry in _entries("metrics")}))


def clashes() -> tuple[str, ...]:
    """Return what is wrong with the names that other distributions bring, whether the settings ask for them or not.

    One that ships with the monitor, one that two distributions bring, and one that cannot be a kind.
    """
    problems: list[str] = []
    for group in (*_PACKAGES, "metrics"):
        for kind in sorted({entry.name for entry in _entries(group)}):
            ours = frozenset() if group == "metrics" else _shipped(group)
            try:
                _only(group, kind, f"rag_monitor.{group}", ours=ours)
            except ConfigError as error:
                problems.append(str(error))
    return tuple(problems)


def brought_by(group: str, kind: str) -> str:
    """Return the module and the distribution that bring the kind (`acme_rag.dialect of acme-rag`); "" for ours."""
    entry = _entry(group, kind)
    return _bringer(entry) if entry else ""


def load(group: str, kind: str, where: str) -> ModuleType:
    """Return the module of `kind`; `where` is the key path that asked for it, such as `collectors[1].kind`.

    Raises:
        ConfigError: there is no such kind (the message lists those there are) or more than one, it cannot be imported,
            or it is not what its group asks for.
    """
    word, entry = group.removesuffix("s"), _only(group, kind, where, ours=_shipped(group))
    with _blamed(where, f"{word} {kind!r}", entry):
        module = _imported(entry) if entry else _own(group, kind)
        check_module(group, module, kind)
    return cast("ModuleType", module)


def dialect(kind: str, where: str) -> Dialect:
    """Return the dialect of this name.

    Raises:
        ConfigError: as `load`.
    """
    return cast("Dialect", load("dialects", kind, where).DIALECT)


def collector(kind: str, section: PluginSection, where: str, *, sink: Sink, clock: Clock) -> Collector:
    """Return a collector, not entered; `where` is the key path of its section, such as `collectors[1]`.

    Raises:
        ConfigError: as `load`; or the section is wrong, or what is built is no `ports.Collector`.
    """
    module = load("collectors", kind, f"{where}.kind")
    config = plugin_config(module.Config, section, where)
    with _blamed(where, f"collector {kind!r}", _entry("collectors", kind)):
        built = _built(lambda: module.build(config, sink, clock))
        check_collector(built)
    return cast("Collector", built)


def channel(kind: str, section: PluginSection, where: str, *, name: str) -> Channel:
    """Return an alert channel; `where` is the key path of its section, `name` what the settings call it.

    Raises:
        ConfigError: as `load`; or the section is wrong, or what is built is no `ports.Channel`.
    """
    module = load("channels", kind, f"{where}.kind")
    config = plugin_config(module.Config, section, where)
    with _blamed(where, f"channel {kind!r}", _entry("channels", kind)):
        built = _built(lambda: module.build(config, name))
        check_channel(built)
    return cast("Channel", built)


def scorer(name: str, where: str, *, ours: frozenset[str]) -> TurnScorer:
    """Return the scorer that the entry point of this name leads to; `ours` are the names of metrics that are shipped.

    Raises:
        ConfigError: there is none or more than one, it cannot be imported, or it is no `ports.TurnScorer`.
    """
    entry = _only("metrics", name, where, ours=ours)
    if entry is None:
        raise ConfigError(f"no scorer {name!r}; known: {', '.join(scorers()) or 'none'}", where=where)
    with _blamed(where, f"metric {name!r}", entry):
        scorer = _imported(entry)
        check_scorer(scorer, name)
    return cast("TurnScorer", scorer)


def optional(module: str, *, extra: str, where: str) -> ModuleType:
    """Return a module that only an extra of ours brings; `where` is the key path that asked for it.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"cannot import {module!r}: {type(error).__name__}; pip install 'rag-monitor[{extra}]'", where=where
        ) from None


def on_demand(name: str, *, extra: str = "", where: str = "") -> ModuleType:
    """Return one of our own modules that most processes never need: the judge's client costs 25 MB, Grafana's 10.

    Raises:
        ConfigError: a package of `extra`, which the settings at `where` need, is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not extra:
            raise
        raise ConfigError(
            f"needs the package {error.name}, which is not installed here; install rag-monitor[{extra}]", where=where
        ) from None


def _shipped(group: str) -> frozenset[str]:
    package = importlib.import_module(_PACKAGES[group])
    return frozenset(
        name
        for _, name, is_folder in pkgutil.iter_modules(package.__path__)
        if not name.startswith("_") and is_folder == (group in _IN_FOLDERS)
    )


def _own(group: str, kind: str) -> ModuleType:
    inner = f".{_IN_FOLDERS[group]}" if group in _IN_FOLDERS else ""
    return importlib.import_module(f"{_PACKAGES[group]}.{kind}{inner}")


def _entries(group: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=f"rag_monitor.{group}"))


def _entry(group: str, kind: str) -> EntryPoint | None:
    return next((entry for entry in _entries(group) if entry.name == kind), None)


def _only(group: str, kind: str, where: str, *, ours: frozenset[str]) -> EntryPoint | None:
    """Return the one entry point of this name; None when the kind is one of ours."""
    word = group.removesuffix("s")
    entries = [entry for entry in _entries(group) if entry.name == kind]
    owners = [*([_OURS] if kind in ours else []), *(_owner(entry) for entry in entries)]
    if not owners:
        known = ", ".join(sorted({*ours, *(entry.name for entry in _entries(group))}))
        raise ConfigError(f"no {word} {kind!r}; known: {known}", where=where)
    if len(owners) > 1:
        mend = "rename the entry point" if kind in ours else "keep one of them"
        raise ConfigError(f"{word} {kind!r} is brought by {' and by '.join(owners)}; {mend}", where=where)
    if entries and not _NAME.fullmatch(kind):
        raise ConfigError(
            f"{word} {kind!r} of {owners[0]}: the entry point's name must be lower case letters, digits and _, "
            "a letter first; rename it",
            where=where,
        )
    return entries[0] if entries else None


def _bringer(entry: EntryPoint) -> str:
    return f"{entry.value} of {_owner(entry)}"


def _owner(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.value


def _imported(entry: EntryPoint) -> object:
    """Return what the entry point leads to; whatever its import does is a `ConfigError`."""
    path, _, attribute = (part.strip() for part in entry.value.partition("[")[0].partition(":"))
    try:
        target: object = importlib.import_module(path)
    except FAULTS as error:  # anybody's code
        raise ConfigError(f"cannot import it: {cause_at_start(error)}") from None
    for name in filter(None, attribute.split(".")):
        if not hasattr(target, name):
            raise ConfigError(f"{path} has no {attribute!r}")
        target = getattr(target, name)
    return target


def _built(build: Callable[[], object]) -> object:
    try:
        return build()
    except MonitorError:
        raise
    except FAULTS as error:  # anybody's code
        raise ConfigError(f"build raised {cause_at_start(error)}") from None


@contextmanager
def _blamed(where: str, what: str, entry: EntryPoint | None) -> Iterator[None]:
    """Put in front of errors where the plug-in was asked for and who brings it; ours say themselves what is wrong."""
    try:
        yield
    except ConfigError as error:
        if entry is None:
            raise
        raise error.at(f"{where}: {what} ({_bringer(entry)})") from None
