"""One window's rollups, recomputed by the database from turns, jobs and outcomes.

A window is computed from one moment's view and written in a short transaction of its own, so that a large window keeps
no writer waiting. What changes in between leaves the window marked.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from sqlalchemy import BigInteger, ColumnElement, Connection, Row, and_, case, cast, delete, func, literal, select

from monitor.errors import ConfigError
from monitor.model.judgements import Rubric
from monitor.model.stored import Window
from monitor.model.trends import Rollup, Series, Sums
from monitor.store.asked_metrics import Asked, of_names
from monitor.store.columns import label
from monitor.store.database import Database
from monitor.store.series import rollup_row
from monitor.store.statements import insert
from monitor.store.tables import changed_windows, jobs, outcomes, rollups, rubrics, turns

_Cell: TypeAlias = tuple[str, str, str]
"""release, metric, rubric_id."""

_WHOLE_APP = ""


@dataclass(slots=True)
class _Judged:
    """What one metric came to on one release, while its rows are added up."""

    sums: Sums = field(default_factory=Sums)
    unscored: Counter[str] = field(default_factory=Counter)
    histogram: Counter[str] = field(default_factory=Counter)
    weighted_histogram: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))


def step(rubric: Rubric) -> float:
    """Return the width of a bin of the rubric's histogram, the power of ten that cuts its scale in two to ten.

    >>> step(Rubric(metric="m", rubric_id="r", needs=frozenset(), scale_min=1, scale_max=5))
    1.0
    >>> step(Rubric(metric="m", rubric_id="r", needs=frozenset(), scale_min=0, scale_max=1))
    0.1
    """
    width = rubric.scale_max - rubric.scale_min
    return 10.0 ** math.ceil(math.log10(width / 10)) if width > 0 else 1.0


def keep_rubrics(connection: Connection, configured: Sequence[Rubric]) -> None:
    """Remember the steps of these rubrics, so that windows can be recomputed when they are no longer in use."""
    if not configured:
        return
    statement = insert(connection, rubrics)
    connection.execute(
        statement.on_conflict_do_update(index_elements=["metric", "rubric_id"], set_={"step": statement.excluded.step}),
        [{"metric": metric, "rubric_id": rubric_id, "step": step} for (metric, rubric_id), step in _steps(configured)],
    )


def roll_up(
    database: Database, windows: Sequence[Window], *, rubrics: Sequence[Rubric], length: timedelta, kept: timedelta
) -> int:
    """Recompute windows, each in a transaction of its own, and return the number of rows written.

    Raises:
        ConfigError: `length` is not that of the windows that are `kept`.
    """
    if length != kept:
        raise ConfigError(f"rolling up windows of {length}: the store was opened for windows of {kept}")
    with database.reading("reading rubrics") as connection:
        unknown = unknown_rubrics(connection, rubrics)
    if unknown:
        with database.writing("keeping rubrics") as connection:
            keep_rubrics(connection, rubrics)
    written = 0
    for window in windows:
        with database.reading("computing a window") as connection:
            rows = compute(connection, window, configured=rubrics, length=length)
        with database.writing("writing a window") as connection:
            written += write(connection, window, rows)
    return written


def unknown_rubrics(connection: Connection, configured: Sequence[Rubric]) -> bool:
    """Return whether `keep_rubrics` would change anything."""
    known = {(row.metric, row.rubric_id): row.step for row in connection.execute(select(rubrics))}
    return any(known.get(key) != step for key, step in _steps(configured))


def compute(
    connection: Connection, window: Window, *, configured: Sequence[Rubric], length: timedelta
) -> tuple[Rollup, ...]:
    """Return the window's rollups: every release that has turns, by every rubric that is given or was used."""
    traffic = _traffic(connection, window, length)
    decided = _decided(connection, window, length)
    judged = _judged(connection, window, length)
    for key, waiting in _pending(connection, window, length).items():
        judged[key].sums += Sums(sampled=waiting, pending=waiting)
    used = {(metric, rubric_id) for _, metric, rubric_id in judged} | {key for key, _ in _steps(configured)}
    rows: list[Rollup] = []
    for release, of_release in sorted(traffic.items()):
        for metric, rubric_id in sorted(used):
            cell = judged[release, metric, rubric_id]
            series = Series(
                app=window.app,
                environment=window.environment,
                slice=_WHOLE_APP,
                metric=metric,
                rubric_id=rubric_id,
            )
            rows.append(
                Rollup(
                    series=series,
                    release=release,
                    start=window.start,
                    length=length,
                    sums=of_release + cell.sums + Sums(not_asked=_not_asked(decided, release, (metric, rubric_id))),
                    unscored=dict(cell.unscored),
                    histogram=dict(cell.histogram),
                    weighted_histogram=dict(cell.weighted_histogram),
                )
            )
    return tuple(rows)


