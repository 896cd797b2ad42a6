"""`JobStore`: what is to be judged, and what came of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from monitor.model.judgements import Exchange, Finding, Reason, Verdict
from monitor.stores import Store

if TYPE_CHECKING:
    from tests.contract.conftest import Make

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def test_sampling_reads_back(store: Store, make: Make) -> None:
    """A decision reads back with its jobs, its unmet needs and the proxy score."""
    turn = make.turn()
    make.assembled(store, turn)
    sampling = make.sampling(turn, make.job(turn), unmet=(make.job(turn, "correctness", "c1", 1.0),))
    store.record_samplings([sampling])
    assert sampling == store.sampling(turn.turn_id)


def test_undecided(store: Store, make: Make) -> None:
    """A turn without a decision has no sampling, and neither has an unknown one."""
    turn = make.turn()
    make.assembled(store, turn)
    assert store.sampling(turn.turn_id) is None
    assert store.sampling("0" * 32) is None


def test_sampling_without_proxy(store: Store, make: Make) -> None:
    """A proxy that does not apply stays None, and so does one that is not a number."""
    turns = [make.turn(), make.turn()]
    make.assembled(store, *turns)
    store.record_samplings([make.sampling(turns[0], proxy=None), make.sampling(turns[1], proxy=float("nan"))])
    assert [None, None] == [store.sampling(turn.turn_id).proxy for turn in turns]


def test_recorded_twice(store: Store, make: Make) -> None:
    """A decision recorded again changes nothing, even when its jobs are done by then."""
    turn = make.turn()
    (job,) = make.sampled(store, turn)
    store.finish([make.verdict(job)])
    store.record_samplings([make.sampling(turn, job), make.sampling(turn, job)])
    assert store.claim(now=make.now + HOUR, lease=MINUTE, limit=10) == ()
    assert len(store.outcomes(turn.turn_id)) == 1


def test_first_decision_stays(store: Store, make: Make) -> None:
    """Another decision about the same content is dropped whole."""
    turn = make.turn()
    (job,) = make.sampled(store, turn)
    store.record_samplings([make.sampling(turn, replace(job, metric="relevance", probability=0.1), proxy=0.9)])
    sampling = store.sampling(turn.turn_id)
    assert ((job,), 0.25) == (sampling.jobs, sampling.proxy)


def test_decision_about_replaced_content(store: Store, make: Make) -> None:
    """A decision about content that was replaced meanwhile is dropped; the turn still waits for one."""
    turn = make.turn()
    make.assembled(store, turn)
    late = make.sampling(turn, make.job(turn))
    changed = replace(turn, response="Another answer.")
    make.assembled(store, changed)
    store.record_samplings([late])
    assert (changed,) == store.unsampled(10)
    assert store.backlog().jobs == 0


def test_decision_about_deleted_turn(store: Store, make: Make) -> None:
    """A decision about a turn that is gone is dropped, and the others of the call are kept."""
    turn, gone = make.turn(), make.turn()
    make.assembled(store, turn)
    store.record_samplings([make.sampling(gone, make.job(gone)), make.sampling(turn, make.job(turn))])
    assert store.backlog().jobs == 1


def test_claim(store: Store, make: Make) -> None:
    """A claimed job carries its lease and counts the attempt, and is nobody else's until the lease runs out."""
    (job,) = make.sampled(store, make.turn())
    expected = replace(job, attempt=1, leased_until=make.now + MINUTE)
    assert (expected,) == store.claim(now=make.now, lease=MINUTE, limit=10)
    assert store.claim(now=make.now + MINUTE - timedelta(microseconds=1), lease=MINUTE, limit=10) == ()
    again = replace(job, attempt=2, leased_until=make.now + 2 * MINUTE)
    assert (again,) == store.claim(now=make.now + MINUTE, lease=MINUTE, limit=10)


def test_reclaim(store: Store, make: Make) -> None:
    """Jobs that a clock put off which was a day ahead are due at once; those that wait as usual go on waiting."""
    day = timedelta(days=1)
    leased, later = make.sampled(store, make.turn(), make.turn())
    (mine,) = store.claim(now=make.now + day, lease=HOUR, limit=1)
    (other,) = store.claim(now=make.now, lease=HOUR, limit=9)
    store.release([replace(other)], not_before=make.now + HOUR)
    assert {leased.turn_id, later.turn_id} == {mine.turn_id, other.turn_id}
    assert () == store.claim(now=make.now, lease=HOUR, limit=9)
    assert 1 == store.reclaim(now=make.now, longest=2 * HOUR)
    assert 0 == store.reclaim(now=make.now, longest=2 * HOUR)
    assert [mine.turn_id] == [job.turn_id for job in store.claim(now=make.now, lease=HOUR, limit=9)]


