"""Closed windows become pending alerts, whatever repeats, restarts or comes late, on real databases."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert
from window_sums import sums_of

from monitor.display.alert_text import explanation, headline
from monitor.model.judgements import Job, JudgeVersion, SecondOpinion, SecondOpinionKind
from monitor.model.trends import Alert, AlertState, Baseline, Rollup, Series
from monitor.settings.tree import AlertSettings, DetectSettings
from monitor.stages import alert as alert_stage
from monitor.stages import detect
from monitor.store.database import Database
from monitor.store.series import rollup_row
from monitor.store.sql_store import open_store
from monitor.store.tables import rollups

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
LATENESS = timedelta(minutes=15)
SERIES = Series(app="bot", environment="production", slice="", metric="groundedness", rubric_id="r1")
SETTINGS = DetectSettings(reference=timedelta(hours=72))


class Rig:
    """A store, and a way to put windows into it."""

    def __init__(self, url: str) -> None:
        self.store = open_store(url)
        self._database = Database(url, patience=timedelta(seconds=10))

    def put(self, rows: Iterable[Rollup]) -> None:
        """Add windows."""
        values = [rollup_row(row) for row in rows]
        if not values:
            return
        with self._database.writing("adding windows") as connection:
            connection.execute(insert(rollups), values)

    def replace(self, rows: Sequence[Rollup]) -> None:
        """Write windows anew, as late verdicts do."""
        with self._database.writing("correcting windows") as connection:
            for row in rows:
                values = rollup_row(row)
                connection.execute(
                    rollups.update()
                    .where(rollups.c.window_start == row.start, rollups.c.metric == row.series.metric)
                    .values(values)
                )

    def tick(self, hour: int, settings: DetectSettings = SETTINGS) -> int:
        """Detect when the window before `hour` has just closed."""
        return detect.tick(self.store, settings, lateness=LATENESS, now=START + hour * HOUR + LATENESS)

    def alerts(self) -> tuple[Alert, ...]:
        """Return all alerts, oldest first."""
        return self.store.alerts()[::-1]

    def close(self) -> None:
        """Let the database go."""
        self._database.close()
        self.store.close()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A rig on SQLite."""
    new_rig = Rig(f"sqlite:///{tmp_path / 'm.db'}")
    yield new_rig
    new_rig.close()


def hours(
    count: int, *, first: int = 0, rate: float = 0.05, n: int = 100, series: Series = SERIES, release: str = ""
) -> list[Rollup]:
    """Return windows in which every turn is a defect with the same chance."""
    chance = random.Random(f"{first} {rate} {series.metric}")  # noqa: S311 -- a scenario
    rollups = []
    for i in range(count):
        k = sum(chance.random() < rate for _ in range(n))
        start = START + (first + i) * HOUR
        rollups.append(Rollup(series=series, release=release, start=start, length=HOUR, sums=sums_of(n, k)))
    return rollups


def test_a_regression_is_one_pending_alert_however_often_one_looks(rig: Rig) -> None:
    """Looking again without news writes nothing; later windows bring the numbers of the same alert up to date."""
    rig.put(hours(100) + hours(12, first=100, rate=0.2))
    assert rig.tick(112) == 2
    (alert,) = rig.alerts()
    assert alert.state is AlertState.PENDING
    assert (len(alert.alert_id), len(alert.fingerprint)) == (32, 32)
    assert rig.tick(112) == 0
    rig.put(hours(1, first=112, rate=0.2))
    assert rig.tick(113) == 1
    (later,) = rig.alerts()
    assert later.alert_id == alert.alert_id
    assert later.regression.rate != alert.regression.rate


def test_the_baseline_is_pinned_once_and_late_data_do_not_move_it(rig: Rig) -> None:
    """When it is first complete the baseline is written down; a window added before it changes nothing of it."""
    rig.put(hours(71))
    assert rig.tick(71) == 0
    rig.put(hours(2, first=71))
    assert rig.tick(73) == 1
    expected = Baseline(series=SERIES, start=START, end=START + 72 * HOUR, pinned_by="first_windows")
    assert rig.store.baselines() == {SERIES: expected}
    rig.put(hours(10, first=-10, rate=0.5))
    rig.tick(73)
    assert rig.store.baselines() == {SERIES: expected}


