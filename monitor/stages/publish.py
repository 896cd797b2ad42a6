"""Trends and alerts to where people look: gauges for Prometheus, dashboard and annotations for Grafana."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from monitor.errors import MonitorError, Paused, Permanent
from monitor.model.trends import Alert, AlertState, Rollup, Series, Sums
from monitor.ports import GoOn, Publisher, to_the_end
from monitor.statistics.rates import wilson_rate
from monitor.stores import AlertStore
from monitor.telemetry import Gauge

GAUGES: Mapping[str, str] = {
    "defect_ratio": "Share of judged turns that are defects, over the last closed hour or 24 hours",
    "defect_ratio_lower": "Lower 95 % limit of the defect ratio",
    "defect_ratio_upper": "Upper 95 % limit of the defect ratio",
    "window_turns": "Turns of the last closed hour or 24 hours by what came of them: scored, pending, not_sampled, "
    "not_asked, or the reason why there is no score; they add up to all turns",
    "window_cost_usd": "What judging the turns of the last closed hour or 24 hours cost, in US dollars",
    "release_turns": "Turns of the last closed hour or 24 hours by release",
    "alert_firing": "1 while a regression of the series is firing, else 0",
}
"""Name (without `rag_monitor_`) -> description of what `quality_gauges` returns."""

SPANS: Mapping[str, timedelta] = {"1h": timedelta(hours=1), "24h": timedelta(hours=24)}
"""The label `window` -> what it spans: closed windows that ended within so long before the newest closed instant."""


def quality_gauges(
    rollups: Iterable[Rollup], alerts: Iterable[Alert], *, lateness: timedelta, now: datetime
) -> tuple[Gauge, ...]:
    """Return every `GAUGES` metric as of `now`; a series without scored turns has no ratio, neither 0 nor NaN.

    `rollups` must reach back 24 hours plus the lateness. The labels are app, environment, slice ("" for the whole
    app), metric, rubric_id; a metric that is a proxy says so in its name.
    """
    closed = [row for row in rollups if row.end + lateness <= now]
    gauges: list[Gauge] = []
    for label, span in SPANS.items():
        recent = [row for row in closed if row.end > now - lateness - span]
        gauges += _by_series(recent, label)
        gauges += _by_release(recent, label)
    firing = {alert.regression.series for alert in alerts if alert.state is AlertState.FIRING}
    for series in sorted({row.series for row in closed} | firing):
        gauges.append(Gauge(name="alert_firing", value=float(series in firing), labels=_labels(series)))
    return tuple(gauges)


async def tick(store: AlertStore, publisher: Publisher, *, go_on: GoOn = to_the_end) -> int:
    """Provision, then annotate alerts whose present state is not on Grafana yet; return how many were annotated.

    `go_on` is asked before each alert.

    A dashboard or an annotation that is refused keeps none of the others back.

    Raises:
        MonitorError: the first failure that is news, after everything else was tried.
    """
    failures: list[MonitorError] = []
    try:
        await publisher.provision()
    except Paused:
        pass
    except MonitorError as error:
        failures.append(error)
    alerts = await asyncio.to_thread(store.alerts, states=(AlertState.FIRING, AlertState.RESOLVED))
    annotated = 0
    for alert in reversed([a for a in alerts if a.to_annotate_since]):
        if not go_on():
            break
        try:
            await publisher.annotate(alert)
        except Paused:
            break
        except Permanent as error:
            failures.append(error)
        except MonitorError as error:
            failures.append(error)
            break
        else:
            # An alert that moved on meanwhile is annotated in its new state the next time.
            annotated += await asyncio.to_thread(store.mark_annotated, alert)
    if failures:
        raise failures[0]
    return annotated


def _by_series(rows: Sequence[Rollup], window: str) -> list[Gauge]:
    gauges: list[Gauge] = []
    for series in sorted({row.series for row in rows}):
        of_series = [row for row in rows if row.series == series]
        labels = {**_labels(series), "window": window}
        sums = sum((row.sums for row in of_series), Sums())
        for outcome, turns in _outcomes(sums, of_series).items():
            gauges.append(Gauge(name="window_turns", value=turns, labels={**labels, "outcome": outcome}))
        if sums.cost_usd:
            gauges.append(Gauge(name="window_cost_usd", value=sums.cost_usd, labels=labels))
        rate = wilson_rate(sums)
        if rate is not None:
            gauges += (
                Gauge(name="defect_ratio", value=rate.value, labels=labels),
                Gauge(name="defect_ratio_lower", value=rate.lower, labels=labels),
                Gauge(name="defect_ratio_upper", value=rate.upper, labels=labels),
            )
    return gauges


def _outcomes(sums: Sums, rows: Iterable[Rollup]) -> dict[str, int]:
    """Return turns by what came of them; the values add up to all turns."""
    unscored: dict[str, int] = {}
    for row in rows:
        for reason, turns in row.unscored.items():
            unscored[reason] = unscored.get(reason, 0) + turns
    rest = sums.turns - sums.n - sums.pending - sums.not_asked - sum(unscored.values())
    parts = {"scored": sums.n, "pending": sums.pending, "not_sampled": rest, **unscored}
    return parts | {"not_asked": sums.not_asked} if sums.not_asked else parts


def _by_release(rows: Iterable[Rollup], window: str) -> list[Gauge]:
    """Return turns by release; every metric counts the same turns, so the largest count is all of them."""
    turns: dict[tuple[str, str, str], dict[Series, int]] = {}
    for row in rows:
        if not row.series.slice:
            of_release = turns.setdefault((row.series.app, row.series.environment, row.release), {})
            of_release[row.series] = of_release.get(row.series, 0) + row.sums.turns
    return [
        Gauge(
            name="release_turns",
            value=max(counts.values()),
            labels={"app": app, "environment": environment, "release": release, "window": window},
        )
        for (app, environment, release), counts in sorted(turns.items())
    ]


def _labels(series: Series) -> dict[str, str]:
    return {
        "app": series.app,
        "environment": series.environment,
        "slice": series.slice,
        "metric": series.metric,
        "rubric_id": series.rubric_id,
    }
