"""What each series is held against, or how long it still learns: an empty list of alerts is no all-clear by itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.display.alert_text import subject
from monitor.model.trends import Baseline, Rollup, Series, Sums
from monitor.settings.tree import DetectSettings
from monitor.statistics.rates import Rate, wilson_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One series of all turns, and what is normal for it."""

    series: Series
    baseline: Baseline | None
    """None: it still learns."""
    normal: Rate | None
    """Of the baseline's turns."""
    halves: tuple[Rate, Rate] | None
    """Of the baseline's first and second half, where their 95 % intervals do not meet: something changed in it."""
    windows: int
    """With scored turns, so far."""
    since: datetime
    """Start of the first of them."""


def watched(
    rollups: Iterable[Rollup], baselines: Mapping[Series, Baseline], settings: DetectSettings, *, now: datetime
) -> tuple[Watched, ...]:
    """Return the series with turns scored within `settings.horizon`, in order; slices are left out."""
    by_series: defaultdict[Series, list[Rollup]] = defaultdict(list)
    for row in rollups:
        if row.sums.n and not row.series.slice:
            by_series[row.series].append(row)
    return tuple(
        _watched(series, by_series[series], baselines.get(series))
        for series in sorted(by_series)
        if by_series[series][-1].start >= now - settings.horizon
    )


def lines(found: Sequence[Watched], settings: DetectSettings) -> tuple[str, ...]:
    """Return a line for each series, for people."""
    return tuple(f"{subject(one.series)}: {_state(one, settings)}" for one in found)


def _watched(series: Series, rows: Sequence[Rollup], baseline: Baseline | None) -> Watched:
    starts = sorted({row.start for row in rows})
    if baseline is None:
        return Watched(series=series, baseline=None, normal=None, halves=None, windows=len(starts), since=starts[0])
    middle = baseline.start + (baseline.end - baseline.start) / 2
    first, second = (
        wilson_rate(_sums(row for row in rows if start <= row.start < end))
        for start, end in ((baseline.start, middle), (middle, baseline.end))
    )
    apart = first is not None and second is not None and (first.upper < second.lower or second.upper < first.lower)
    return Watched(
        series=series,
        baseline=baseline,
        normal=wilson_rate(_sums(row for row in rows if baseline.start <= row.start < baseline.end)),
        halves=(first, second) if apart and first is not None and second is not None else None,
        windows=len(starts),
        since=starts[0],
    )


def _sums(rows: Iterable[Rollup]) -> Sums:
    return sum((row.sums for row in rows), Sums())


def _state(one: Watched, settings: DetectSettings) -> str:
    if one.baseline is None:
        until = one.since + settings.reference
        short = one.windows < settings.min_reference_windows
        missing = f" and {settings.min_reference_windows} windows with data ({one.windows} so far)" if short else ""
        return (
            f"learns what is normal until {until:%Y-%m-%d %H:%M}{missing}; until then only a bad release raises alerts"
        )
    normal = (
        f"{one.normal.value:.1%} ({one.normal.lower:.1%} to {one.normal.upper:.1%})" if one.normal else "a baseline"
    )
    told = f"held against {normal} of {one.baseline.start:%Y-%m-%d} to {one.baseline.end:%Y-%m-%d}"
    if one.halves is None:
        return told
    first, second = one.halves
    return f"{told}, which changed meanwhile: {first.value:.1%} in its first half, {second.value:.1%} in its second"