def test_claim_not_before(store: Store, make: Make) -> None:
    """A job that is to wait is not claimed earlier."""
    turn = make.turn()
    make.assembled(store, turn)
    store.record_samplings([make.sampling(turn, replace(make.job(turn), not_before=make.now + MINUTE))])
    assert store.claim(now=make.now, lease=MINUTE, limit=1) == ()
    assert len(store.claim(now=make.now + MINUTE, lease=MINUTE, limit=1)) == 1


def test_claim_oldest_first(store: Store, make: Make) -> None:
    """Jobs are claimed in the order in which they came due, never more than `limit` at once."""
    turns = [make.turn() for _ in range(5)]
    make.assembled(store, *turns)
    for number, turn in enumerate(turns):
        sampling = make.sampling(turn, make.job(turn))
        store.record_samplings([replace(sampling, decided_at=make.now + number * MINUTE)])
    claimed = [store.claim(now=make.now + HOUR, lease=HOUR, limit=2) for _ in range(4)]
    expected = [turn.turn_id for turn in turns]
    assert [expected[:2], expected[2:4], expected[4:], []] == [[job.turn_id for job in jobs] for jobs in claimed]


def test_claim_by_rubric(store: Store, make: Make) -> None:
    """Jobs of the asked rubrics are claimed oldest first, however many of others wait in front."""
    turns = [make.turn() for _ in range(120)]
    make.assembled(store, *turns)
    for number, turn in enumerate(turns):
        jobs = [make.job(turn, "groundedness", "g1")]
        if number % 40 == 39:
            jobs += [make.job(turn, "relevance", "r1"), make.job(turn, "length", "l1")]
        store.record_samplings([replace(make.sampling(turn, *jobs), decided_at=make.now + number * MINUTE)])
    later = make.now + 5 * HOUR
    claimed = store.claim(now=later, lease=HOUR, limit=4, rubric_ids=("r1", "l1"))
    expected = [(turns[n].turn_id, metric) for n in (39, 79) for metric in ("length", "relevance")]
    assert expected == [(job.turn_id, job.metric) for job in claimed]
    assert len(store.claim(now=later, lease=HOUR, limit=500, rubric_ids=("r1", "l1", "none"))) == 2
    assert store.claim(now=later, lease=HOUR, limit=10, rubric_ids=()) == ()
    oldest = store.claim(now=later, lease=HOUR, limit=3, rubric_ids=("g1", "r1"))
    assert [turn.turn_id for turn in turns[:3]] == [job.turn_id for job in oldest]


CALL_OF = {"q1": "answer", "q2": "answer", "q3": "answer", "g1": "documents"}


def sampled_calls(store: Store, make: Make, turns: int) -> list[str]:
    """Store turns with three metrics of one call and one of another; return their ids in order."""
    made = [make.turn() for _ in range(turns)]
    make.assembled(store, *made)
    for number, turn in enumerate(made):
        jobs = [make.job(turn, f"metric of {rubric_id}", rubric_id) for rubric_id in CALL_OF]
        store.record_samplings([replace(make.sampling(turn, *jobs), decided_at=make.now + number * MINUTE)])
    return [turn.turn_id for turn in made]


def test_claim_calls(store: Store, make: Make) -> None:
    """Jobs of one turn and call are claimed together, oldest first, and the limit counts calls."""
    turns = sampled_calls(store, make, 3)
    later = make.now + HOUR
    claimed = [store.claim(now=later, lease=HOUR, limit=2, call_of=CALL_OF) for _ in range(4)]
    assert [[(turn, rubric_id) for rubric_id in ("g1", "q1", "q2", "q3")] for turn in turns] + [[]] == [
        [(job.turn_id, job.rubric_id) for job in jobs] for jobs in claimed
    ]


