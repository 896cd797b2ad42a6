"""`SeriesStore`: windows recomputed from turns and outcomes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from monitor.errors import ConfigError
from monitor.model.judgements import Exchange, Reason, Rubric
from monitor.model.trends import Baseline, Series, Sums
from monitor.store.sql_store import open_store
from monitor.stores import Store

if TYPE_CHECKING:
    from tests.contract.conftest import Make

HOUR = timedelta(hours=1)
SERIES = Series(app="shop", environment="production", slice="", metric="groundedness", rubric_id="g1")


def roll_up(store: Store, *rubrics: Rubric) -> int:
    """Recompute all that changed."""
    return store.roll_up(store.changed_windows(1000), rubrics=rubrics, length=HOUR)


def test_window(store: Store, make: Make) -> None:
    """A window's row holds the sums of its turns by the book (statistics.md section 5)."""
    scored, failed, waiting, unmet, skipped = turns = [make.turn() for _ in range(5)]
    make.assembled(store, *turns)
    jobs = {turn.turn_id: make.job(turn, probability=0.25) for turn in turns}
    store.record_samplings(
        [
            make.sampling(scored, jobs[scored.turn_id], proxy=0.5),
            make.sampling(failed, jobs[failed.turn_id], proxy=0.75),
            make.sampling(waiting, jobs[waiting.turn_id], proxy=None),
            make.sampling(unmet, unmet=(make.job(unmet, probability=1.0),), proxy=1.0),
            make.sampling(skipped, proxy=0.25),
        ]
    )
    store.finish([make.verdict(jobs[scored.turn_id], score=2.0, defect=True)])
    spent = Exchange(input_tokens=100, output_tokens=20, cost_usd=0.5)
    store.finish([replace(make.unscored(jobs[failed.turn_id]), exchange=spent)])
    assert roll_up(store, make.rubric) == 1
    (rollup,) = store.rollups()
    assert (SERIES, "1.0", make.now, HOUR) == (rollup.series, rollup.release, rollup.start, rollup.length)
    expected = Sums(
        turns=5,
        sampled=3,
        pending=1,
        n=1,
        k=1,
        sw=4,
        sw2=16,
        swx=4,
        sw2x=16,
        sws=8,
        sws2=16,
        proxied=4,
        f=2.5,
        f2=0.25 + 0.5625 + 1 + 0.0625,
        swf=2,
        swf2=1,
        swxf=2,
        sw2f=8,
        sw2f2=4,
        sw2xf=8,
        input_tokens=1000,
        output_tokens=100,
        cost_usd=0.50125,
    )
    assert expected == rollup.sums
    assert {"timeout": 1, "no_ground_truth": 1} == rollup.unscored
    assert ({"2": 1}, {"2": 4.0}) == (rollup.histogram, rollup.weighted_histogram)


def test_rolled_up_once(store: Store, make: Make) -> None:
    """A window that was rolled up is not marked any more; doing it again writes nothing and changes nothing."""
    make.sampled(store, make.turn())
    windows = store.changed_windows(10)
    assert store.roll_up(windows, rubrics=[make.rubric], length=HOUR) == 1
    before = store.rollups()
    assert store.changed_windows(10) == ()
    assert store.roll_up(windows, rubrics=[make.rubric], length=HOUR) == 0
    assert before == store.rollups()


def test_change_during_rollup(store: Store, make: Make) -> None:
    """A window that changed after it was found marked stays marked."""
    turn = make.turn()
    (job,) = make.sampled(store, turn)
    stale = store.changed_windows(10)
    store.finish([make.verdict(job)])
    store.roll_up(stale, rubrics=[make.rubric], length=HOUR)
    assert [(make.now, 1)] == [(rollup.start, rollup.sums.n) for rollup in store.rollups()]
    assert [make.now] == [window.start for window in store.changed_windows(10)]


