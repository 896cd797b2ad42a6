"""The shipped Grafana dashboard, bound to one data source. Pure but for reading the file.

`dashboards/quality.json` holds every query twice, for PostgreSQL and for Prometheus; binding keeps one of the two and
names the data source everywhere, since a dashboard that carries another instance's uid shows empty panels and no error.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from monitor.errors import ConfigError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

UID = "rag-monitor-quality"
RATE_PANEL = 2
"""Id of the panel with the defect rate: where annotations belong."""
MANAGED = "managed"
"""The dashboard's tag that says the monitor may replace it."""

FAMILIES = {
    "grafana-postgresql-datasource": "postgresql",
    "postgres": "postgresql",
    "prometheus": "prometheus",
}
"""Grafana's data source types that can serve the dashboard."""

_MIXED = "-- Mixed --"
_REVISION = "revision:"
_REVISION_LENGTH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """One of Grafana's data sources."""

    uid: str
    name: str
    type: str


def load(path: Path) -> dict[str, Json]:
    """Return the dashboard file as it is shipped.

    Raises:
        ConfigError: there is no such file, or it holds no dashboard.
    """
    try:
        model = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot be read: {error}", where=f"dashboard {str(path)!r}") from None
    if not isinstance(model, dict) or model.get("uid") != UID:
        raise ConfigError(f"expected an object with uid {UID!r}", where=f"dashboard {str(path)!r}")
    return model


def bind(model: dict[str, Json], source: DataSource) -> dict[str, Json]:
    """Return the dashboard for `source` with the tag that names its revision, ready to push; `model` stays as it is."""
    bound = _bind(model, source)
    if not isinstance(bound, dict):
        raise TypeError("a dashboard is an object")
    text = json.dumps(bound, sort_keys=True).encode()
    digest = hashlib.blake2b(text, digest_size=_REVISION_LENGTH // 2).hexdigest()
    return {**bound, "tags": [*tags(bound), f"{_REVISION}{digest}"]}


def tags(model: object) -> tuple[str, ...]:
    """Return a dashboard's tags; () when it has none that can be read."""
    listed = model.get("tags") if isinstance(model, dict) else None
    return tuple(tag for tag in listed if isinstance(tag, str)) if isinstance(listed, list) else ()


def revision(tagged: Sequence[str]) -> str | None:
    """Return the tag with the revision that `bind` wrote; None when there is none among `tagged`."""
    return next((tag for tag in tagged if tag.startswith(_REVISION)), None)


def choose(sources: Sequence[DataSource], wanted: str | None) -> DataSource:
    """Return the data source named by name or uid, or with None the only one that fits.

    Raises:
        ConfigError: none or several fit; the message lists the candidates.
    """
    fitting = tuple(source for source in sources if source.type in FAMILIES)
    listed = ", ".join(f"{s.name!r} (uid {s.uid}, {s.type})" for s in fitting) or "none"
    if wanted is None:
        if len(fitting) == 1:
            return fitting[0]
        raise ConfigError(
            f"not set, and Grafana's fitting data sources are: {listed}; name one", where="grafana.datasource"
        )
    named = [source for source in sources if wanted in (source.uid, source.name)]
    if not named:
        raise ConfigError(
            f"Grafana has no data source {wanted!r}; those that fit: {listed}", where="grafana.datasource"
        )
    if named[0].type not in FAMILIES:
        raise ConfigError(
            f"{wanted!r} is of type {named[0].type!r}; allowed: {', '.join(FAMILIES)}; those that fit: {listed}",
            where="grafana.datasource",
        )
    return named[0]


def _bind(node: Json, source: DataSource) -> Json:
    if isinstance(node, list):
        return [_bind(item, source) for item in node if not _for_other_family(item, source)]
    if not isinstance(node, dict):
        return node
    return {
        key: {"type": source.type, "uid": source.uid}
        if key == "datasource" and _is_placeholder(value)
        else _bind(value, source)
        for key, value in node.items()
    }


def _is_placeholder(reference: Json) -> bool:
    """Say whether a data source reference stands for the bound one; Grafana's own annotation store does not."""
    return isinstance(reference, dict) and (reference.get("uid") == _MIXED or reference.get("type") in FAMILIES)


def _for_other_family(item: Json, source: DataSource) -> bool:
    """Say whether an item (query, variable, annotation query) is written for the other family."""
    reference = item.get("datasource") if isinstance(item, dict) else None
    kind = reference.get("type") if isinstance(reference, dict) else None
    return isinstance(kind, str) and kind in FAMILIES and FAMILIES[kind] != FAMILIES[source.type]
