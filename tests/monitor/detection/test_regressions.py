"""The windows of one series -> its regressions."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from window_sums import sums_of

from monitor.detection.regressions import RELEASES_PER_MONTH, Detection, Family, detect
from monitor.model.trends import Baseline, Regression, Rollup, Series
from monitor.settings.tree import DetectSettings

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
LATENESS = timedelta(minutes=15)
SERIES = Series(app="bot", environment="production", slice="", metric="groundedness", rubric_id="r1")
ALONE = Family(whole=1, sliced=0, releases=False)
SETTINGS = DetectSettings(reference=timedelta(hours=72), min_reference_windows=24)


def rows(counts: Sequence[tuple[int, int]], *, first: int = 0, release: str = "") -> list[Rollup]:
    """Return one row per hour from hour `first` on; hours in which nothing happened have no row."""
    return [
        Rollup(series=SERIES, release=release, start=START + (first + i) * HOUR, length=HOUR, sums=sums_of(n, k))
        for i, (n, k) in enumerate(counts)
        if n
    ]


def steady(hours: int, *, n: int = 100, rate: float = 0.05, seed: int = 1) -> list[tuple[int, int]]:
    """Return hours in which every turn is a defect with the same chance."""
    chance = random.Random(seed)  # noqa: S311 -- a scenario
    return [(n, sum(chance.random() < rate for _ in range(n))) for _ in range(hours)]


def at(hour: int) -> datetime:
    """Return when the window before `hour` is closed."""
    return START + hour * HOUR + LATENESS


def detection_at(
    windows: Sequence[Rollup],
    hour: int,
    *,
    settings: DetectSettings = SETTINGS,
    baseline: Baseline | None = None,
    family: Family = ALONE,
    latest: Regression | None = None,
) -> Detection:
    """Return what is detected when the window before `hour` has just closed."""
    ordered = sorted(windows, key=lambda row: (row.start, row.release))
    return detect(ordered, baseline, settings, family=family, latest=latest, lateness=LATENESS, now=at(hour))


FIRST = Baseline(series=SERIES, start=START, end=START + 72 * HOUR, pinned_by="first_windows")


def only(detection: Detection) -> Regression:
    """Return the only regression."""
    (regression,) = detection.regressions
    return regression


def test_the_first_windows_become_the_baseline_once_they_are_long_enough_and_closed() -> None:
    """Before the reference's last window is closed there is no baseline; then it is the series' first `reference`."""
    windows = rows(steady(73))
    assert detection_at(windows, 71).baseline is None
    expected = Baseline(series=SERIES, start=START, end=START + 72 * HOUR, pinned_by="first_windows")
    assert detection_at(windows, 72).baseline == expected


def test_a_sparse_series_waits_for_enough_windows_with_data() -> None:
    """The baseline reaches to the window that makes the minimum number with data."""
    sparse = rows([(20, 1) if hour % 5 == 0 else (0, 0) for hour in range(200)])
    baseline = detection_at(sparse, 200).baseline
    assert baseline is not None
    assert baseline.end == START + (23 * 5 + 1) * HOUR


def test_a_doubled_rate_is_one_regression_with_its_onset_and_its_numbers() -> None:
    """From 5 % to 15 % at hour 100: found within hours, dated back to the change, with rate, interval and baseline."""
    windows = rows(steady(100) + steady(24, rate=0.15, seed=2))
    regression = only(detection_at(windows, 124))
    assert regression.rule == "continuous"
    assert abs(regression.began_at - (START + 100 * HOUR)) <= 3 * HOUR
    assert START + 101 * HOUR < regression.detected_at <= START + 106 * HOUR
    assert regression.detected_at.minute == 15
    assert regression.recovered_at is None
    assert regression.rate_lower < 0.15 < regression.rate_upper
    assert regression.rate_upper - regression.rate_lower < 0.05
    assert 0.04 < regression.baseline_rate < regression.null_rate < 0.07
    assert regression.null_rate >= 1.1 * regression.baseline_rate
    assert regression.evidence_log10 > regression.threshold_log10 > 2
    assert "at most one in 30 days" in regression.promise


def test_no_change_is_no_regression() -> None:
    """Sixty days of the same rate raise nothing."""
    assert detection_at(rows(steady(1440)), 1440, settings=SETTINGS).regressions == ()


def test_recovery_resolves_and_a_second_regression_is_another_incident() -> None:
    """Two rises with a recovery between them are two incidents, in order; the first is over."""
    calm = SETTINGS.model_copy(update={"horizon": timedelta(days=60)})
    bad, good = steady(24, rate=0.2, seed=2), steady(72, seed=3)
    windows = rows(steady(100) + bad + good + bad)
    first, second = detection_at(windows, 220, settings=calm).regressions
    assert first.recovered_at is not None
    assert START + 124 * HOUR < first.recovered_at < START + 150 * HOUR
    assert second.detected_at > first.recovered_at
    assert second.recovered_at is None


def test_hours_without_traffic_change_nothing() -> None:
    """Silence neither raises an alarm nor ends one, and moves no date."""
    windows = rows(steady(100) + [(0, 0)] * 30 + steady(6, rate=0.2, seed=2) + [(0, 0)] * 48)
    regression = only(detection_at(windows, 184))
    assert regression.began_at >= START + 129 * HOUR
    assert regression.recovered_at is None
    assert regression == only(detection_at(windows, 150))


def test_low_traffic_is_no_alarm() -> None:
    """Three defects among eight turns of four night hours prove nothing."""
    assert detection_at(rows([*steady(100), (2, 1), (3, 1), (1, 1), (2, 0)]), 104).regressions == ()


def test_a_swinging_rate_is_one_incident() -> None:
    """A rate that swings around three times the baseline opens one incident and closes it once, after recovery."""
    swing = [(100, k) for k in (16, 14, 16, 14, 17, 16, 12, 13, 9, 8)]
    windows = rows(steady(100) + swing + steady(48, seed=5))
    assert only(detection_at(windows, 110)).recovered_at is None
    assert only(detection_at(windows, 158)).recovered_at is not None


def test_a_window_counts_only_once_it_is_closed() -> None:
    """A minute before its end plus the lateness a window is not looked at: no date precedes what could be known."""
    windows = rows(steady(100) + steady(24, rate=0.3, seed=2))
    detected = only(detection_at(windows, 124)).detected_at
    before = detect(
        windows, None, SETTINGS, family=ALONE, latest=None, lateness=LATENESS, now=detected - timedelta(minutes=1)
    )
    assert before.regressions == ()
    same = detect(windows, None, SETTINGS, family=ALONE, latest=None, lateness=LATENESS, now=detected)
    assert only(same).detected_at == detected


def test_windows_add_up_over_releases() -> None:
    """Two releases that share the traffic are one series: half the turns each, and the same regression."""
    counts = steady(100) + steady(24, rate=0.2, seed=2)
    halves = [(n // 2, k // 2) for n, k in counts]
    rest = [(n - n // 2, k - k // 2) for n, k in counts]
    split = rows(halves, release="a") + rows(rest, release="b")
    whole, parted = only(detection_at(rows(counts), 124)), only(detection_at(split, 124))
    assert (whole.detected_at, whole.began_at, whole.rate) == (parted.detected_at, parted.began_at, parted.rate)


def test_weights_make_an_hour_smaller_than_its_turns() -> None:
    """Unequal weights leave less evidence: the same defects are found later than with equal ones."""
    counts = steady(100) + steady(48, rate=0.12, seed=2)
    uneven = [
        replace(
            row, sums=sums_of(row.sums.n // 2, row.sums.k // 2) + sums_of(row.sums.n // 20, row.sums.k // 20, weight=20)
        )
        for row in rows(counts)
    ]
    equal = only(detection_at(rows(counts), 148)).detected_at
    assert all(r.detected_at > equal for r in detection_at(uneven, 148).regressions)


def test_more_series_need_more_evidence() -> None:
    """A family of 50 shares the budget of one, so each needs 50 times the evidence."""
    windows = rows(steady(100) + steady(24, rate=0.15, seed=2))
    alone = only(detection_at(windows, 124))
    shared = only(detection_at(windows, 124, family=Family(whole=50, sliced=0, releases=False)))
    assert shared.threshold_log10 == pytest.approx(alone.threshold_log10 + 1.69897, abs=1e-5)
    assert shared.detected_at >= alone.detected_at


def test_a_bad_release_is_found_sooner_than_a_continuous_watch_would() -> None:
    """A change that starts with a release is compared with the release before it and names both."""
    family = Family(whole=1, sliced=0, releases=True)
    before, after = steady(100, rate=0.03), steady(48, rate=0.055, seed=7)
    named = detection_at(rows(before, release="1.4") + rows(after, first=100, release="1.5"), 148, family=family)
    regression = only(named)
    assert (regression.rule, regression.release) == ("release", "1.5")
    assert regression.began_at >= START + 100 * HOUR
    assert regression.detected_at < only(detection_at(rows(before + after), 148)).detected_at
    assert "5.0 %" not in regression.promise
    assert "at most 5.00 %" in regression.promise


def test_a_release_watch_needs_no_finished_baseline() -> None:
    """In the first week a release is compared with the one before it."""
    week = SETTINGS.model_copy(update={"reference": timedelta(days=7)})
    windows = rows(steady(60), release="1") + rows(steady(24, rate=0.2, seed=2), first=60, release="2")
    detection = detection_at(windows, 84, settings=week, family=Family(whole=1, sliced=0, releases=True))
    assert detection.baseline is None
    assert only(detection).release == "2"


def test_an_incident_in_the_first_week_is_kept_out_of_the_baseline() -> None:
    """A baseline is gathered after the recovery, not over the bad hours."""
    week = SETTINGS.model_copy(update={"horizon": timedelta(days=60)})
    windows = (
        rows(steady(40), release="1")
        + rows(steady(24, rate=0.25, seed=2), first=40, release="2")
        + rows(steady(150, seed=3), first=64, release="3")
    )
    detection = detection_at(windows, 214, settings=week, family=Family(whole=1, sliced=0, releases=True))
    over = only(detection).recovered_at
    assert over is not None
    assert detection.baseline is not None
    assert detection.baseline.start >= over - LATENESS


def test_a_rollback_resolves_a_release_incident() -> None:
    """Once the release gets no turns, the app's own recovery gives the all-clear."""
    windows = (
        rows(steady(100), release="1")
        + rows(steady(12, rate=0.3, seed=2), first=100, release="2")
        + rows(steady(60, seed=3), first=112, release="1")
    )
    regression = only(detection_at(windows, 172, family=Family(whole=1, sliced=0, releases=True)))
    assert regression.rule == "release"
    assert regression.recovered_at is not None
    assert START + 113 * HOUR < regression.recovered_at < START + 140 * HOUR