@pytest.mark.parametrize("change", ["turns", "samplings", "outcomes"])
def test_each_change_marks(store: Store, make: Make, change: str) -> None:
    """Windows are marked by new turns, by decisions and by outcomes alike."""
    turn = make.turn()
    job = make.job(turn)
    steps = {
        "turns": lambda: make.assembled(store, turn),
        "samplings": lambda: store.record_samplings([make.sampling(turn, job)]),
        "outcomes": lambda: store.finish([make.verdict(job)]),
    }
    for name, step in steps.items():
        step()
        if name == change:
            break
        roll_up(store, make.rubric)
    assert [make.now] == [window.start for window in store.changed_windows(10)]


def test_half_open_windows(store: Store, make: Make) -> None:
    """A turn on the border belongs to the window that begins there."""
    borders = [make.now - timedelta(microseconds=1), make.now, make.now + HOUR]
    make.assembled(store, *(make.turn(started_at=at) for at in borders))
    roll_up(store, make.rubric)
    assert [(make.now + n * HOUR, 1) for n in (-1, 0, 1)] == [(r.start, r.sums.turns) for r in store.rollups()]


def test_before_1970(store: Store, make: Make) -> None:
    """Windows before the epoch begin below their turns like all others."""
    long_ago = make.now.replace(year=1969)
    make.assembled(store, make.turn(started_at=long_ago + timedelta(minutes=30)))
    roll_up(store, make.rubric)
    assert [(long_ago, 1)] == [(rollup.start, rollup.sums.turns) for rollup in store.rollups()]


def test_releases_apart(store: Store, make: Make) -> None:
    """Each release has a row of each metric, also where nothing of it was sampled."""
    make.sampled(store, make.turn(release="1.0"))
    make.assembled(store, make.turn(release="1.1"))
    roll_up(store, make.rubric, Rubric(metric="relevance", rubric_id="r1", needs=frozenset(), scale_min=0, scale_max=1))
    assert [
        ("groundedness", "1.0", 1),
        ("groundedness", "1.1", 0),
        ("relevance", "1.0", 0),
        ("relevance", "1.1", 0),
    ] == [(rollup.series.metric, rollup.release, rollup.sums.sampled) for rollup in store.rollups()]


def test_rubric_out_of_use(store: Store, make: Make) -> None:
    """A window judged by a rubric that is not in use any more keeps its row, and its bins."""
    turn = make.turn()
    (job,) = make.sampled(store, turn)
    roll_up(store, make.rubric)
    store.finish([make.verdict(job, score=4.0)])
    renewed = replace(make.rubric, rubric_id="g2")
    roll_up(store, renewed)
    assert [("g1", {"4": 1}), ("g2", {})] == [(r.series.rubric_id, r.histogram) for r in store.rollups()]


def test_apps_and_environments_apart(store: Store, make: Make) -> None:
    """Windows of different apps and environments have nothing to do with each other."""
    make.assembled(store, make.turn(), make.turn(app="bank"), replace(make.turn(), environment="staging"))
    roll_up(store, make.rubric)
    assert [("bank", "production", 1), ("shop", "production", 1), ("shop", "staging", 1)] == [
        (rollup.series.app, rollup.series.environment, rollup.sums.turns) for rollup in store.rollups()
    ]


def test_vanished_turns(store: Store, make: Make) -> None:
    """A window whose turns are all gone has no rows any more."""
    turn = make.turn()
    make.assembled(store, turn)
    roll_up(store, make.rubric)
    moved = replace(turn, started_at=turn.started_at + 5 * HOUR, release="2.0")
    make.assembled(store, moved)
    roll_up(store, make.rubric)
    assert [("2.0", moved.started_at)] == [(rollup.release, rollup.start) for rollup in store.rollups()]


def test_shares_in_bins(store: Store, make: Make) -> None:
    """Scores between 0 and 1 are counted in tenths, each in the bin that begins at or below it."""
    scores = [0.0, 0.05, 0.1, 0.3, 0.6, 0.7, 0.7999, 0.95, 1.0, None]
    rubric = Rubric(metric="groundedness", rubric_id="g1", needs=frozenset(), scale_min=0, scale_max=1)
    jobs = make.sampled(store, *(make.turn() for _ in scores))
    store.finish([make.verdict(job, score=score) for job, score in zip(jobs, scores, strict=True)])
    roll_up(store, rubric)
    (rollup,) = store.rollups()
    expected = {"0": 2, "0.1": 1, "0.3": 1, "0.6": 1, "0.7": 2, "0.9": 1, "1": 1}
    assert list(expected.items()) == list(rollup.histogram.items())
    assert {name: 2.0 * count for name, count in expected.items()} == rollup.weighted_histogram
    assert rollup.sums.n == len(scores)