def test_hour_by_hour_through_two_incidents(rig: Rig) -> None:
    """Each incident is one alert that fires and is resolved once, with an id of its own and one fingerprint."""
    windows = hours(100) + hours(12, first=100, rate=0.25) + hours(60, first=112) + hours(12, first=172, rate=0.25)
    windows += hours(40, first=184)
    transitions: list[tuple[str, str]] = []
    known: dict[str, AlertState] = {}
    for hour, window in enumerate(windows, start=1):
        rig.put([window])
        rig.tick(hour)
        now = START + hour * HOUR + LATENESS
        alert_stage.tick(rig.store, AlertSettings(), channels=(), horizon=LATENESS, now=now)
        for alert in rig.alerts():
            if known.get(alert.alert_id) is not alert.state:
                known[alert.alert_id] = alert.state
                transitions.append((alert.alert_id, alert.state.value))
    first, second = rig.alerts()
    assert transitions == [
        (first.alert_id, "firing"), (first.alert_id, "resolved"),
        (second.alert_id, "firing"), (second.alert_id, "resolved"),
    ]  # fmt: skip
    assert first.fingerprint == second.fingerprint
    assert first.alert_id != second.alert_id


def test_a_new_judge_is_a_new_series_with_a_baseline_of_its_own(rig: Rig) -> None:
    """A stricter rubric doubles the rate and raises nothing; the old series' baseline does not apply to it."""
    stricter = replace(SERIES, rubric_id="r2")
    rig.put(hours(100) + hours(200, first=100, rate=0.2, series=stricter))
    rig.tick(300)
    assert rig.alerts() == ()
    assert {s.rubric_id for s in rig.store.baselines()} == {"r1", "r2"}


OLD = JudgeVersion(judge="openai:m", model="m", fingerprint="fp_1")
NEW = replace(OLD, fingerprint="fp_2")


def judge_changes(rig: Rig, *, hour: int, more: int, anchors: int = 200) -> None:
    """Let another build answer from an hour on, to which `more` of the anchors that passed before are defects."""
    at = START + hour * HOUR
    rig.store.meet(OLD, now=START)
    rig.store.meet(NEW, now=at)
    rig.store.record_second_opinions(
        [
            SecondOpinion(
                job=Job(turn_id=str(n), content_hash="", metric="groundedness", rubric_id="r1", probability=1.0),
                kind=SecondOpinionKind.ANCHOR,
                version=NEW,
                score=2.0 if n < more else 5.0,
                defect=n < more,
                first_score=5.0,
                first_defect=False,
                judged_at=at,
            )
            for n in range(anchors)
        ]
    )


def test_a_judge_that_becomes_stricter_overnight_is_no_regression(rig: Rig) -> None:
    """Where old turns judged again are defects to the new build, the series begins anew and nothing fires."""
    windows = hours(100) + hours(150, first=100, rate=0.2)
    rig.put(windows)
    judge_changes(rig, hour=100, more=30)
    for hour in (112, 250):
        rig.tick(hour)
    assert rig.alerts() == ()
    (baseline,) = rig.store.baselines().values()
    assert baseline.start == START + 100 * HOUR
    rig.put(hours(24, first=250, rate=0.4))
    rig.tick(274)
    (alert,) = rig.alerts()
    assert alert.regression.baseline_rate == pytest.approx(0.2, abs=0.03)
    assert not alert.regression.judge_change


def test_an_app_that_gets_worse_while_the_judge_stays_as_strict(rig: Rig) -> None:
    """Where the new build judges old turns as before, a regression fires, and says that the judge changed then."""
    rig.put(hours(100) + hours(12, first=100, rate=0.2))
    judge_changes(rig, hour=100, more=2)
    rig.tick(112)
    (alert,) = rig.alerts()
    sentences = (
        "The model of the judge changed on 5 Mar 2026 04:00 UTC, from m (fp_1) to m (fp_2). 200 earlier turns were "
        "judged again: 2 are defects only to the new model, 0 only to the old one "
        "(agreement 99%, kappa 0.00, score -0.03)."
    )
    assert sentences == alert.regression.judge_change
    assert sentences in explanation(alert)
    assert headline(alert).endswith("; the model of the judge changed at about that time")


def test_a_judge_that_changes_during_an_incident(rig: Rig) -> None:
    """An incident that people were notified of also ends for them, though the judge is another one by then."""
    rig.put(hours(100) + hours(12, first=100, rate=0.2))
    rig.tick(112)
    judge_changes(rig, hour=112, more=30)
    rig.put(hours(60, first=112))
    rig.tick(172)
    (alert,) = rig.alerts()
    assert alert.regression.recovered_at is not None


def test_series_do_not_touch_each_other(rig: Rig) -> None:
    """One bad metric among three is one alert, about that metric."""
    others = [replace(SERIES, metric=name) for name in ("relevance", "safety")]
    rig.put(hours(100) + hours(20, first=100, rate=0.25))
    for series in others:
        rig.put(hours(120, series=series))
    rig.tick(120)
    assert [a.regression.series for a in rig.alerts()] == [SERIES]