def test_a_bad_canary_stays_open_beside_a_healthy_release() -> None:
    """Nine tenths of the traffic on a good release do not hide that the canary is still bad."""
    windows = (
        rows(steady(100, n=200), release="1")
        + rows(steady(72, n=180, seed=3), first=100, release="1")
        + rows(steady(72, n=20, rate=0.5, seed=2), first=100, release="2")
    )
    regression = only(detection_at(windows, 172, family=Family(whole=1, sliced=0, releases=True)))
    assert (regression.release, regression.recovered_at) == ("2", None)
    assert regression.rate > 0.4


def test_releases_beyond_the_monthly_number_are_not_watched_on_their_own() -> None:
    """The budget pays for ten release watches in 30 days; the continuous watch sees the eleventh."""
    windows = rows(steady(100), release="0")
    for i in range(RELEASES_PER_MONTH + 1):
        bad = i == RELEASES_PER_MONTH
        windows += rows(steady(12, rate=0.3 if bad else 0.05, seed=i + 2), first=100 + 12 * i, release=f"{i + 1}")
    hour = 100 + 12 * (RELEASES_PER_MONTH + 1)
    assert only(detection_at(windows, hour, family=Family(whole=1, sliced=0, releases=True))).rule == "continuous"


def test_late_verdicts_for_windows_beyond_the_horizon_raise_nothing() -> None:
    """A window of ten days ago that turns bad today is history, not news; one of yesterday is news."""
    counts = steady(340)
    old, recent = list(counts), list(counts)
    old[90:96] = [(100, 60)] * 6
    recent[330:336] = [(100, 60)] * 6
    assert detection_at(rows(old), 340).regressions == ()
    assert only(detection_at(rows(recent), 340)).detected_at > at(330)