def test_claim_one_call(store: Store, make: Make) -> None:
    """A claim of one call takes all of its jobs that are due, and no other rubric's."""
    sampled_calls(store, make, 1)
    store.claim(now=make.now, lease=HOUR, limit=1, rubric_ids=("q2",))
    only = {rubric_id: call for rubric_id, call in CALL_OF.items() if call == "answer"}
    claimed = store.claim(now=make.now, lease=MINUTE, limit=1, call_of=only)
    assert ["q1", "q3"] == [job.rubric_id for job in claimed]
    assert store.claim(now=make.now, lease=HOUR, limit=5, call_of=only) == ()
    again = store.claim(now=make.now + HOUR, lease=MINUTE, limit=1, call_of=only)
    assert [("q1", 2), ("q2", 2), ("q3", 2)] == [(job.rubric_id, job.attempt) for job in again]
    assert store.claim(now=make.now, lease=HOUR, limit=1, call_of={}) == ()


def test_verdict_reads_back(store: Store, make: Make) -> None:
    """A verdict takes its job's place and reads back equal, field by field."""
    turn = make.turn()
    (job,) = make.sampled(store, turn)
    verdict = make.verdict(job)
    store.finish([verdict])
    assert (verdict,) == store.outcomes(turn.turn_id)
    assert store.backlog().jobs == 0
    assert store.sampling(turn.turn_id).jobs == ()


def test_sparse_verdict_reads_back(store: Store, make: Make) -> None:
    """A verdict computed in code, with next to nothing in it, reads back equal."""
    turn = make.turn()
    (job,) = make.sampled(store, turn)
    verdict = Verdict(
        job=job, finding=Finding(score=None, defect=False), exchange=Exchange(), judged_at=make.now + MINUTE
    )
    store.finish([verdict])
    assert (verdict,) == store.outcomes(turn.turn_id)


@pytest.mark.parametrize("reason", list(Reason))
def test_unscored_reads_back(store: Store, make: Make, reason: Reason) -> None:
    """Each reason for not scoring reads back, with what was spent on it."""
    turn = make.turn()
    (job,) = make.sampled(store, turn)
    spent = Exchange(prompt="Is it?", reply="Well...", calls=3, input_tokens=10, cost_usd=0.5, latency=MINUTE)
    failure = replace(make.unscored(job, reason), exchange=spent)
    store.finish([failure])
    assert (failure,) == store.outcomes(turn.turn_id)


def test_outcomes_by_metric(store: Store, make: Make) -> None:
    """A turn's outcomes come by metric; an unknown turn has none."""
    turn = make.turn()
    make.assembled(store, turn)
    jobs = [make.job(turn, metric, metric[:1]) for metric in ("relevance", "groundedness", "toxicity")]
    store.record_samplings([make.sampling(turn, *jobs)])
    store.finish([make.verdict(job) for job in jobs])
    assert ["groundedness", "relevance", "toxicity"] == [o.job.metric for o in store.outcomes(turn.turn_id)]
    assert store.outcomes("0" * 32) == ()


def test_finished_twice(store: Store, make: Make) -> None:
    """An outcome written again changes nothing, and a second, different one does not replace it."""
    turn = make.turn()
    (job,) = make.sampled(store, turn)
    verdict = make.verdict(job)
    store.finish([verdict, verdict])
    store.finish([verdict])
    store.finish([make.verdict(job, score=5.0, defect=False)])
    store.finish([make.unscored(job)])
    assert (verdict,) == store.outcomes(turn.turn_id)


def test_verdict_after_failure(store: Store, make: Make) -> None:
    """A verdict that comes after its judge was given up on takes the failure's place."""
    turn = make.turn()
    (job,) = make.sampled(store, turn)
    store.finish([make.unscored(job)])
    store.finish([make.verdict(job)])
    assert (make.verdict(job),) == store.outcomes(turn.turn_id)


def test_outcome_of_replaced_content(store: Store, make: Make) -> None:
    """An outcome about content that was replaced meanwhile is dropped, and the new content's job is left alone."""
    turn = make.turn()
    (job,) = make.sampled(store, turn)
    changed = replace(turn, response="Another answer.")
    (renewed,) = make.sampled(store, changed)
    store.finish([make.verdict(job)])
    assert store.outcomes(turn.turn_id) == ()
    assert (renewed,) == store.sampling(turn.turn_id).jobs


def test_outcome_of_deleted_turn(store: Store, make: Make) -> None:
    """An outcome about a turn that is gone is dropped, and the others of the call are kept."""
    turn = make.turn()
    (job,) = make.sampled(store, turn)
    store.finish([make.verdict(replace(job, turn_id="0" * 32)), make.verdict(job)])
    assert len(store.outcomes(turn.turn_id)) == 1


