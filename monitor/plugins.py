"""A kind in the settings becomes a module here, and nowhere else: the only dynamic import.

The name of a file is the kind (`channels/webhook.py` is `webhook`); of collectors, that of a folder
(`collectors/kafka/collector.py` is `kafka`). Other distributions add kinds through the entry-point group
`rag_monitor.<group>`, each pointing at such a module. Parts of our own whose libraries are heavy are loaded here too,
when the settings ask for what they do.
"""

from __future__ import annotations

import importlib
import pkgutil
from importlib.metadata import entry_points
from types import ModuleType

from monitor.errors import ConfigError

_SCORERS = "rag_monitor.metrics"
_FOLDERS = frozenset({"collectors"})
"""Groups whose kinds are folders; a file beside them is none."""
_PACKAGES = {"collectors": "collectors", "channels": "monitor.channels", "dialects": "monitor.dialects"}


def kinds(group: str) -> tuple[str, ...]:
    """Return the kinds known in `group` ("collectors", "channels" or "dialects"), sorted."""
    package = importlib.import_module(_PACKAGES[group])
    modules = pkgutil.iter_modules(package.__path__)
    ours = {m.name for m in modules if m.ispkg == (group in _FOLDERS) and not m.name.startswith("_")}
    return tuple(sorted(ours | {entry.name for entry in entry_points(group=f"rag_monitor.{group}")}))


def scorers() -> tuple[str, ...]:
    """Return the names of scorers that other distributions bring, sorted."""
    return tuple(sorted({entry.name for entry in entry_points(group=_SCORERS)}))


def scorer(name: str, where: str) -> object:
    """Return what the entry point of this name leads to, which is to be a `ports.TurnScorer`.

    Raises:
        ConfigError: there is none, or it cannot be imported.
    """
    for entry in entry_points(group=_SCORERS):
        if entry.name == name:
            try:
                found: object = entry.load()
            except (ImportError, AttributeError) as error:
                raise ConfigError(f"{where}: cannot import {entry.value!r}: {type(error).__name__}") from error
            return found
    raise ConfigError(f"{where}: no scorer {name!r}; known: {', '.join(scorers()) or 'none'}")


def optional(module: str, *, extra: str, where: str) -> ModuleType:
    """Return a module that only an extra of ours brings; `where` is the key path that asked for it.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{where}: cannot import {module!r}: {type(error).__name__}; pip install 'rag-monitor[{extra}]'"
        ) from None


def on_demand(name: str) -> ModuleType:
    """Return one of our own modules that most processes never need: the judge's client costs 25 MB, Grafana's 10."""
    return importlib.import_module(name)


def load(group: str, kind: str, where: str) -> ModuleType:
    """Return the module of `kind`; `where` is the key path that asked for it, such as `collectors[1].kind`.

    Raises:
        ConfigError: there is no such kind; the message lists those there are.
    """
    if kind not in kinds(group):
        raise ConfigError(f"{where}: no {group.removesuffix('s')} {kind!r}; known: {', '.join(kinds(group))}")
    for entry in entry_points(group=f"rag_monitor.{group}"):
        if entry.name == kind:
            module = entry.load()
            if not isinstance(module, ModuleType):
                raise ConfigError(f"{where}: entry point {entry.value!r} of {kind!r} is not a module")
            return module
    name = f"{_PACKAGES[group]}.{kind}"
    return importlib.import_module(f"{name}.{group.removesuffix('s')}" if group in _FOLDERS else name)
