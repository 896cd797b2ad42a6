"""Windows are compared with a baseline and become regressions, and these become the alerts that people are sent.

An alert is never taken back: replay goes on from the latest alert on record, so late verdicts and a growing family of
series change what is detected next and never what was detected before. Where another model began to answer behind the
judge's name and judges otherwise, windows before are not compared with those after: the series begins anew.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from monitor.detection.judge_change import JudgeComparison, judge_comparisons
from monitor.detection.regressions import Family, detect
from monitor.model.judgements import SecondOpinionKind
from monitor.model.trends import Alert, AlertState, Baseline, Regression, Rollup, Series
from monitor.ports import GoOn, to_the_end
from monitor.settings.tree import DetectSettings
from monitor.stores import AlertStore, SecondOpinionStore, SeriesStore

_WARM_UP = timedelta(days=30)
"""How far before the horizon replay begins; evidence of longer ago has long been forgotten by the meter."""
_LARGEST_GAP = timedelta(days=1)
"""From a change of the judge to the onset of a regression that it may explain."""


class DetectStore(SeriesStore, AlertStore, SecondOpinionStore, Protocol):
    """Windows in, alerts out; and what is known of changes of the judge."""


class Round:
    """Where to go on: a tick that ended before it had looked at every series begins with the ones it left out."""

    def __init__(self) -> None:
        self._after: Series | None = None

    def walk(self, every: Iterable[Series], go_on: GoOn) -> Iterator[Series]:
        """Yield the series, the one behind the last one yielded before first; `go_on` is asked after each."""
        ordered = sorted(every)
        first = 0 if self._after is None else bisect_right(ordered, self._after)
        for series in ordered[first:] + ordered[:first]:
            yield series
            self._after = series
            if not go_on():
                return


def tick(
    store: DetectStore,
    settings: DetectSettings,
    *,
    lateness: timedelta,
    now: datetime,
    go_on: GoOn = to_the_end,
    of_round: Round | None = None,
) -> int:
    """Bring alerts in line with the windows closed by `now`; return the number of baselines and alerts written.

    `go_on` is asked after each series, and `of_round` knows where the next tick begins; None for always at the first.
    Doing it again writes nothing. A baseline is pinned when it is first complete, so that late data cannot move it.
    """
    latest_alerts = _latest_by_series(store.alerts())
    baselines = store.baselines()
    since = _since(latest_alerts.values(), settings, now)
    rows = _by_series(store.rollups(since=since, until=now))
    comparisons = _comparisons(store, since)
    families = _families(rows)
    written: list[Alert] = []
    pinned = 0
    ongoing = {series for series, alert in latest_alerts.items() if alert.regression.recovered_at is None}
    for series in (of_round or Round()).walk({*rows, *ongoing}, go_on):
        latest, baseline = latest_alerts.get(series), baselines.get(series)
        of_series = comparisons.get((series.metric, series.rubric_id), ())
        if cut := _comparable_since(of_series, latest):
            rows[series] = [row for row in rows.get(series, ()) if row.start >= cut]
            baseline = baseline if baseline is None or baseline.start >= cut else None
        earlier = () if baseline is None else _earlier(store, baseline, settings, since=since)
        detection = detect(
            (*earlier, *rows.get(series, ())),
            baseline,
            settings,
            family=families.get(series.app, Family(whole=1, sliced=0, releases=False)),
            latest=latest.regression if latest else None,
            lateness=lateness,
            now=now,
        )
        if detection.baseline is not None and detection.baseline != baseline:
            store.pin(detection.baseline)
            pinned += 1
        regressions = tuple(_with_judge_change(r, of_series) for r in detection.regressions)
        written += _reconcile(latest, regressions, now=now)
    if written:
        store.save_alerts(written)
    return pinned + len(written)


def _reconcile(latest: Alert | None, regressions: Sequence[Regression], *, now: datetime) -> tuple[Alert, ...]:
    """Return the alerts to write: the latest one where its numbers changed, and a pending one for each new incident."""
    alerts = []
    for regression in regressions:
        if latest is not None and regression.detected_at == latest.regression.detected_at:
            if regression != latest.regression:
                alerts.append(replace(latest, regression=regression))
            continue
        alerts.append(
            Alert(
                alert_id=_digest(regression.series, regression.rule, regression.detected_at.isoformat()),
                fingerprint=_digest(regression.series, regression.rule),
                state=AlertState.PENDING,
                regression=regression,
                pending_at=now,
            )
        )
    return tuple(alerts)


def _comparisons(store: SecondOpinionStore, since: datetime) -> Mapping[tuple[str, str], tuple[JudgeComparison, ...]]:
    """Return the changes of the judge by metric and rubric id, oldest first."""
    changes = store.changes(since=since)
    if not changes:
        return {}
    return judge_comparisons(changes, store.second_opinions(since=since, kind=SecondOpinionKind.ANCHOR))


def _comparable_since(comparisons: Sequence[JudgeComparison], latest: Alert | None) -> datetime | None:
    """Return from when on a series is judged as it is now; None when it always was.

    An incident that began before and is still open keeps the baseline that it has: people wait for its end.
    """
    since = max((c.change.at for c in comparisons if c.begins_new_trend), default=None)
    if since and latest and latest.regression.recovered_at is None and latest.regression.began_at < since:
        return None
    return since


def _with_judge_change(regression: Regression, comparisons: Sequence[JudgeComparison]) -> Regression:
    """Return the regression with the change of the judge that may explain it, if there was one."""
    near = [c for c in comparisons if regression.began_at - _LARGEST_GAP <= c.change.at <= regression.detected_at]
    return replace(regression, judge_change=near[-1].sentences if near else regression.judge_change)


def _latest_by_series(alerts: Iterable[Alert]) -> dict[Series, Alert]:
    """Return the alert about the latest incident of each series."""
    latest: dict[Series, Alert] = {}
    for alert in alerts:
        known = latest.get(alert.regression.series)
        if known is None or alert.regression.detected_at > known.regression.detected_at:
            latest[alert.regression.series] = alert
    return latest


def _since(latest_alerts: Iterable[Alert], settings: DetectSettings, now: datetime) -> datetime:
    """Return where replay begins: far enough back for the evidence, and for the reference of every open incident."""
    starts = [alert.regression.began_at for alert in latest_alerts if alert.regression.recovered_at is None]
    return min([now - settings.horizon - _WARM_UP, *starts]) - settings.reference


def _by_series(rollups: Iterable[Rollup]) -> dict[Series, list[Rollup]]:
    rows: dict[Series, list[Rollup]] = {}
    for row in rollups:
        rows.setdefault(row.series, []).append(row)
    return rows


def _families(rows: Mapping[Series, Sequence[Rollup]]) -> dict[str, Family]:
    families: dict[str, Family] = {}
    for series, windows in rows.items():
        family = families.get(series.app, Family(whole=0, sliced=0, releases=False))
        families[series.app] = Family(
            whole=family.whole + (not series.slice),
            sliced=family.sliced + bool(series.slice),
            releases=family.releases or any(row.release for row in windows),
        )
    return families


def _earlier(
    store: SeriesStore, baseline: Baseline, settings: DetectSettings, *, since: datetime
) -> tuple[Rollup, ...]:
    """Return the rows of a baseline that lie before replay's beginning, without a short gap between the two."""
    if baseline.start >= since:
        return ()
    series = baseline.series
    until = since if since - baseline.end < settings.reference else baseline.end
    rows = store.rollups(app=series.app, metric=series.metric, since=baseline.start, until=until)
    return tuple(row for row in rows if row.series == series)


def _digest(series: Series, *parts: str) -> str:
    """Return 32 hex characters that name a series and what is said of it."""
    text = "\x00".join((series.app, series.environment, series.slice, series.metric, series.rubric_id, *parts))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