def test_big_totals(store: Store, make: Make) -> None:
    """Totals beyond 32 bits are added up and read back."""
    jobs = make.sampled(store, *(make.turn() for _ in range(3)))
    spent = Exchange(input_tokens=1_500_000_000, output_tokens=1_500_000_000)
    store.finish([replace(make.verdict(job), exchange=spent) for job in jobs])
    roll_up(store, make.rubric)
    (rollup,) = store.rollups()
    assert (4_500_000_000, 4_500_000_000) == (rollup.sums.input_tokens, rollup.sums.output_tokens)


def test_rollups_narrowed_down(store: Store, make: Make) -> None:
    """Rollups come by series, start and release, narrowed down by app, metric and start."""
    make.assembled(store, *(make.turn(started_at=make.now + n * HOUR, app=app) for n in range(3) for app in "ba"))
    roll_up(store, make.rubric, replace(make.rubric, metric="relevance"))
    rollups = store.rollups()
    assert sorted(rollups, key=lambda r: (r.series, r.start, r.release)) == list(rollups)
    assert len(rollups) == 12
    assert {"b"} == {rollup.series.app for rollup in store.rollups(app="b")}
    assert {"relevance"} == {rollup.series.metric for rollup in store.rollups(metric="relevance")}
    found = store.rollups(app="a", metric="relevance", since=make.now + HOUR, until=make.now + 2 * HOUR)
    assert [make.now + HOUR] == [rollup.start for rollup in found]


def test_other_length(store: Store, make: Make) -> None:
    """Windows of another length than the store was opened for are refused instead of mixed in."""
    with pytest.raises(ConfigError, match="1:00:00"):
        store.roll_up([], rubrics=[make.rubric], length=timedelta(minutes=15))


def test_length_changed(store: Store, migrated_url: str, make: Make) -> None:
    """A store opened with another window length recomputes all its windows in that length."""
    quarter = timedelta(minutes=15)
    make.assembled(store, make.turn(), make.turn(started_at=make.now + 2 * quarter))
    roll_up(store, make.rubric)
    other = open_store(migrated_url, window=quarter)
    assert other.rollups() == ()
    other.roll_up(other.changed_windows(10), rubrics=[make.rubric], length=quarter)
    assert [(make.now, quarter), (make.now + 2 * quarter, quarter)] == [(r.start, r.length) for r in other.rollups()]
    other.close()
    again = open_store(migrated_url, window=quarter)
    assert (2, ()) == (len(again.rollups()), again.changed_windows(10))
    again.close()
    open_store(migrated_url).close()


def test_baselines(store: Store, make: Make) -> None:
    """A pinned baseline reads back; pinning another for its series replaces it."""
    assert store.baselines() == {}
    first = Baseline(series=SERIES, start=make.now - 24 * HOUR, end=make.now, pinned_by="first_windows")
    other = replace(first, series=replace(SERIES, metric="relevance"))
    store.pin(first)
    store.pin(other)
    renewed = replace(first, end=make.now + HOUR, pinned_by="release 1.1")
    store.pin(renewed)
    store.pin(renewed)
    assert {renewed.series: renewed, other.series: other} == store.baselines()


def test_failure_of_a_sampled_turn(store: Store, make: Make) -> None:
    """A judged turn that turns out not to fit counts as sampled; a need that was unmet from the start does not."""
    judged, unmet = make.turn(), make.turn()
    make.assembled(store, judged, unmet)
    job = make.job(judged)
    store.record_samplings([make.sampling(judged, job), make.sampling(unmet, unmet=(make.job(unmet),))])
    store.finish([make.unscored(job, Reason.NO_CONTEXT)])
    roll_up(store, make.rubric)
    (rollup,) = store.rollups()
    assert (1, {"no_context": 1, "no_ground_truth": 1}) == (rollup.sums.sampled, rollup.unscored)
