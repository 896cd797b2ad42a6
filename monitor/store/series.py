"""Rollups as they are read back, and the baselines that series are held against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime

import orjson
from sqlalchemy import Connection, Row, select

from monitor.model.trends import Baseline, Rollup, Series, Sums
from monitor.store.columns import json_text
from monitor.store.statements import insert
from monitor.store.tables import baselines, rollups
from monitor.store.turn_rows import Cell

_SERIES = tuple(f.name for f in fields(Series))
_SUMS = tuple(f.name for f in fields(Sums))


def rolled_up(
    connection: Connection,
    *,
    app: str | None,
    metric: str | None,
    since: datetime | None,
    until: datetime | None,
) -> tuple[Rollup, ...]:
    """Return rollups by series, start and release; windows that start from `since` on and before `until`."""
    statement = select(rollups)
    if app is not None:
        statement = statement.where(rollups.c.app == app)
    if metric is not None:
        statement = statement.where(rollups.c.metric == metric)
    if since is not None:
        statement = statement.where(rollups.c.window_start >= since)
    if until is not None:
        statement = statement.where(rollups.c.window_start < until)
    # Sorted here, because each PostgreSQL database has its own idea of the order of text.
    return tuple(sorted(map(_rollup, connection.execute(statement)), key=lambda r: (r.series, r.start, r.release)))


def rollup_row(rollup: Rollup) -> dict[str, Cell]:
    """Return the row of `rollups`."""
    return {
        **asdict(rollup.series),
        **asdict(rollup.sums),
        "release": rollup.release,
        "window_start": rollup.start,
        "length": rollup.length,
        "unscored": json_text(dict(sorted(rollup.unscored.items()))),
        "histogram": json_text(_by_number(rollup.histogram)),
        "weighted_histogram": json_text(_by_number(rollup.weighted_histogram)),
    }


def pinned(connection: Connection) -> Mapping[Series, Baseline]:
    """Return the baselines by series."""
    stored = (
        Baseline(series=series_of(row), start=row.started_at, end=row.ended_at, pinned_by=row.pinned_by)
        for row in connection.execute(select(baselines))
    )
    return {baseline.series: baseline for baseline in stored}


def pin(connection: Connection, baseline: Baseline) -> None:
    """Set the baseline of its series."""
    statement = insert(connection, baselines).values(
        **asdict(baseline.series),
        started_at=baseline.start,
        ended_at=baseline.end,
        pinned_by=baseline.pinned_by,
    )
    new = statement.excluded
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=_SERIES,
            set_={"started_at": new.started_at, "ended_at": new.ended_at, "pinned_by": new.pinned_by},
        )
    )


def series_of(row: Row[tuple[object, ...]]) -> Series:
    """Return the series that a row names."""
    return Series(app=row.app, environment=row.environment, slice=row.slice, metric=row.metric, rubric_id=row.rubric_id)


def _rollup(row: Row[tuple[object, ...]]) -> Rollup:
    cells = row._mapping  # noqa: SLF001 -- SQLAlchemy's public name for a row by column
    return Rollup(
        series=series_of(row),
        release=row.release,
        start=row.window_start,
        length=row.length,
        sums=Sums(**{name: cells[name] for name in _SUMS}),
        unscored=orjson.loads(row.unscored),
        histogram=orjson.loads(row.histogram),
        weighted_histogram=orjson.loads(row.weighted_histogram),
    )


def _by_number(histogram: Mapping[str, float]) -> dict[str, float]:
    return {name: histogram[name] for name in sorted(histogram, key=float)}