def test_an_incident_on_record_stays_when_late_verdicts_take_its_evidence_back() -> None:
    """The incident keeps its name, onset and detection although the evidence is gone; recovery ends it."""
    bad = rows(steady(100) + steady(6, rate=0.3, seed=2))
    latest = only(detection_at(bad, 106))
    mended = rows(steady(130))
    still = only(detection_at(mended, 107, latest=latest, baseline=FIRST))
    assert (still.began_at, still.detected_at, still.evidence_log10) == (
        latest.began_at,
        latest.detected_at,
        latest.evidence_log10,
    )
    over = only(detection_at(mended, 130, latest=latest, baseline=FIRST))
    assert over.recovered_at is not None
    assert over.detected_at == latest.detected_at


def test_going_on_from_the_latest_on_record_equals_replaying_everything() -> None:
    """Looked at hour by hour or once: the same incident with the same recovery."""
    windows = rows(steady(100) + steady(20, rate=0.2, seed=2) + steady(60, seed=3))
    latest: Regression | None = None
    seen: list[Regression] = []
    baseline = None
    for hour in range(80, 181):
        detection = detection_at(
            [w for w in windows if w.start < START + hour * HOUR], hour, latest=latest, baseline=baseline
        )
        baseline = detection.baseline
        for regression in detection.regressions:
            latest = regression
            seen = [r for r in seen if r.detected_at != regression.detected_at] + [regression]
    assert seen == list(detection_at(windows, 180).regressions)


