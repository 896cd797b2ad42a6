"""The windows of one series -> its regressions. Pure; the arithmetic is `monitor.statistics`.

Replay walks the closed windows in order and knows at each what an observer of that moment knew. A continuous watch
holds the series against its baseline; a release watch holds the newest release against the one before it, from its
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
    """What replay found in one series."""

    baseline: Baseline | None
    """The baseline given, or the one that is complete now; None while there is none."""
    regressions: tuple[Regression, ...]
    """In order of detection: the told one if it was open, then those not told before; only the last can be open."""


def detect(
    rollups: Sequence[Rollup],
    baseline: Baseline | None,
    settings: DetectSettings,
    *,
    family: Family,
    told: Regression | None,
    lateness: timedelta,
    now: datetime,
) -> Detection:
    """Return the regressions of one series in the windows closed by `now`, going on from the last one told.

    `rollups` are all rows of the series, of all releases, by start; rows before the baseline and the previous release
    are not needed. A window is closed `lateness` after its end. Nothing is found in windows closed longer ago than
    `settings.horizon`.
    """
    if told is None and not rollups:
        return Detection(baseline=baseline, regressions=())
    series = told.series if told else rollups[0].series
    windows = closed_windows(rollups, lateness=lateness, now=now)
    replay = _Replay(series, windows, settings, baseline=baseline, family=family, told=told, now=now)
    for window in windows:
        replay.step(window)
    replay.settle(now - lateness)
    return Detection(baseline=replay.baseline, regressions=replay.found())


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
        if row.start + row.length + lateness <= now:
            rows.setdefault(row.start, []).append(row)
    return tuple(
        ClosedWindow(
            start=start,
            end=start + rows[start][0].length,
            closed_at=start + rows[start][0].length + lateness,
            total=sum((row.sums for row in rows[start][1:]), rows[start][0].sums),
            releases={row.release: row.sums for row in rows[start]},
        )
        for start in sorted(rows)
    )


@dataclass(slots=True)
class _Watching:
    """A meter at work."""

    rule: Watch
    release: str
    """The release watched; "" for the continuous watch."""
    meter: Meter
    reference: Reference
    threshold: float
    reading: MeterReading
    starts: list[datetime] = field(default_factory=list)

    def feed(self, window: ClosedWindow, sums: Sums, *, log_threshold: float | None = None) -> MeterReading:
        """Advance by one window, with another threshold if one is given."""
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
        told: Regression | None,
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
        self._first_seen = _first_seen(windows)
        self._gathered: list[ClosedWindow] = []
        self._continuous: _Watching | None = None
        self._release: _Watching | None = None
        self._found: list[Regression] = []
        self._open: Regression | None = told if told and told.recovered_at is None else None
        self._from = told.recovered_at if told else None
        # Somebody pinned the level since: it is what counts as normal now.
        self._accepted = bool(baseline and self._open and baseline.end > self._open.detected_at)
        self._owner = self._owner_of(self._open) if self._open and not self._accepted else None

    def step(self, window: ClosedWindow) -> None:
        """Go on by one window."""
        if self._open is not None:
            self._mend(window, self._open)
        elif self._from is None or window.closed_at > self._from:
            self._watch(window)

    def settle(self, moment: datetime) -> None:
        """Complete the baseline if the windows that ended by `moment` suffice: long enough, and enough with data."""
        if self.baseline is not None or self._open is not None or not self._gathered:
            return
        fewest = self._settings.min_reference_windows
        if len(self._gathered) < fewest:
            return
        start = self._gathered[0].start
        end = max(start + self._settings.reference, self._gathered[fewest - 1].end)
        if end <= moment:
            self.baseline = Baseline(series=self._series, start=start, end=end, pinned_by="first_windows")

    def found(self) -> tuple[Regression, ...]:
        """Return the incidents with their numbers as of the last window."""
        if self._open is not None:
            # An app or a judge that is gone sends nothing that could ever give the all-clear.
            last = max([self._open.detected_at, *(w.closed_at for w in self._windows if w.total.n and self._owner)])
            over = self._accepted or self._now - last > self._settings.horizon
            self._found.append(replace(self._open, recovered_at=self._now) if over else self._open)
        return tuple(self._measured(regression) for regression in self._found)

    def _watch(self, window: ClosedWindow) -> None:
        self.settle(window.start)
        self._meet(window)
        if self._continuous is None and self.baseline is not None and window.start >= self.baseline.end:
            self._continuous = self._watching(Watch.CONTINUOUS, self._baseline_reference())
        fired = None
        for watching in (self._continuous, self._release):
            if watching is not None and watching.feed(window, watching.sums(window)).fired:
                fired = watching
        if fired is not None:
            self._continuous = self._release = None
            if window.closed_at >= self._now - self._settings.horizon:
                self._owner, self._open = fired, self._regression(fired, window)
        elif window.total.n and self.baseline is None:
            self._gathered.append(window)

    def _mend(self, window: ClosedWindow, regression: Regression) -> None:
        """Feed the open incident's meter; one told before is first brought to where it alarmed."""
        owner = self._owner
        if owner is None or window.start < regression.began_at:
            return
        if owner.reading.incident is None:
            # Whether the evidence still suffices is not asked again: people were told.
            owner.feed(
                window,
                owner.sums(window),
                log_threshold=math.inf if window.closed_at < regression.detected_at else -math.inf,
            )
            return
        # Rolled back or followed by another, a release cannot show that it got well; the app can.
        gone = not owner.sums(window).n or self._superseded(owner.release, window)
        if owner.feed(window, window.total if gone else owner.sums(window)).resolved:
            self._found.append(replace(regression, recovered_at=window.closed_at))
            self._open = self._owner = None
            self._gathered = []

    def _superseded(self, release: str, window: ClosedWindow) -> bool:
        first = self._first_seen.get(release, window.start)
        return any(first < start <= window.start for start in self._first_seen.values())

    def _meet(self, window: ClosedWindow) -> None:
        """Begin to watch a release in its first window; without a predecessor there is nothing to hold it against."""
        new = [name for name, start in self._first_seen.items() if start == window.start]
        before = [name for name, start in self._first_seen.items() if start < window.start]
        if not new or not before:
            return
        self._release = None
        recent = [name for name in before[1:] if self._first_seen[name] > window.start - _MONTH]
        if len(recent) < RELEASES_PER_MONTH:
            release = max(new, key=lambda name: window.releases[name].turns)
            self._release = self._watching(Watch.RELEASE, self._previous(before[-1], window.start), release)

    def _previous(self, release: str, until: datetime) -> Reference | None:
        """Return the previous release's reference, or the baseline's where that release ran too briefly."""
        start = max(self._first_seen[release], until - self._settings.reference)
        hours = self._hours(start, until, release=release)
        if sum(scored > 0 for scored, _ in hours) >= self._settings.min_reference_windows:
            return rate_reference(hours, minimum_effect=self._settings.min_effect)
        return self._baseline_reference()

    def _baseline_reference(self) -> Reference | None:
        if self.baseline is None:
            return None
        hours = self._hours(self.baseline.start, self.baseline.end, release=None)
        return rate_reference(hours, minimum_effect=self._settings.min_effect)

    def _hours(self, start: datetime, end: datetime, *, release: str | None) -> list[tuple[float, float]]:
        """Return effective counts on the grid of windows from `start` to `end`, zeros where there is nothing."""
        hours = [(0.0, 0.0)] * math.ceil((end - start) / self._length)
        for window in self._windows:
            if start <= window.start < end:
                sums = window.total if release is None else window.releases.get(release, Sums())
                hours[(window.start - start) // self._length] = effective_counts(sums)
        return hours

    def _watching(self, rule: Watch, reference: Reference | None, release: str = "") -> _Watching | None:
        if reference is None:
            return None
        threshold = max(_LEAST_EVIDENCE, self._hours_to_false_alarm() / (self._length / _HOUR))
        if rule is Watch.RELEASE:
            threshold = max(_LEAST_EVIDENCE, 1 / self._chance())
        meter = rate_meter(reference, watch=rule, threshold=threshold)
        return _Watching(rule, release, meter, reference, threshold, meter.start())

    def _hours_to_false_alarm(self) -> float:
        return continuous_threshold(alarms_per_month=self._budget, share=self._share)

    def _chance(self) -> float:
        """Return the chance that one release watch of this series is allowed to be wrong."""
        return self._budget * self._share / RELEASES_PER_MONTH

    def _owner_of(self, told: Regression) -> _Watching | None:
        """Return a meter for an incident told before; None when nothing is left to hold it against."""
        if told.rule == Watch.CONTINUOUS.value:
            return self._watching(Watch.CONTINUOUS, self._baseline_reference())
        start = self._first_seen.get(told.release, told.began_at)
        before = [name for name, first in self._first_seen.items() if first < start]
        reference = self._previous(before[-1], start) if before else self._baseline_reference()
        return self._watching(Watch.RELEASE, reference, told.release)

    def _regression(self, owner: _Watching, window: ClosedWindow) -> Regression:
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
                "If this release is no worse than the one before, the chance that it ever raises an alarm here "
                f"is at most {percent(self._chance())}."
            )
        days = self._hours_to_false_alarm() / 24
        return (
            f"While nothing changes, this trend raises at most one false alarm in {days:.0f} days on average, and all "
            f"trends of the app together at most {self._settings.false_alarms_per_month:g} in 30 days."
        )

    def _measured(self, regression: Regression) -> Regression:
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


def _first_seen(windows: Iterable[ClosedWindow]) -> dict[str, datetime]:
    """Return the first window in which each named release was scored, in that order."""
    first: dict[str, datetime] = {}
    for window in windows:
        for name, sums in window.releases.items():
            if name and sums.n:
                first.setdefault(name, window.start)
    return first