def test_odd_text_of_a_judge(store: Store, make: Make) -> None:
    """A reply with NUL or lone surrogates is kept with these replaced."""
    turn = make.turn()
    (job,) = make.sampled(store, turn)
    verdict = make.verdict(job)
    store.finish([replace(verdict, exchange=replace(verdict.exchange, reply="a\x00b\udfff", cost_usd=0.5))])
    assert "a\ufffdb\ufffd" == store.outcomes(turn.turn_id)[0].exchange.reply


def test_release(store: Store, make: Make) -> None:
    """A job given back is claimed again at the time set, and not before; its attempts stay counted."""
    make.sampled(store, make.turn())
    claimed = store.claim(now=make.now, lease=HOUR, limit=1)
    store.release(claimed, not_before=make.now + MINUTE)
    store.release(claimed, not_before=make.now + MINUTE)
    assert store.claim(now=make.now + MINUTE / 2, lease=HOUR, limit=1) == ()
    assert [2] == [job.attempt for job in store.claim(now=make.now + MINUTE, lease=HOUR, limit=1)]


def test_failures_of_a_job(store: Store, make: Make) -> None:
    """A job given back keeps the failures it was given back with, and claiming adds none."""
    make.sampled(store, make.turn())
    (job,) = store.claim(now=make.now, lease=HOUR, limit=1)
    store.release([replace(job, failures=3)], not_before=make.now)
    assert [(2, 3)] == [(j.attempt, j.failures) for j in store.claim(now=make.now, lease=HOUR, limit=1)]


def test_severity_of_a_content_filter(store: Store, make: Make) -> None:
    """What a content filter found reads back with the reason, and is no verdict in any window."""
    turn = make.turn()
    (job,) = make.sampled(store, turn)
    failure = replace(make.unscored(job, Reason.CONTENT_FILTER), severity=6)
    store.finish([failure])
    assert (failure,) == store.outcomes(turn.turn_id)


def test_waiting_job_reads_back(store: Store, make: Make) -> None:
    """A job given back says until when it waits, and holds no lease."""
    turn = make.turn()
    (job,) = make.sampled(store, turn)
    store.release(store.claim(now=make.now, lease=HOUR, limit=1), not_before=make.now + MINUTE)
    assert (replace(job, attempt=1, not_before=make.now + MINUTE),) == store.sampling(turn.turn_id).jobs


def test_release_after_lease(store: Store, make: Make) -> None:
    """A worker whose lease ran out cannot give back the job that another has claimed since."""
    make.sampled(store, make.turn())
    late = store.claim(now=make.now, lease=MINUTE, limit=1)
    store.claim(now=make.now + MINUTE, lease=HOUR, limit=1)
    store.release(late, not_before=make.now)
    assert store.claim(now=make.now + 2 * MINUTE, lease=HOUR, limit=1) == ()


def test_nothing_to_do(store: Store, make: Make) -> None:
    """Empty calls are no work and no error."""
    store.record_samplings([])
    store.finish([])
    store.release([], not_before=make.now)
    assert store.changed_windows(10) == ()


def test_orphans(store: Store, make: Make) -> None:
    """Jobs of other rubrics on old turns are found, whoever claimed them before; leased and known ones are not."""
    turns = [make.turn() for _ in range(4)]
    ours, theirs, leased, young = turns
    make.assembled(store, *turns)
    for turn, rubric_id in ((ours, "known"), (theirs, "theirs"), (leased, "leased"), (young, "young")):
        store.record_samplings([make.sampling(turn, make.job(turn, "groundedness", rubric_id))])
    (held,) = store.claim(now=make.now + MINUTE, lease=HOUR, limit=1, rubric_ids=["leased"])
    known = ["known", "young"]
    later = {"started_before": make.now + HOUR, "now": make.now + 2 * MINUTE, "limit": 10}
    (orphan,) = store.orphans(known, **later)
    assert (theirs.turn_id, "theirs", 0) == (orphan.turn_id, orphan.rubric_id, orphan.attempt)
    assert () == store.orphans(known, **{**later, "started_before": theirs.started_at})
    store.release([held], not_before=make.now + MINUTE)
    assert {theirs.turn_id, leased.turn_id} == {job.turn_id for job in store.orphans(known, **later)}
    assert 1 == len(store.orphans(known, **{**later, "limit": 1}))
