"""`SpendStore`: what judges cost; and `JobStore.about`, which saves some of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from monitor.model.judgements import Job, Spend, Verdict
from monitor.stores import Store

if TYPE_CHECKING:
    from tests.contract.conftest import Make

DAY = timedelta(days=1)
FIRST = datetime(2026, 3, 1, tzinfo=UTC)
SPEND = Spend(usd=0.25, calls=3, input_tokens=1000, output_tokens=10)


def twins(store: Store, jobs: Sequence[Job]) -> Mapping[Job, Verdict]:
    """What is known that would do for the jobs."""
    return store.judging_inputs(jobs)[1]


def test_written_twice(store: Store) -> None:
    """A worker's day is set and not added to: writing it again changes nothing, writing more replaces it."""
    assert store.record_spend("one", day=FIRST, spend=SPEND) == (0.25, 0.25)
    assert store.record_spend("one", day=FIRST, spend=SPEND) == (0.25, 0.25)
    assert store.record_spend("one", day=FIRST, spend=SPEND + SPEND) == (0.5, 0.5)
    assert store.spend(since=FIRST, until=FIRST + DAY) == SPEND + SPEND


def test_day_and_month(store: Store) -> None:
    """A day's total is over all workers, a month's over all its days so far; other months are left out."""
    for day in (FIRST - DAY, FIRST, FIRST + 3 * DAY, FIRST + 9 * DAY):
        store.record_spend("one", day=day, spend=SPEND)
    assert store.record_spend("two", day=FIRST + 3 * DAY, spend=SPEND) == (0.5, 0.75)
    assert store.spend(since=FIRST - DAY, until=FIRST + 9 * DAY).usd == pytest.approx(1.0)
    assert store.spend(since=FIRST + DAY, until=FIRST + 2 * DAY) == Spend()


def test_twins(store: Store, make: Make) -> None:
    """A job finds the latest verdict by its rubric on equal content, and no failure."""
    turns = [make.turn() for _ in range(4)]
    waiting, old, new, failed = make.sampled(store, *turns)
    assert len({job.content_hash for job in (waiting, old, new, failed)}) == 1
    assert twins(store, [waiting]) == {}
    store.finish([make.unscored(failed)])
    assert twins(store, [waiting]) == {}
    verdict = make.verdict(new)
    store.finish([replace(make.verdict(old), judged_at=verdict.judged_at - DAY), verdict])
    assert twins(store, [waiting]) == {waiting: verdict}


def test_no_twins(store: Store, make: Make) -> None:
    """Other content, another rubric and a verdict whose text was pruned are no twins."""
    turn = make.turn(query="Another question?")
    waiting, judged = make.sampled(store, make.turn(), turn)
    store.finish([make.verdict(judged)])
    assert twins(store, [waiting, replace(judged, rubric_id="g2")]) == {}
    assert list(twins(store, [judged])) == [judged]
    store.kept_text.prune(text_before=turn.started_at + DAY, fragments_before=FIRST, limit=10)
    assert twins(store, [judged]) == {}


def test_turns_of_jobs(store: Store, make: Make) -> None:
    """The turns of jobs come by id, with their text; those that are gone are left out."""
    turns = [make.turn(), make.turn(query="Another question?")]
    jobs = make.sampled(store, *turns)
    found, _ = store.judging_inputs([*jobs, replace(jobs[0], turn_id="0" * 32)])
    assert found == {turn.turn_id: turn for turn in turns}
    assert store.judging_inputs([]) == ({}, {})
