"""Which files hold what, by their names: `*.traces.pb|json`, `*.logs.pb|json` and `*.jsonl`, each also `.gz`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import TypeVar

from monitor.payloads.otlp.fragments import OtlpSignal

EXPECTED = "*.traces.pb|json, *.logs.pb|json or *.jsonl, also .gz"

_SIGNALS: Mapping[str, OtlpSignal] = {".traces": "traces", ".logs": "logs"}

P = TypeVar("P", bound=PurePath)


def is_packed(path: PurePath) -> bool:
    """Return whether the file is compressed."""
    return path.suffix == ".gz"


def is_lines(path: PurePath) -> bool:
    """Return whether the file holds a record a line."""
    return _plain(path).suffix == ".jsonl" and not _is_hidden(path)


def signal_of(path: PurePath) -> OtlpSignal | None:
    """Return what the file holds if it is the body of one request, else None."""
    plain = _plain(path)
    if plain.suffix not in {".pb", ".json"} or _is_hidden(path):
        return None
    return _SIGNALS.get(plain.with_suffix("").suffix)


def without_copies(paths: Iterable[P]) -> tuple[P, ...]:
    """Return the paths by name, without the `.json` of a body that is also there as `.pb`."""
    ordered = sorted(paths)
    binary = {_bare(path) for path in ordered if _plain(path).suffix == ".pb"}
    return tuple(path for path in ordered if not (_plain(path).suffix == ".json" and _bare(path) in binary))


def printable_name(path: PurePath) -> str:
    """Return the file's name in a form that log lines and JSON can hold, whatever bytes it consists of."""
    return path.name if path.name.isprintable() else ascii(path.name)


def _is_hidden(path: PurePath) -> bool:
    # Editors and copying programs keep what is not finished under such names.
    return path.name.startswith(".")


def _plain(path: PurePath) -> PurePath:
    return path.with_suffix("") if is_packed(path) else path


def _bare(path: PurePath) -> str:
    return _plain(path).with_suffix("").name
