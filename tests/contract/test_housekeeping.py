"""What waits between the stages, and what retention deletes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from monitor.model.spans import PROCESS_DIED, Assembly
from monitor.model.stored import Backlog
from monitor.stores import Store

if TYPE_CHECKING:
    from tests.contract.conftest import Make

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


def prune(store: Store, *, text: datetime | None = None, fragments: datetime | None = None, limit: int = 1000) -> int:
    """Prune what is older than the given instants, and nothing where none is given."""
    long_ago = datetime(1980, 1, 1, tzinfo=UTC)
    return store.kept_text.prune(text_before=text or long_ago, fragments_before=fragments or long_ago, limit=limit)


def test_nothing_waits(store: Store) -> None:
    """An empty store has no backlog, and nothing to prune."""
    expected = Backlog(fragments=0, turns=0, jobs=0, windows=0, oldest_fragment_at=None, oldest_job_at=None)
    assert expected == store.backlog()


def test_backlog(store: Store, make: Make) -> None:
    """Each stage's waiting work is counted, with the age of the oldest."""
    make.sampled(store, make.turn(), make.turn())
    make.assembled(store, make.turn(), make.turn(), make.turn())
    store.append([make.fragment(at=make.now + n * SECOND) for n in range(4)])
    expected = Backlog(fragments=4, turns=3, jobs=2, windows=1, oldest_fragment_at=make.now, oldest_job_at=make.now)
    assert expected == store.backlog()


def test_text_is_pruned(store: Store, make: Make) -> None:
    """The text of a turn that started before the limit is gone, what judges and models said included; scores stay."""
    old, young = make.turn(started_at=make.now - HOUR), make.turn()
    jobs = make.sampled(store, old, young)
    store.finish([make.verdict(job) for job in jobs])
    assert prune(store, text=make.now) == 2
    assert prune(store, text=make.now) == 0
    bare = replace(
        old,
        session_id=None,
        query=None,
        history=(),
        retrieval_queries=(),
        citations=None,
        response=None,
        ground_truth=None,
        relevant_ids=None,
    )
    assert [bare, young] == list(store.turns())
    (verdict,) = store.outcomes(old.turn_id)
    whole = make.verdict(jobs[0])
    details = tuple(replace(detail, reason="", evidence="", citation="") for detail in whole.finding.details)
    expected = replace(
        whole,
        finding=replace(whole.finding, reason="", details=details),
        exchange=replace(whole.exchange, prompt="", reply=""),
    )
    assert expected == verdict
    assert (make.verdict(jobs[1]),) == store.outcomes(young.turn_id)


def test_session_is_found_when_its_text_is_gone(store: Store, make: Make) -> None:
    """A session's id goes with the text, and its turns are still found by it; no other one finds them."""
    assert [] == list(store.turns(session_id="session 1"))
    make.assembled(store, make.turn(), replace(make.turn(), session_id=None), replace(make.turn(), session_id="s\x00"))
    prune(store, text=make.now + HOUR)
    assert [None] * 3 == [turn.session_id for turn in store.turns()]
    assert [1, 1, 0, 0] == [len(list(store.turns(session_id=sent))) for sent in ("session 1", "s\x00", "", "other")]


def test_rollups_of_pruned_text(store: Store, make: Make) -> None:
    """A window whose text is gone can still be recomputed."""
    (job,) = make.sampled(store, make.turn())
    store.finish([make.verdict(job)])
    prune(store, text=make.now + HOUR)
    store.roll_up(store.changed_windows(10), rubrics=[make.rubric], length=HOUR)
    assert [(1, 1)] == [(rollup.sums.n, rollup.sums.k) for rollup in store.rollups()]


def test_turn_pruned_undecided(store: Store, make: Make) -> None:
    """A turn whose text is gone before anybody decided about it is not waited for any longer."""
    make.assembled(store, make.turn())
    prune(store, text=make.now + HOUR)
    assert ((), 0) == (store.unsampled(10), store.backlog().turns)


