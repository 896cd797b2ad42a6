"""Which trends have a baseline, and which still learn one: an empty list of alerts is no all-clear by itself."""

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
class BaselineStatus:
    """One series of all turns, and what is normal for it."""

    series: Series
    baseline: Baseline | None
    """None while it is learnt."""
    normal_rate: Rate | None
    """Of the baseline's turns."""
    halves: tuple[Rate, Rate] | None
    """Of the baseline's first and second half, where their 95 % intervals do not meet: something changed in it."""
    windows: int
    """With scored turns, so far."""
    first_window_at: datetime
    """Start of the first of them."""


def baseline_statuses(
    rollups: Iterable[Rollup], baselines: Mapping[Series, Baseline], settings: DetectSettings, *, now: datetime
) -> tuple[BaselineStatus, ...]:
    """Return the series with turns scored within `settings.horizon`, in order; slices are left out."""
    by_series: defaultdict[Series, list[Rollup]] = defaultdict(list)
    for row in rollups:
        if row.sums.n and not row.series.slice:
            by_series[row.series].append(row)
    return tuple(
        _status(series, by_series[series], baselines.get(series))
        for series in sorted(by_series)
        if by_series[series][-1].start >= now - settings.horizon
    )


def status_lines(statuses: Sequence[BaselineStatus], settings: DetectSettings) -> tuple[str, ...]:
    """Return a line for each series, for people."""
    return tuple(f"{subject(status.series)}: {_sentence(status, settings)}" for status in statuses)


def _status(series: Series, rows: Sequence[Rollup], baseline: Baseline | None) -> BaselineStatus:
    starts = sorted({row.start for row in rows})
    normal = None
    halves = None
    if baseline is not None:
        middle = baseline.start + (baseline.end - baseline.start) / 2
        normal = _rate(rows, baseline.start, baseline.end)
        first, second = _rate(rows, baseline.start, middle), _rate(rows, middle, baseline.end)
        if first and second and (first.upper < second.lower or second.upper < first.lower):
            halves = first, second
    return BaselineStatus(
        series=series,
        baseline=baseline,
        normal_rate=normal,
        halves=halves,
        windows=len(starts),
        first_window_at=starts[0],
    )


def _rate(rows: Sequence[Rollup], start: datetime, end: datetime) -> Rate | None:
    return wilson_rate(sum((row.sums for row in rows if start <= row.start < end), Sums()))


def _sentence(status: BaselineStatus, settings: DetectSettings) -> str:
    baseline = status.baseline
    if baseline is None:
        until = status.first_window_at + settings.reference
        fewest = settings.min_reference_windows
        missing = f" and until {fewest} windows have data ({status.windows} so far)" if status.windows < fewest else ""
        return (
            f"no baseline yet, learning it until {until:%Y-%m-%d %H:%M} UTC{missing}; "
            f"until then only a release worse than the one before it, which had {fewest} windows, raises an alert"
        )
    rate = status.normal_rate
    normal = f"{rate.value:.1%} ({rate.lower:.1%} to {rate.upper:.1%}), " if rate else ""
    learnt = f"baseline {normal}learnt from {baseline.start:%Y-%m-%d} to {baseline.end:%Y-%m-%d}"
    if status.halves is None:
        return learnt
    first, second = status.halves
    change = f"from {first.value:.1%} in the first half to {second.value:.1%} in the second"
    return f"{learnt}; warning: the rate changed in that time, {change}"
