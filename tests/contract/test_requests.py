"""Jobs that are asked for after the turn was decided about, and metrics that it was not asked about."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from monitor.model.judgements import Job, Reason, Rubric, Sampling, Verdict
from monitor.model.spans import Assembly
from monitor.model.turns import Turn
from monitor.stores import Store

if TYPE_CHECKING:
    from tests.contract.conftest import Make

HOUR = timedelta(hours=1)
LATER = Rubric(metric="safety", rubric_id="s1", needs=frozenset(), scale_min=0, scale_max=7)


def _decided(store: Store, make: Make, *, asked: tuple[tuple[str, str], ...] = (("groundedness", "g1"),)) -> Turn:
    """A turn that was decided about when only groundedness was measured."""
    turn = make.turn()
    store.replace_turns([Assembly(trace_id=turn.trace_id, through=1, turns=(turn,))], now=make.now)
    store.record_samplings([replace(make.sampling(turn, make.job(turn)), asked=asked)])
    return turn


def _request(make: Make, turn: Turn, *jobs: Job) -> Sampling:
    asked = (("safety", "s1"),)
    return Sampling(turn_id=turn.turn_id, content_hash=turn.content_hash(), jobs=jobs, asked=asked, decided_at=make.now)


def _sums(store: Store, make: Make, metric: str) -> tuple[int, int, int, int]:
    """Turns, not asked, pending and scored."""
    store.roll_up(store.changed_windows(10), rubrics=(make.rubric, LATER), length=HOUR)
    (row,) = store.rollups(metric=metric)
    return row.sums.turns, row.sums.not_asked, row.sums.pending, row.sums.n


def test_a_metric_that_was_added_later(store: Store, make: Make) -> None:
    """A turn is not asked about it, and is about the one that there was."""
    _decided(store, make)
    assert (1, 1, 0, 0) == _sums(store, make, "safety")
    assert (1, 0, 1, 0) == _sums(store, make, "groundedness")


def test_a_turn_of_which_nobody_knows(store: Store, make: Make) -> None:
    """A decision that names no metrics, as those of older versions, counts as one about all."""
    _decided(store, make, asked=())
    assert (1, 0, 0, 0) == _sums(store, make, "safety")


def test_a_request(store: Store, make: Make) -> None:
    """It makes a job that remembers when it was asked for; a second request adds nothing."""
    turn = _decided(store, make)
    job = replace(make.job(turn, "safety", "s1"), requested_at=make.now)
    assert [1, 0] == [store.request([_request(make, turn, job)]) for _ in range(2)]
    assert frozenset({job}) == store.asked_already([job])
    assert (1, 0, 1, 0) == _sums(store, make, "safety")
    claimed = store.claim(now=make.now, lease=HOUR, limit=9, rubric_ids=["s1"])
    assert [make.now] == [job.requested_at for job in claimed]


def test_a_request_for_nothing(store: Store, make: Make) -> None:
    """A turn that is asked about and not drawn is not sampled from then on."""
    turn = _decided(store, make)
    assert 0 == store.request([_request(make, turn)])
    assert (1, 0, 0, 0) == _sums(store, make, "safety")


def test_a_request_in_place_of_an_outcome(store: Store, make: Make) -> None:
    """Where nobody could be asked the job takes the outcome's place; a verdict, or another reason, stays."""
    for reason, replaced in ((Reason.EXPIRED, 1), (Reason.BUDGET, 1), (Reason.REFUSED, 0), (None, 0)):
        turn = _decided(store, make)
        job = make.job(turn)
        (claimed,) = store.claim(now=make.now, lease=HOUR, limit=1)
        store.finish([make.unscored(claimed, reason) if reason else make.verdict(claimed)])
        assert replaced == len({job} - store.asked_already([job]))
        assert replaced == store.request([_request(make, turn, job)])
        assert 1 - replaced == len(store.outcomes(turn.turn_id))
        store.claim(now=make.now, lease=HOUR, limit=9)


def test_a_request_about_what_is_gone(store: Store, make: Make) -> None:
    """Content that was replaced, and a turn that is not decided about, get no job."""
    turn = _decided(store, make)
    other = replace(turn, response="Something else.")
    store.replace_turns([Assembly(trace_id=turn.trace_id, through=2, turns=(other,))], now=make.now)
    requests = [_request(make, t, make.job(t, "safety", "s1")) for t in (turn, other)]
    assert [0, 0] == [store.request([request]) for request in requests]


def test_age_of_a_request(store: Store, make: Make) -> None:
    """A job that nobody here knows grows old from when it was asked for, not from when its turn began."""
    turn = _decided(store, make)
    store.request([_request(make, turn, replace(make.job(turn, "safety", "s1"), requested_at=make.now + 9 * HOUR))])
    old = {
        hours: [
            job.metric
            for job in store.orphans([], started_before=make.now + hours * HOUR, now=make.now + 99 * HOUR, limit=9)
        ]
        for hours in (1, 10)
    }
    assert {1: ["groundedness"], 10: ["groundedness", "safety"]} == old


def test_turns_that_a_verdict_calls_a_defect(store: Store, make: Make) -> None:
    """Only those are listed when asked for, by whichever metric or by one; outcomes come for many turns at once."""
    good, bad, _ = (_decided(store, make) for _ in range(3))
    for turn, defect in ((good, False), (bad, True)):
        store.finish([make.verdict(make.job(turn), defect=defect)])
    assert [bad.turn_id] == [turn.turn_id for turn in store.turns(defect_of=())]
    assert [bad.turn_id] == [turn.turn_id for turn in store.turns(defect_of=("groundedness", "safety"))]
    assert [] == [*store.turns(defect_of=("safety",))]
    by_turn = store.outcomes_of([good.turn_id, bad.turn_id, "none"])
    assert {good.turn_id: [False], bad.turn_id: [True]} == {
        turn_id: [outcome.finding.defect for outcome in outcomes if isinstance(outcome, Verdict)]
        for turn_id, outcomes in by_turn.items()
    }