def write(connection: Connection, window: Window, rows: Sequence[Rollup]) -> int:
    """Make the window's rows exactly `made` and take its mark away, unless it changed; return the rows written.

    A window without a mark was rolled up by somebody else, perhaps from a later view than ours: it is left alone.
    """
    key = (
        changed_windows.c.app == window.app,
        changed_windows.c.environment == window.environment,
        changed_windows.c.window_start == window.start,
    )
    current = connection.execute(select(changed_windows.c.mark).where(*key).with_for_update()).scalar()
    if current is None:
        return 0
    connection.execute(
        delete(rollups).where(
            rollups.c.app == window.app,
            rollups.c.environment == window.environment,
            rollups.c.window_start == window.start,
        )
    )
    if rows:
        connection.execute(insert(connection, rollups), [rollup_row(rollup) for rollup in rows])
    if current == window.mark:
        connection.execute(delete(changed_windows).where(*key))
    return len(rows)


def _steps(configured: Sequence[Rubric]) -> list[tuple[tuple[str, str], float]]:
    return sorted({(label(r.metric), label(r.rubric_id)): step(r) for r in configured}.items())


def _inside(window: Window, length: timedelta) -> ColumnElement[bool]:
    return and_(
        turns.c.app == window.app,
        turns.c.environment == window.environment,
        turns.c.started_at >= window.start,
        turns.c.started_at < window.start + length,
    )


def _traffic(connection: Connection, window: Window, length: timedelta) -> dict[str, Sums]:
    """Return what is known of all turns of the window, judged or not, by release."""
    f = turns.c.proxy
    rows = connection.execute(
        select(turns.c.release, func.count(), func.count(f), func.sum(f), func.sum(f * f))
        .where(_inside(window, length))
        .group_by(turns.c.release)
    )
    return {
        release: Sums(turns=count, proxied=proxied, f=total or 0.0, f2=squares or 0.0)
        for release, count, proxied, total, squares in rows
    }


def _decided(connection: Connection, window: Window, length: timedelta) -> dict[str, list[tuple[Asked, int]]]:
    """Return by release the lists of metrics that turns were decided about, each with the number of turns."""
    rows = connection.execute(
        select(turns.c.release, turns.c.asked, func.count())
        .where(_inside(window, length), turns.c.asked != "")
        .group_by(turns.c.release, turns.c.asked)
    ).all()
    lists = of_names(connection, {asked for _, asked, _ in rows})
    decided: defaultdict[str, list[tuple[Asked, int]]] = defaultdict(list)
    for release, asked, count in rows:
        decided[release].append((lists[asked], count))
    return decided


def _not_asked(decided: Mapping[str, Sequence[tuple[Asked, int]]], release: str, rubric: tuple[str, str]) -> int:
    return sum(count for asked, count in decided.get(release, ()) if rubric not in asked)


def _pending(connection: Connection, window: Window, length: timedelta) -> dict[_Cell, int]:
    cell = (turns.c.release, jobs.c.metric, jobs.c.rubric_id)
    rows = connection.execute(
        select(*cell, func.count())
        .join_from(turns, jobs, jobs.c.turn_id == turns.c.turn_id)
        .where(_inside(window, length))
        .group_by(*cell)
    )
    return {(release, metric, rubric_id): count for release, metric, rubric_id, count in rows}


