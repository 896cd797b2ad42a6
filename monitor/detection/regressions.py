"""The windows of one series -> its regressions. Pure; the arithmetic is `monitor.statistics`.

Replay walks the closed windows in order and knows at each what an observer of that moment knew. A continuous watch
compares the series with its baseline; a release watch compares the newest release with the one before it, from its
first window on. One incident is open at a time: whichever watch alarms first owns it, until its all-clear.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from monitor.display.alert_text import percent
from monitor.model.trends import Baseline, Regression, Rollup, Series, Sums
from monitor.settings.tree import DetectSettings
from monitor.statistics.bets import rate_meter
from monitor.statistics.budget import continuous_threshold
from monitor.statistics.meter import Meter, MeterReading, Watch
from monitor.statistics.rates import effective_counts, merge, wilson_rate
from monitor.statistics.reference import Reference, rate_reference

RELEASES_PER_MONTH = 10
"""Release watches begun in 30 days that the alarm budget pays for; further releases are watched continuously only."""

_MONTH = timedelta(days=30)
_HOUR = timedelta(hours=1)
_LEAST_EVIDENCE = 10.0
"""However large the budget, nothing alarms on less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The series of one app, which share its budget of false alarms."""

    whole: int
    """Series of the whole app."""
    sliced: int
    """Series of slices of it."""
    releases: bool
    """Whether the app says which release it runs; then half of the budget is kept for release watches."""

    def share(self, series: Series) -> float:
        """Return the series' part of the budget: half goes to whole-app series and half to slices, if there are any."""
        if not self.sliced:
            return 1 / self.whole
        return 0.5 / (self.sliced if series.slice else max(1, self.whole))


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """The baseline and the regressions of one series."""

    baseline: Baseline | None
    """The pinned baseline, or the one that is complete now; None while there is none."""
    regressions: tuple[Regression, ...]
    """In order of detection: the latest one on record if it was open, then new ones; only the last can be open."""


def detect(
    rollups: Sequence[Rollup],
    baseline: Baseline | None,
    settings: DetectSettings,
    *,
    family: Family,
    latest: Regression | None,
    lateness: timedelta,
    now: datetime,
) -> Detection:
    """Return the regressions of one series in the windows closed by `now`, going on from the latest one on record.

    `rollups` are all rows of the series, of all releases, by start; rows before the baseline and the previous release
    are not needed. A window is closed `lateness` after its end. Windows closed longer ago than `settings.horizon`
    raise no alarm.
    """
    if latest is None and not rollups:
        return Detection(baseline=baseline, regressions=())
    series = latest.series if latest else rollups[0].series
    windows = closed_windows(rollups, lateness=lateness, now=now)
    replay = _Replay(series, windows, settings, baseline=baseline, family=family, latest=latest, now=now)
    for window in windows:
        replay.advance(window)
    replay.complete_baseline(now - lateness)
    return Detection(baseline=replay.baseline, regressions=replay.regressions())


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedWindow:
    """One window of one series, all releases together and each on its own."""

    start: datetime
    end: datetime
    closed_at: datetime
    total: Sums
    releases: Mapping[str, Sums]


def closed_windows(rollups: Iterable[Rollup], *, lateness: timedelta, now: datetime) -> tuple[ClosedWindow, ...]:
    """Return the windows of one series that were closed by `now`, by start."""
    rows: dict[datetime, list[Rollup]] = {}
    for row in rollups:
        if row.end + lateness <= now:
            rows.setdefault(row.start, []).append(row)
    return tuple(
        ClosedWindow(
            start=start,
            end=rows[start][0].end,
            closed_at=rows[start][0].end + lateness,
            total=sum((row.sums for row in rows[start][1:]), rows[start][0].sums),
            releases={row.release: row.sums for row in rows[start]},
        )
        for start in sorted(rows)
    )


@dataclass(slots=True)
class _ActiveWatch:
    """One watch: its meter, and how far it has read."""

    rule: Watch
    release: str
    """The release watched; "" for the continuous watch."""
    meter: Meter
    reference: Reference
    threshold: float
    reading: MeterReading
    starts: list[datetime] = field(default_factory=list)

    def feed(self, window: ClosedWindow, sums: Sums, *, log_threshold: float | None = None) -> MeterReading:
        """Advance by one window; with `log_threshold` the meter has another threshold for this window."""
        meter = self.meter if log_threshold is None else replace(self.meter, log_threshold=log_threshold)
        self.reading = meter.advance(self.reading, effective_counts(sums))
        self.starts.append(window.start)
        return self.reading

    def sums(self, window: ClosedWindow) -> Sums:
        """Return the part of a window that is watched."""
        return window.releases.get(self.release, Sums()) if self.rule is Watch.RELEASE else window.total