def test_fragments_are_pruned(store: Store, make: Make) -> None:
    """Assembled fragments received before the limit are gone; what waits is kept however old it is."""
    turn = make.turn()
    make.assembled(store, turn)
    waiting = make.fragment(at=make.now - 99 * HOUR)
    store.append([waiting])
    assert prune(store, fragments=make.now) == 0
    assert prune(store, fragments=make.now + SECOND) == 1
    assert prune(store, fragments=make.now + SECOND) == 0
    assert store.fragments([turn.trace_id]) == {turn.trace_id: ()}
    assert len(store.fragments([waiting.trace_id])[waiting.trace_id]) == 1
    assert turn == store.turn(turn.turn_id)


def test_pruned_in_batches(store: Store, make: Make) -> None:
    """One call deletes no more of each kind than `limit`, the oldest first."""
    turns = [make.turn(started_at=make.now + n * SECOND) for n in range(5)]
    make.sampled(store, *turns)
    assert [2, 2, 1, 0] == [prune(store, text=make.now + HOUR, limit=2) for _ in range(4)]
    assert [2, 2, 1, 0] == [prune(store, fragments=make.now + HOUR, limit=2) for _ in range(4)]


def test_late_fragment_of_pruned_trace(store: Store, make: Make) -> None:
    """What arrives after a trace's fragments were pruned adds turns, and neither changes nor deletes those known."""
    trace_id = make.trace_id()
    first, second = make.turn(trace_id, root="a"), make.turn(trace_id, root="b")
    make.assembled(store, first, second)
    prune(store, fragments=make.now + SECOND)
    late = make.fragment(trace_id)
    store.append([late])
    (stored,) = store.fragments([trace_id])[trace_id]
    added, torn = make.turn(trace_id, root="c"), replace(first, response=None)
    store.replace_turns([Assembly(trace_id=trace_id, through=stored.position, turns=(torn, added))], now=make.now)
    assert sorted([first, second, added], key=lambda t: t.turn_id) == list(store.turns())
    assert store.due(quiet_since=make.now + HOUR, open_since=make.now + HOUR, limit=1) == ()


def test_pruned_trace_without_turns(store: Store, make: Make) -> None:
    """A trace that held no turn leaves nothing behind, and may come back."""
    fragment = make.fragment()
    for _ in range(2):
        assert store.append([fragment]) == 1
        (stored,) = store.fragments([fragment.trace_id])[fragment.trace_id]
        store.replace_turns([Assembly(trace_id=fragment.trace_id, through=stored.position, turns=())], now=make.now)
        assert prune(store, fragments=make.now + SECOND) == 1
    store.append([fragment])
    turn = make.turn(fragment.trace_id)
    make.assembled(store, turn)
    make.assembled(store, replace(turn, response="Changed, since nothing of this trace was pruned but noise."))
    assert ["Changed, since nothing of this trace was pruned but noise."] == [t.response for t in store.turns()]


def test_deaths_are_forgotten(store: Store, make: Make) -> None:
    """What processes died with goes with the outcome of the job, and with the text of the turn or the trace."""
    judged, old, young = make.turn(), make.turn(started_at=make.now - HOUR), make.turn()
    jobs = make.sampled(store, judged, old, young)
    subjects = [job.subject for job in jobs]
    for worker in "123":
        store.begin("job", subjects, worker=worker, alone=True)
    store.finish([make.verdict(job) for job in jobs if job.turn_id == judged.turn_id])
    assert {old.turn_id: 3, young.turn_id: 3} == {
        subject.partition(" ")[0]: died for subject, died in store.deaths("job", subjects, worker="4").items()
    }
    prune(store, text=make.now)
    assert [young.turn_id] == [each.partition(" ")[0] for each in store.deaths("job", subjects, worker="4")]
    store.kept_text.erase([young.trace_id])
    assert {} == store.deaths("job", subjects, worker="4")


def test_deaths_of_a_trace_are_forgotten(store: Store, make: Make) -> None:
    """A trace that was set aside is told of until its records are pruned."""
    sent = make.fragment(at=make.now - HOUR)
    store.append([sent])
    for worker in "123":
        store.begin("trace", [sent.trace_id], worker=worker, alone=True)
    (stored,) = store.fragments([sent.trace_id])[sent.trace_id]
    aside = Assembly(trace_id=sent.trace_id, through=stored.position, turns=(), unread={PROCESS_DIED: 3}, failed=True)
    store.replace_turns([aside], now=make.now)
    assert (sent.trace_id,) == store.set_aside()
    prune(store, fragments=make.now)
    assert () == store.set_aside()