def _judged(connection: Connection, window: Window, length: timedelta) -> defaultdict[_Cell, _Judged]:
    """Return what became of the sampled turns, in one pass over the outcomes.

    Its rows are sums by reason and by bin of the histogram, some dozens per release and metric.
    """
    # Half a bin down and rounded is rounded down, on both databases and without SQLite's optional `floor`; the
    # billionth keeps 0.3 in the bin that begins there although 0.3 / 0.1 is 2.9999999999999996.
    bin_ = func.round(outcomes.c.score / rubrics.c.step - 0.5 + 1e-9).label("bin")
    by = (turns.c.release, outcomes.c.metric, outcomes.c.rubric_id, outcomes.c.reason, outcomes.c.sampled)
    rows = connection.execute(
        select(*by, rubrics.c.step, bin_, *_statistics())
        .join_from(turns, outcomes, outcomes.c.turn_id == turns.c.turn_id)
        .join(
            rubrics,
            and_(rubrics.c.metric == outcomes.c.metric, rubrics.c.rubric_id == outcomes.c.rubric_id),
            isouter=True,
        )
        .where(_inside(window, length))
        .group_by(*by, rubrics.c.step, bin_)
    )
    judged: defaultdict[_Cell, _Judged] = defaultdict(_Judged)
    for row in rows:
        cell = judged[row.release, row.metric, row.rubric_id]
        cell.sums += _spent(row)
        if row.reason is not None:
            cell.sums += Sums(sampled=row.outcomes if row.sampled else 0)
            cell.unscored[row.reason] += row.outcomes
            continue
        cell.sums += _scored(row)
        if row.bin is not None:
            name = f"{round(row.bin) * row.step:g}"
            cell.histogram[name] += row.outcomes
            cell.weighted_histogram[name] += row.sw
    return judged


def _statistics() -> tuple[ColumnElement[object], ...]:
    """The sums of `Sums` over verdicts, NULL where nothing enters one; those with f leave out turns without a proxy."""
    w, s, f = literal(1.0) / outcomes.c.probability, outcomes.c.score, turns.c.proxy
    x = case((outcomes.c.defect, 1.0), else_=0.0)
    summands: Mapping[str, ColumnElement[float]] = {
        "sw": w,
        "sw2": w * w,
        "swx": w * x,
        "sw2x": w * w * x,
        "sws": w * s,
        "sws2": w * s * s,
        "swf": w * f,
        "swf2": w * f * f,
        "swxf": w * x * f,
        "sw2f": w * w * f,
        "sw2f2": w * w * f * f,
        "sw2xf": w * w * x * f,
        "cost_usd": outcomes.c.cost_usd,
    }
    return (
        func.count().label("outcomes"),
        func.sum(case((outcomes.c.defect, 1), else_=0)).label("k"),
        # A sum of 64-bit integers is a decimal to PostgreSQL.
        cast(func.sum(outcomes.c.input_tokens), BigInteger).label("input_tokens"),
        cast(func.sum(outcomes.c.output_tokens), BigInteger).label("output_tokens"),
        *(func.sum(summand).label(name) for name, summand in summands.items()),
    )


def _scored(row: Row[tuple[object, ...]]) -> Sums:
    return Sums(
        sampled=row.outcomes,
        n=row.outcomes,
        k=row.k,
        sw=row.sw,
        sw2=row.sw2,
        swx=row.swx,
        sw2x=row.sw2x,
        sws=row.sws or 0.0,
        sws2=row.sws2 or 0.0,
        swf=row.swf or 0.0,
        swf2=row.swf2 or 0.0,
        swxf=row.swxf or 0.0,
        sw2f=row.sw2f or 0.0,
        sw2f2=row.sw2f2 or 0.0,
        sw2xf=row.sw2xf or 0.0,
    )


def _spent(row: Row[tuple[object, ...]]) -> Sums:
    return Sums(input_tokens=row.input_tokens, output_tokens=row.output_tokens, cost_usd=row.cost_usd)