class _Replay:
    """Walks the windows of one series once."""

    def __init__(
        self,
        series: Series,
        windows: Sequence[ClosedWindow],
        settings: DetectSettings,
        *,
        baseline: Baseline | None,
        family: Family,
        latest: Regression | None,
        now: datetime,
    ) -> None:
        self.baseline = baseline
        self._series = series
        self._windows = windows
        self._settings = settings
        self._now = now
        self._length = windows[-1].end - windows[-1].start if windows else _HOUR
        self._budget = settings.false_alarms_per_month * (0.5 if family.releases else 1)
        self._share = family.share(series)
        self._release_starts = _release_starts(windows)
        self._baseline_windows: list[ClosedWindow] = []
        self._continuous_watch: _ActiveWatch | None = None
        self._release_watch: _ActiveWatch | None = None
        self._regressions: list[Regression] = []
        self._open: Regression | None = latest if latest and latest.recovered_at is None else None
        self._ignored_until = latest.recovered_at if latest else None
        # Somebody pinned the level since: it is what counts as normal now.
        self._level_accepted = bool(baseline and self._open and baseline.end > self._open.detected_at)
        self._owner = self._resumed_watch(self._open) if self._open and not self._level_accepted else None

    def advance(self, window: ClosedWindow) -> None:
        """Go on by one window."""
        if self._open is not None:
            self._look_for_recovery(window, self._open)
        elif self._ignored_until is None or window.closed_at > self._ignored_until:
            self._look_for_rise(window)

    def complete_baseline(self, moment: datetime) -> None:
        """Complete the baseline if the windows that ended by `moment` suffice: long enough, and enough with data."""
        if self.baseline is not None or self._open is not None or not self._baseline_windows:
            return
        fewest = self._settings.min_reference_windows
        if len(self._baseline_windows) < fewest:
            return
        start = self._baseline_windows[0].start
        end = max(start + self._settings.reference, self._baseline_windows[fewest - 1].end)
        if end <= moment:
            self.baseline = Baseline(series=self._series, start=start, end=end, pinned_by="first_windows")

    def regressions(self) -> tuple[Regression, ...]:
        """Return the incidents with their rates as of the last window."""
        if self._open is not None:
            # An app or a judge that is gone sends nothing that could ever give the all-clear.
            last = max([self._open.detected_at, *(w.closed_at for w in self._windows if w.total.n and self._owner)])
            over = self._level_accepted or self._now - last > self._settings.horizon
            # Not now: a clock that is ahead would have what happens until then count as known.
            end = max([self._open.detected_at, *(w.closed_at for w in self._windows)])
            self._regressions.append(replace(self._open, recovered_at=end) if over else self._open)
        return tuple(self._with_rate(regression) for regression in self._regressions)

    def _look_for_rise(self, window: ClosedWindow) -> None:
        self.complete_baseline(window.start)
        self._begin_release_watch(window)
        if self._continuous_watch is None and self.baseline is not None and window.start >= self.baseline.end:
            self._continuous_watch = self._new_watch(Watch.CONTINUOUS, self._baseline_reference())
        fired = None
        for watch in (self._continuous_watch, self._release_watch):
            if watch is not None and watch.feed(window, watch.sums(window)).fired:
                fired = watch
        if fired is not None:
            self._continuous_watch = self._release_watch = None
            if window.closed_at >= self._now - self._settings.horizon:
                self._owner, self._open = fired, self._new_regression(fired, window)
        elif window.total.n and self.baseline is None:
            self._baseline_windows.append(window)

    def _look_for_recovery(self, window: ClosedWindow, regression: Regression) -> None:
        """Feed the open incident's meter; that of an incident on record is first brought to where it alarmed."""
        owner = self._owner
        if owner is None or window.start < regression.began_at:
            return
        if owner.reading.incident is None:
            # Late data may have weakened the evidence, but the alert is on record.
            owner.feed(
                window,
                owner.sums(window),
                log_threshold=math.inf if window.closed_at < regression.detected_at else -math.inf,
            )
            return
        # A release that was rolled back or followed by another cannot show a recovery; the whole app can.
        gone = not owner.sums(window).n or self._superseded(owner.release, window)
        if owner.feed(window, window.total if gone else owner.sums(window)).resolved:
            self._regressions.append(replace(regression, recovered_at=window.closed_at))
            self._open = self._owner = None
            self._baseline_windows = []

    def _superseded(self, release: str, window: ClosedWindow) -> bool:
        first = self._release_starts.get(release, window.start)
        return any(first < start <= window.start for start in self._release_starts.values())

    def _begin_release_watch(self, window: ClosedWindow) -> None:
        """Begin to watch a release in its first window, if there is an earlier one to compare it with."""
        new = [name for name, start in self._release_starts.items() if start == window.start]
        before = [name for name, start in self._release_starts.items() if start < window.start]
        if not new or not before:
            return
        self._release_watch = None
        recent = [name for name in before[1:] if self._release_starts[name] > window.start - _MONTH]
        if len(recent) < RELEASES_PER_MONTH:
            release = max(new, key=lambda name: window.releases[name].turns)
            reference = self._release_reference(before[-1], window.start)
            self._release_watch = self._new_watch(Watch.RELEASE, reference, release)

    def _release_reference(self, release: str, until: datetime) -> Reference | None:
        """Return the reference of a release up to `until`, or the baseline's where the release ran too briefly."""
        start = max(self._release_starts[release], until - self._settings.reference)
        counts = self._window_counts(start, until, release=release)
        if sum(scored > 0 for scored, _ in counts) >= self._settings.min_reference_windows:
            return rate_reference(counts, minimum_effect=self._settings.min_effect)
        return self._baseline_reference()

    def _baseline_reference(self) -> Reference | None:
        if self.baseline is None:
            return None
        counts = self._window_counts(self.baseline.start, self.baseline.end, release=None)
        return rate_reference(counts, minimum_effect=self._settings.min_effect)

    def _window_counts(self, start: datetime, end: datetime, *, release: str | None) -> list[tuple[float, float]]:
        """Return effective counts on the grid of windows from `start` to `end`, zeros where there is nothing."""
        counts = [(0.0, 0.0)] * math.ceil((end - start) / self._length)
        for window in self._windows:
            if start <= window.start < end:
                sums = window.total if release is None else window.releases.get(release, Sums())
                counts[(window.start - start) // self._length] = effective_counts(sums)
        return counts

    def _new_watch(self, rule: Watch, reference: Reference | None, release: str = "") -> _ActiveWatch | None:
        if reference is None:
            return None
        threshold = max(_LEAST_EVIDENCE, self._hours_to_false_alarm() / (self._length / _HOUR))
        if rule is Watch.RELEASE:
            threshold = max(_LEAST_EVIDENCE, 1 / self._false_alarm_chance())
        meter = rate_meter(reference, watch=rule, threshold=threshold)
        return _ActiveWatch(rule, release, meter, reference, threshold, meter.start())

    def _hours_to_false_alarm(self) -> float:
        return continuous_threshold(alarms_per_month=self._budget, share=self._share)

    def _false_alarm_chance(self) -> float:
        """Return the chance that one release watch of this series is allowed to be wrong."""
        return self._budget * self._share / RELEASES_PER_MONTH

    def _resumed_watch(self, latest: Regression) -> _ActiveWatch | None:
        """Return a watch for the incident on record; None when nothing is left to compare it with."""
        if latest.rule == Watch.CONTINUOUS.value:
            return self._new_watch(Watch.CONTINUOUS, self._baseline_reference())
        start = self._release_starts.get(latest.release, latest.began_at)
        before = [name for name, first in self._release_starts.items() if first < start]
        reference = self._release_reference(before[-1], start) if before else self._baseline_reference()
        return self._new_watch(Watch.RELEASE, reference, latest.release)

    def _new_regression(self, owner: _ActiveWatch, window: ClosedWindow) -> Regression:
        onset = owner.reading.onset
        return Regression(
            series=self._series,
            rule=owner.rule.value,
            began_at=window.start if onset is None else owner.starts[onset],
            detected_at=window.closed_at,
            recovered_at=None,
            rate=0.0,
            rate_lower=0.0,
            rate_upper=1.0,
            baseline_rate=owner.reference.rate,
            null_rate=owner.reference.null_rate,
            evidence_log10=owner.reading.log_evidence / math.log(10),
            threshold_log10=math.log10(owner.threshold),
            release=owner.release,
            promise=self._promise(owner.rule),
        )

    def _promise(self, rule: Watch) -> str:
        if rule is Watch.RELEASE:
            return (
                "False alarms: if this release is not worse than the one before it, the chance of one is "
                f"at most {percent(self._false_alarm_chance())}."
            )
        days = self._hours_to_false_alarm() / 24
        return (
            f"False alarms: on average at most one in {days:.0f} days from this trend, and at most "
            f"{self._settings.false_alarms_per_month:g} in 30 days from all trends of the app together."
        )

    def _with_rate(self, regression: Regression) -> Regression:
        """Return the incident with rate, interval and release over its windows so far."""
        ended = regression.recovered_at or self._now
        windows = [w for w in self._windows if w.start >= regression.began_at and w.closed_at <= ended]
        watched = regression.release if regression.rule == Watch.RELEASE.value else None
        parts = [w.total if watched is None else w.releases.get(watched, Sums()) for w in windows]
        rate = wilson_rate(merge(parts))
        if rate is None:
            return regression
        turns: dict[str, int] = {}
        for window in windows:
            for name, sums in window.releases.items():
                turns[name] = turns.get(name, 0) + sums.turns
        return replace(
            regression,
            rate=rate.value,
            rate_lower=rate.lower,
            rate_upper=rate.upper,
            release=watched or max(turns, key=lambda name: turns[name]),
        )


def _release_starts(windows: Iterable[ClosedWindow]) -> dict[str, datetime]:
    """Return the first window in which each named release was scored, in that order."""
    first: dict[str, datetime] = {}
    for window in windows:
        for name, sums in window.releases.items():
            if name and sums.n:
                first.setdefault(name, window.start)
    return first
