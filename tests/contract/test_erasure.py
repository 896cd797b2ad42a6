"""Erasing traces takes their text and whose it was, keeps what was counted, and lets nothing of them come back."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from deadline import wait_until
from sqlalchemy import func, select

from monitor.model.judgements import Job, Reason, Unscored, Verdict
from monitor.model.spans import Assembly
from monitor.model.stored import Erased
from monitor.model.turns import Turn
from monitor.store.awaited_links import awaited_links

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.store.sql_store import SqlStore
    from monitor.stores import Store
    from tests.contract.conftest import Make

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def counted(store: Store, make: Make) -> list[tuple[int, int, int, int]]:
    """Turns, sampled, judged and defects of each window."""
    store.roll_up(store.changed_windows(99), rubrics=[make.rubric], length=HOUR)
    return [(s.turns, s.sampled, s.n, s.k) for s in (rollup.sums for rollup in store.rollups())]


@pytest.fixture
def judged(store: Store, make: Make) -> tuple[Turn, Turn, Job]:
    """A turn with a verdict, one that waits for its own, and the job that waits."""
    first, second = make.turn(), make.turn()
    done, waiting = make.sampled(store, first, second)
    store.finish([make.verdict(done)])
    return first, second, waiting


def test_text_goes_and_counts_stay(store: Store, make: Make, judged: tuple[Turn, Turn, Job]) -> None:
    """What users wrote and who they are is gone, another turn is as it was, and the numbers are the same."""
    first, second, waiting = judged
    other = make.turn()
    make.assembled(store, other)
    before = counted(store, make)
    erased = store.kept_text.erase([first.trace_id, second.trace_id])
    assert erased == Erased(traces=2, fragments=2, turns=2, exchanges=1, jobs=1)
    assert before == counted(store, make) == [(3, 2, 1, 1)]
    left = {turn.turn_id: turn for turn in store.turns()}
    assert left.pop(other.turn_id) == other
    assert [
        replace(
            turn,
            session_id=None,
            user_id=None,
            query=None,
            history=(),
            retrieval_queries=(),
            citations=None,
            response=None,
            ground_truth=None,
            relevant_ids=None,
        )
        for turn in sorted((first, second), key=lambda turn: turn.turn_id)
    ] == sorted(left.values(), key=lambda turn: turn.turn_id)
    (verdict,) = store.outcomes(first.turn_id)
    assert isinstance(verdict, Verdict)
    assert ("", "", True) == (verdict.exchange.prompt, verdict.exchange.reply, verdict.finding.defect)
    (expired,) = store.outcomes(second.turn_id)
    assert isinstance(expired, Unscored)
    assert (Reason.EXPIRED, "the turn's text was erased") == (expired.reason, expired.detail)
    assert {first.trace_id: (), second.trace_id: ()} == store.fragments([first.trace_id, second.trace_id])
    assert [other.turn_id] == [turn.turn_id for turn in store.turns(session_id="session 1")]
    assert ((), 1) == (store.claim(now=make.now + DAY, lease=HOUR, limit=9), store.backlog().turns)
    assert waiting.turn_id == second.turn_id


def test_erased_twice(store: Store, judged: tuple[Turn, Turn, Job]) -> None:
    """The second time there is nothing to remove."""
    first, _, _ = judged
    store.kept_text.erase([first.trace_id])
    assert Erased(traces=1) == store.kept_text.erase([first.trace_id])


def test_delivered_again(store: Store, make: Make) -> None:
    """What is sent again of an erased trace is refused, until text as old as that is not kept any more."""
    sent, other = make.fragment(), make.fragment()
    store.append([sent])
    assert Erased(traces=1, fragments=1) == store.kept_text.erase([sent.trace_id])
    assert 1 == store.append([sent, other, make.fragment(sent.trace_id)])
    assert [other.trace_id] == [trace.trace_id for trace in store.received(since=None, after="", limit=9)]
    store.kept_text.prune(text_before=store.now() - HOUR, fragments_before=make.now - DAY, limit=9)
    assert 0 == store.append([sent])
    store.kept_text.prune(text_before=store.now() + HOUR, fragments_before=make.now - DAY, limit=9)
    assert 1 == store.append([sent])


def test_links_of_an_erased_trace(store: SqlStore, make: Make) -> None:
    """Nobody waits for an erased trace any more, nor does it wait for another: its id is nowhere."""
    turn, other = make.turn(), make.turn()
    make.assembled(store, turn, other)
    fragments = store.fragments([turn.trace_id, other.trace_id])
    waiting = [
        Assembly(
            trace_id=one.trace_id,
            through=fragments[one.trace_id][-1].position,
            turns=(one,),
            awaited={two.trace_id: 10**9},
        )
        for one, two in ((turn, other), (other, turn))
    ]
    store.replace_turns(waiting, now=make.now)

    def rows() -> int:
        with store._database.reading("counting") as connection:  # noqa: SLF001 -- nothing tells of them
            return connection.execute(select(func.count()).select_from(awaited_links)).scalar_one()

    assert 2 == rows()
    store.kept_text.erase([turn.trace_id])
    assert 0 == rows()


def test_what_others_still_hold(store: Store, make: Make, judged: tuple[Turn, Turn, Job]) -> None:
    """A reader that had the spans, and a judge that had the turn, come too late: nothing of what they bring is kept."""
    first, second, waiting = judged
    trace_id = make.trace_id()
    store.append([make.fragment(trace_id)])
    (stored,) = store.fragments([trace_id])[trace_id]
    store.kept_text.erase([first.trace_id, second.trace_id, trace_id])
    late = [
        Assembly(trace_id=trace_id, through=stored.position, turns=(make.turn(trace_id),)),
        Assembly(trace_id=first.trace_id, through=99, turns=(first, make.turn(first.trace_id, root="late"))),
    ]
    store.replace_turns(late, now=make.now)
    store.finish([make.verdict(waiting)])
    store.record_samplings([make.sampling(second, make.job(second))])
    assert [None, None] == [turn.query for turn in store.turns()]
    assert [("", Reason.EXPIRED)] == [
        (outcome.exchange.prompt, outcome.reason)
        for outcome in store.outcomes(second.turn_id)
        if isinstance(outcome, Unscored)
    ]
    assert 0 == store.backlog().fragments


def test_traces_of_a_person(store: Store, make: Make) -> None:
    """They are found by what turns say, also when their text is gone, and by what stands in fragments."""
    theirs, others = make.turn(), replace(make.turn(), session_id="session 2")
    make.assembled(store, theirs, others)
    store.kept_text.prune(text_before=make.now + HOUR, fragments_before=make.now - HOUR, limit=9)
    find = store.kept_text.traces_of
    assert {theirs.trace_id} == find(session_id="session 1", user_id=None)
    assert frozenset() == find(session_id=None, user_id="session 1") == find(session_id=None, user_id=None)
    with_id = make.fragment(payload=b"\x00before \xff anna@example.org after")
    store.append([with_id, *(make.fragment() for _ in range(1500))])
    assert [with_id.trace_id] == list(store.kept_text.traces_with(b"anna@example.org"))
    assert [] == list(store.kept_text.traces_with(b"berta@example.org"))


class Others:
    """What goes on beside erasing, each in a thread of its own until `stop` is set."""

    def __init__(self, store: Store, make: Make, turns: Mapping[str, Turn], stop: threading.Event) -> None:
        self.store, self.make, self.turns, self.stop = store, make, turns, stop

    def send(self) -> None:
        """Store fragments of all traces."""
        while not self.stop.is_set():
            self.store.append([self.make.fragment(trace_id) for trace_id in self.turns])

    def read(self) -> None:
        """Assemble what is there, and decide that it is judged."""
        while not self.stop.is_set():
            stored = self.store.fragments(tuple(self.turns))
            found = [(self.turns[trace_id], some[-1].position) for trace_id, some in stored.items() if some]
            assemblies = [Assembly(trace_id=t.trace_id, through=through, turns=(t,)) for t, through in found]
            self.store.replace_turns(assemblies, now=self.make.now)
            self.store.record_samplings([self.make.sampling(t, self.make.job(t)) for t, _ in found])

    def judge(self) -> None:
        """Judge what waits."""
        while not self.stop.is_set():
            jobs = self.store.claim(now=self.make.now + DAY, lease=HOUR, limit=50)
            self.store.finish([self.make.verdict(job) for job in jobs])

    def prune(self) -> None:
        """Delete fragments."""
        while not self.stop.is_set():
            self.store.kept_text.prune(text_before=self.make.now - DAY, fragments_before=self.make.now + DAY, limit=20)


def test_beside_all_others(store: Store, make: Make) -> None:
    """While others store, read, judge and prune the same traces, erasing them fails nobody and leaves no text."""
    traces = [make.trace_id() for _ in range(60)]
    turns = {trace_id: make.turn(trace_id) for trace_id in traces}
    erased = threading.Event()
    others = Others(store, make, turns, erased)
    with ThreadPoolExecutor() as pool:
        at_work = [pool.submit(work) for work in (others.send, others.read, others.judge, others.prune)]
        try:
            wait_until(lambda: any(store.outcomes(turn.turn_id) for turn in turns.values()), "a verdict", seconds=60)
            for start in range(0, len(traces), 7):
                store.kept_text.erase(traces[start : start + 7])
        finally:
            erased.set()
        for other in at_work:
            other.result()
    assert {None} == {turn.query for turn in store.turns()}
    assert {""} == {o.exchange.prompt for turn in turns.values() for o in store.outcomes(turn.turn_id)}
    assert {()} == set(store.fragments(traces).values())