def test_a_resolved_incident_is_not_raised_again_by_its_own_windows() -> None:
    """After the all-clear the meter starts anew; the bad hours before it are spent."""
    windows = rows(steady(100) + steady(20, rate=0.2, seed=2) + steady(60, seed=3))
    (latest,) = detection_at(windows, 180).regressions
    assert latest.recovered_at is not None
    assert detection_at(windows, 180, latest=latest, baseline=FIRST).regressions == ()


def test_a_growing_family_neither_ends_nor_repeats_an_open_incident() -> None:
    """More series raise the threshold for the next alarm, not for one that people know of."""
    windows = rows(steady(100) + steady(30, rate=0.1, seed=2))
    latest = only(detection_at(windows, 130))
    crowd = Family(whole=1000, sliced=0, releases=False)
    assert only(detection_at(windows, 130, latest=latest, family=crowd, baseline=FIRST)) == latest


def test_pinning_the_new_level_ends_the_incident() -> None:
    """Whoever pins a baseline over the bad windows says that this is normal now."""
    windows = rows(steady(100) + steady(60, rate=0.2, seed=2))
    latest = only(detection_at(windows, 130))
    pinned = Baseline(series=SERIES, start=START + 110 * HOUR, end=START + 150 * HOUR, pinned_by="ana")
    assert only(detection_at(windows, 160, latest=latest, baseline=pinned)).recovered_at == at(160)


def test_an_incident_of_which_nothing_is_heard_any_more_ends() -> None:
    """An app that was switched off cannot recover; after the horizon its incident ended with its last window."""
    windows = rows(steady(100) + steady(12, rate=0.3, seed=2))
    latest = only(detection_at(windows, 112))
    assert only(detection_at(windows, 112 + 160, latest=latest, baseline=FIRST)).recovered_at is None
    assert only(detection_at(windows, 112 + 170, latest=latest, baseline=FIRST)).recovered_at == at(112)


def test_an_incident_that_ended_by_a_clock_eight_days_ahead_blinds_nobody() -> None:
    """What goes on is found again as soon as there is evidence for it, not in eight days."""
    windows = rows(steady(100) + steady(60, rate=0.3, seed=2))
    latest = only(detection_at(windows[:112], 112))
    ended = only(detection_at(windows[:112], 112 + 8 * 24, latest=latest, baseline=FIRST))
    assert ended.recovered_at is not None
    assert ended.recovered_at <= at(112)
    again = only(detection_at(windows[:136], 136, latest=ended, baseline=FIRST))
    assert again.detected_at <= at(136)
    assert again.recovered_at is None


def test_rollups_that_are_being_recomputed_end_nothing() -> None:
    """While there are no rows at all, such as after a change of the window length, an open incident stays as it is."""
    latest = only(detection_at(rows(steady(100) + steady(12, rate=0.3, seed=2)), 112))
    assert detection_at([], 113, latest=latest, baseline=FIRST).regressions == (latest,)


@pytest.mark.parametrize("case", ["N01", "N02", "N03"])
def test_recorded_series_of_noise(case: str, shared: Path) -> None:
    """Each recorded series of alert noise opens exactly the incidents it should, after a baseline of its own rate."""
    payload = json.loads((shared / "cases" / "payloads" / f"{case}-A.series.json").read_text())
    counts = [(w["scored"], w["defects"]) for w in payload["windows"]]
    calm = steady(100, rate=payload["rule"]["baseline_rate"])
    detection = detection_at(rows(calm + counts + calm[:48]), 148 + len(counts))
    assert [r.recovered_at is not None for r in detection.regressions] == (
        [True] if payload["expect"]["notifications"] else []
    )


def test_slices_have_one_half_of_the_budget_and_the_whole_app_the_other() -> None:
    """Shares of a family add up to one; without slices the whole app has all of it."""
    sliced = replace(SERIES, slice="language=de")
    family = Family(whole=2, sliced=10, releases=False)
    assert (family.share(SERIES), family.share(sliced)) == (0.25, 0.05)
    assert 2 * family.share(SERIES) + 10 * family.share(sliced) == pytest.approx(1)
    assert Family(whole=4, sliced=0, releases=False).share(SERIES) == 0.25


def test_both_watches_together_stay_within_the_budget() -> None:
    """Fifty months without a change, a release every four days: far fewer false alarms than the one a month allowed."""
    family = Family(whole=1, sliced=0, releases=True)
    week = DetectSettings(horizon=timedelta(days=60))
    alarms = 0
    for month in range(50):
        counts = steady(888, n=30, rate=0.05, seed=100 + month)
        windows = [r for h, pair in enumerate(counts) for r in rows([pair], first=h, release=f"{h // 96:02}")]
        alarms += len(detection_at(windows, 888, settings=week, family=family).regressions)
    assert alarms <= 5
