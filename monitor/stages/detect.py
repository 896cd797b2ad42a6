"""Windows against a baseline become regressions, and these the alerts that people are told of.

What people were told stays told: replay goes on from the last incident on record, so late verdicts and a growing family
of series change what is detected next and never what was detected before. Where another model began to answer behind
the judge's name and judges otherwise, windows before are not held against those after: the series begins anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from monitor.detection.judge_change import Bridge, bridges
from monitor.detection.regressions import Detection, Family, detect
from monitor.model.trends import Alert, AlertState, Baseline, Regression, Rollup, Series
from monitor.model.turns import SecondOpinionKind
from monitor.settings.tree import DetectSettings
from monitor.stores import AlertStore, SecondOpinionStore, SeriesStore

_MEMORY = timedelta(days=30)
"""How far before the horizon replay begins; evidence of longer ago has long been forgotten by the meter."""
_NEAR = timedelta(days=1)
"""How long before its onset a change of the judge may have to do with a regression."""


class DetectStore(SeriesStore, AlertStore, SecondOpinionStore, Protocol):
    """Windows in, alerts out; and what is known of changes of the judge."""


def tick(store: DetectStore, settings: DetectSettings, *, lateness: timedelta, now: datetime) -> int:
    """Bring alerts in line with the windows closed by `now`; return the number of baselines and alerts written.

    Doing it again writes nothing. A baseline is pinned when it is first complete, so that late data cannot move it.
    """
    told = _last_told(store.alerts())
    baselines = store.baselines()
    since = _since(told.values(), settings, now)
    rows = _by_series(store.rollups(since=since, until=now))
    changed = _changed(store, since)
    families = _families(rows)
    written: list[Alert] = []
    pinned = 0
    for series in sorted({*rows, *(s for s, alert in told.items() if alert.regression.recovered_at is None)}):
        alert, baseline = told.get(series), baselines.get(series)
        of_judge = changed.get((series.metric, series.rubric_id), ())
        if cut := _cut(of_judge, alert):
            rows[series] = [row for row in rows.get(series, ()) if row.start >= cut]
            baseline = baseline if baseline is None or baseline.start >= cut else None
        earlier = () if baseline is None else _earlier(store, baseline, settings, since=since)
        detection = detect(
            (*earlier, *rows.get(series, ())),
            baseline,
            settings,
            family=families.get(series.app, Family(whole=1, sliced=0, releases=False)),
            told=alert.regression if alert else None,
            lateness=lateness,
            now=now,
        )
        if detection.baseline is not None and detection.baseline != baseline:
            store.pin(detection.baseline)
            pinned += 1
        detection = replace(detection, regressions=tuple(_marked(r, of_judge) for r in detection.regressions))
        written += reconcile(alert, detection, now=now)
    if written:
        store.save_alerts(written, ())
    return pinned + len(written)


def reconcile(told: Alert | None, detection: Detection, *, now: datetime) -> tuple[Alert, ...]:
    """Return the alerts to write: the told incident where its numbers changed, and a pending alert for each new one."""
    alerts = []
    for regression in detection.regressions:
        if told is not None and regression.detected_at == told.regression.detected_at:
            if regression != told.regression:
                alerts.append(replace(told, regression=regression))
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


def _changed(store: SecondOpinionStore, since: datetime) -> Mapping[tuple[str, str], tuple[Bridge, ...]]:
    changes = store.changes(since=since)
    return bridges(changes, store.second_opinions(since=since, kind=SecondOpinionKind.ANCHOR)) if changes else {}


def _cut(of_judge: Sequence[Bridge], told: Alert | None) -> datetime | None:
    """Return from when on a series is judged as it is now; None when it always was.

    An incident that began before and is still open goes on with what it was held against: people wait for its end.
    """
    cut = max((bridge.change.at for bridge in of_judge if bridge.cuts), default=None)
    if cut and told and told.regression.recovered_at is None and told.regression.began_at < cut:
        return None
    return cut


def _marked(regression: Regression, of_judge: Sequence[Bridge]) -> Regression:
    """Return the regression with the change of the judge that may be all there is to it, if there was one."""
    near = [b for b in of_judge if regression.began_at - _NEAR <= b.change.at <= regression.detected_at]
    return replace(regression, judge_change=near[-1].words if near else regression.judge_change)


def _last_told(alerts: Iterable[Alert]) -> dict[Series, Alert]:
    """Return the alert about the latest incident of each series."""
    last: dict[Series, Alert] = {}
    for alert in alerts:
        held = last.get(alert.regression.series)
        if held is None or alert.regression.detected_at > held.regression.detected_at:
            last[alert.regression.series] = alert
    return last


def _since(told: Iterable[Alert], settings: DetectSettings, now: datetime) -> datetime:
    """Return where replay begins: far enough back for the evidence, and for the reference of every open incident."""
    starts = [alert.regression.began_at for alert in told if alert.regression.recovered_at is None]
    return min([now - settings.horizon - _MEMORY, *starts]) - settings.reference


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
