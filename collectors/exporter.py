"""No kind: says where the exporters for apps are now, to whoever still imports them from here."""

from __future__ import annotations

from typing import NoReturn

_MOVED = frozenset({"RagMonitorSpanExporter", "RagMonitorLogExporter"})


def __getattr__(name: str) -> NoReturn:
    if name in _MOVED:
        raise ImportError(f"{name} has moved: from monitor.exporter.exporters import {name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