def test_an_agent_that_was_down_tells_what_goes_on_and_keeps_quiet_about_what_is_over(rig: Rig) -> None:
    """After a gap, an incident that came and went is recorded as over and never fires; one that goes on fires."""
    gone = replace(SERIES, metric="relevance")
    rig.put(hours(100) + hours(10, first=100, rate=0.3))
    rig.put(hours(72, series=gone) + hours(6, first=72, rate=0.4, series=gone) + hours(32, first=78, series=gone))
    rig.tick(110)
    alert_stage.tick(rig.store, AlertSettings(), channels=("ops",), horizon=LATENESS, now=START + 111 * HOUR)
    states = {a.regression.series.metric: (a.state, a.firing_at is not None) for a in rig.alerts()}
    assert states == {"groundedness": (AlertState.FIRING, True), "relevance": (AlertState.RESOLVED, False)}
    assert [n.alert_id for n in rig.store.notifications(since=START)] == [
        a.alert_id for a in rig.alerts() if a.state is AlertState.FIRING
    ]


def test_a_restart_between_any_two_steps_neither_repeats_nor_forgets(tmp_path: Path) -> None:
    """Every look from a freshly opened store: firing once, down over the recovery, resolved once with its true time."""
    url = f"sqlite:///{tmp_path / 'm.db'}"
    windows = hours(100) + hours(6, first=100, rate=0.4) + hours(30, first=106)
    for looked_at in (80, 101, 102, 103, 104, 104, 136, 136):
        rig = Rig(url)
        have = {row.start for row in rig.store.rollups()}
        rig.put([w for w in windows if w.start < START + looked_at * HOUR and w.start not in have])
        rig.tick(looked_at)
        now = START + looked_at * HOUR + LATENESS
        alert_stage.tick(rig.store, AlertSettings(), channels=("ops",), horizon=LATENESS, now=now)
        rig.close()
    rig = Rig(url)
    (alert,) = rig.alerts()
    transitions = [n.transition for n in rig.store.notifications(since=START)]
    rig.close()
    assert transitions == [AlertState.FIRING, AlertState.RESOLVED]
    assert alert.regression.recovered_at is not None
    assert START + 107 * HOUR < alert.regression.recovered_at < START + 125 * HOUR


def test_late_verdicts_correct_a_window_and_alert_only_within_the_horizon(rig: Rig) -> None:
    """A window of nine days ago that turns bad raises nothing; the rest of its series goes on as before."""
    windows = hours(320)
    rig.put(windows)
    rig.tick(320)
    bad = sums_of(140, 100)
    rig.replace([replace(row, sums=bad) for row in windows[100:106]])
    assert rig.tick(320) == 0
    assert rig.alerts() == ()
    rig.replace([replace(row, sums=bad) for row in windows[310:316]])
    assert rig.tick(320) == 1


def test_a_long_lived_series_is_held_against_its_first_weeks_baseline(rig: Rig) -> None:
    """Months later replay starts near the present, and the baseline of the beginning still counts."""
    rig.put(hours(72) + hours(48, first=24 * 90, rate=0.15))
    rig.store.pin(Baseline(series=SERIES, start=START, end=START + 72 * HOUR, pinned_by="first_windows"))
    rig.tick(24 * 92)
    (alert,) = rig.alerts()
    assert alert.regression.baseline_rate == pytest.approx(0.05, abs=0.01)
    assert alert.regression.began_at >= START + 24 * 90 * HOUR


def test_a_tick_that_takes_its_time_leaves_no_series_out() -> None:
    """Each tick begins with the series behind the last one that was looked at, and after a round all were."""
    of_round, names = detect.Round(), [f"app {number}" for number in range(5)]
    every = [Series(app=name, environment="", slice="", metric="m", rubric_id="r") for name in names]
    calls = iter([True, False, True, False, True, False])
    seen = [[series.app for series in of_round.walk(every, lambda: next(calls))] for _ in range(3)]
    assert [["app 0", "app 1"], ["app 2", "app 3"], ["app 4", "app 0"]] == seen
    assert 5 == len(list(of_round.walk(every, lambda: True)))


def test_an_empty_store_has_nothing_to_tell(rig: Rig) -> None:
    """No windows, no alerts, no baselines."""
    assert rig.tick(10) == 0


@pytest.mark.postgres
def test_on_postgresql(postgres_url: str) -> None:
    """The same regression is found, kept and resolved there."""
    rig = Rig(postgres_url)
    try:
        rig.put(hours(100) + hours(12, first=100, rate=0.2) + hours(40, first=112))
        assert rig.tick(112) == 2
        assert rig.tick(112) == 0
        assert rig.tick(152) == 1
        (alert,) = rig.alerts()
    finally:
        rig.close()
    assert alert.regression.recovered_at is not None
