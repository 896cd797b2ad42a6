"""Verdicts become windows: recomputed, never incremented, on a real database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from monitor.model.judgements import Finding, Job, Outcome, Reason, Rubric, Sampling, Unscored, Verdict
from monitor.model.spans import Assembly
from monitor.model.stored import Window
from monitor.model.trends import Rollup, Series
from monitor.model.turns import Turn, turn_id
from monitor.settings.tree import RollupSettings
from monitor.stages import rollup
from monitor.statistics.rates import wilson_rate
from monitor.store.sql_store import SqlStore

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
RUBRIC = Rubric(
    metric="groundedness", rubric_id="r1", needs=frozenset({"response"}), scale_min=1, scale_max=5, title="Groundedness"
)
SETTINGS = RollupSettings()


def turn(number: int, *, hour: int = 0, release: str = "1") -> Turn:
    """Return a turn within an hour."""
    at = START + hour * HOUR + timedelta(seconds=number % 3600)
    return Turn(
        turn_id=turn_id(f"{number:032x}", "s"),
        trace_id=f"{number:032x}",
        span_id="s",
        app="bot",
        release=release,
        response="yes",
        started_at=at,
        ended_at=at,
    )


def capture(store: SqlStore, turns: Sequence[Turn]) -> None:
    """Store turns, and sample every one of them."""
    assemblies = [Assembly(trace_id=t.trace_id, through=0, turns=(t,)) for t in turns]
    store.replace_turns(assemblies, now=START)
    store.record_samplings(
        [Sampling(turn_id=t.turn_id, content_hash=t.content_hash(), jobs=(job(t),), decided_at=START) for t in turns]
    )


def job(of: Turn) -> Job:
    """Return the job about a turn, one of two equally likely ones."""
    return Job(
        turn_id=of.turn_id, content_hash=of.content_hash(), metric="groundedness", rubric_id="r1", probability=0.5
    )


def verdict(of: Turn, *, score: float) -> Outcome:
    """Return a verdict; scores below 3 are defects."""
    return Verdict(job=job(of), finding=Finding(score=score, defect=score < 3), exchange=_NOTHING, judged_at=START)


_NOTHING = Unscored(
    job=Job(turn_id="", content_hash="", metric="", rubric_id="", probability=1),
    reason=Reason.INTERNAL,
    judged_at=START,
).exchange


def windows(store: SqlStore) -> dict[tuple[int, str], Rollup]:
    """Return the rollups by hour and release."""
    return {((r.start - START) // HOUR, r.release): r for r in store.rollups()}


def test_every_turn_of_a_window_is_accounted_for(store: SqlStore) -> None:
    """Turns = scored + pending + unscored by reason; weights are inverse probabilities."""
    turns = [turn(i) for i in range(10)]
    capture(store, turns)
    store.finish([verdict(t, score=1.0 if i < 2 else 5.0) for i, t in enumerate(turns[:6])])
    store.finish([Unscored(job=job(turns[6]), reason=Reason.TIMEOUT, judged_at=START)])
    assert rollup.tick(store, SETTINGS, rubrics=[RUBRIC]) == 1
    (row,) = windows(store).values()
    assert row.series == Series(app="bot", environment="", slice="", metric="groundedness", rubric_id="r1")
    assert (row.sums.turns, row.sums.n, row.sums.k, row.sums.pending) == (10, 6, 2, 3)
    assert row.unscored == {"timeout": 1}
    assert (row.sums.sw, row.sums.sw2, row.sums.swx, row.sums.sw2x) == (12, 24, 4, 8)
    assert row.histogram == {"1": 2, "5": 4}


def test_rolling_up_again_writes_nothing_and_changes_nothing(store: SqlStore) -> None:
    """A tick without news is empty."""
    turns = [turn(i) for i in range(5)]
    capture(store, turns)
    store.finish([verdict(t, score=5) for t in turns])
    rollup.tick(store, SETTINGS, rubrics=[RUBRIC])
    before = store.rollups()
    assert rollup.tick(store, SETTINGS, rubrics=[RUBRIC]) == 0
    assert store.rollups() == before


def test_late_verdicts_recompute_their_window_only(store: SqlStore) -> None:
    """Five defects of 100 become 35 of 140 when 40 more turns of that hour are judged; there is still one point."""
    early = [turn(i) for i in range(100)]
    other = [turn(1000 + i, hour=1) for i in range(20)]
    capture(store, [*early, *other])
    store.finish([verdict(t, score=1 if i < 5 else 5) for i, t in enumerate(early)])
    store.finish([verdict(t, score=5) for t in other])
    rollup.tick(store, SETTINGS, rubrics=[RUBRIC])
    untouched = windows(store)[1, "1"]
    late = [turn(200 + i) for i in range(40)]
    capture(store, late)
    store.finish([verdict(t, score=1 if i < 30 else 5) for i, t in enumerate(late)])
    assert rollup.tick(store, SETTINGS, rubrics=[RUBRIC]) == 1
    point = windows(store)[0, "1"]
    assert (point.sums.n, point.sums.k) == (140, 35)
    rate = wilson_rate(point.sums)
    assert rate is not None
    assert rate.value == pytest.approx(0.25)
    assert windows(store)[1, "1"] == untouched


def test_releases_of_one_window_are_rows_of_their_own(store: SqlStore) -> None:
    """A rolling deployment gives two rows that add up."""
    turns = [turn(i, release="1") for i in range(4)] + [turn(10 + i, release="2") for i in range(6)]
    capture(store, turns)
    store.finish([verdict(t, score=5) for t in turns])
    assert rollup.tick(store, SETTINGS, rubrics=[RUBRIC]) == 2
    assert {key: row.sums.n for key, row in windows(store).items()} == {(0, "1"): 4, (0, "2"): 6}


def test_more_windows_than_one_batch_are_all_rolled_up(store: SqlStore) -> None:
    """A hundred changed hours are done in one tick."""
    capture(store, [turn(i, hour=i) for i in range(100)])
    assert rollup.tick(store, SETTINGS, rubrics=[RUBRIC]) == 100
    assert store.changed_windows(1) == ()


def test_a_window_that_never_stops_changing_does_not_hold_the_tick(store: SqlStore) -> None:
    """Senders without a pause leave the window marked for the next tick."""

    class Busy:
        """The store, whose windows change again as soon as they are rolled up."""

        def __init__(self) -> None:
            self.rounds = 0

        def changed_windows(self, limit: int) -> tuple[Window, ...]:
            return store.changed_windows(limit)

        def roll_up(self, windows: Sequence[Window], *, rubrics: Sequence[Rubric], length: timedelta) -> int:
            self.rounds += 1
            written = store.roll_up(windows, rubrics=rubrics, length=length)
            capture(store, [turn(5000 + self.rounds)])
            return written

    capture(store, [turn(0)])
    busy = Busy()
    assert rollup.tick(busy, SETTINGS, rubrics=[RUBRIC]) == 1  # type: ignore[arg-type]
    assert busy.rounds == 1
    assert len(store.changed_windows(10)) == 1


def test_large_windows_rest(store: SqlStore) -> None:
    """A window that took two seconds rests for eighteen, however often it changes; others are not held up by it."""
    now = 100.0

    class Slow:
        """The store, with a clock that goes on by two seconds for the first hour."""

        changed_windows = staticmethod(store.changed_windows)

        def roll_up(self, windows: Sequence[Window], *, rubrics: Sequence[Rubric], length: timedelta) -> int:
            nonlocal now
            now += 2 if windows[0].start == START else 0
            return store.roll_up(windows, rubrics=rubrics, length=length)

    pace = rollup.Pace(timedelta(minutes=15), clock=lambda: now)

    def rolled_up(number: int) -> int:
        capture(store, [turn(number), turn(1000 + number, hour=1)])
        return rollup.tick(Slow(), SETTINGS, rubrics=[RUBRIC], pace=pace)  # type: ignore[arg-type]

    assert 2 == rolled_up(0)
    now += 17
    assert 1 == rolled_up(1)
    now += 2
    assert 2 == rolled_up(2)
    assert (3, 3) == tuple(row.sums.turns for row in windows(store).values())


def test_rests_end_before_windows_close(store: SqlStore) -> None:
    """However long a window took, it rests for a third of the lateness at most."""
    capture(store, [turn(0)])
    (window,) = store.changed_windows(1)
    now = 0.0
    pace = rollup.Pace(timedelta(minutes=15), clock=lambda: now)
    pace.rolled_up(window, took=600)
    now = 299
    assert not pace.due(window)
    now = 300
    assert pace.due(window)


def test_resting_windows_hide_no_other(store: SqlStore) -> None:
    """More resting windows than are asked for at once do not keep a later one waiting."""
    capture(store, [turn(i, hour=i) for i in range(40)])
    pace = rollup.Pace(timedelta(minutes=15))
    for window in store.changed_windows(40):
        pace.rolled_up(window, took=60)
    capture(store, [turn(50, hour=50)])
    assert 1 == rollup.tick(store, SETTINGS, rubrics=[RUBRIC], pace=pace)
