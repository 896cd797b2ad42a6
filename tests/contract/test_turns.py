"""`TurnStore`: turns, and the text that belongs to them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from sqlalchemy.exc import StatementError

from monitor.model.judgements import Reason
from monitor.model.spans import Assembly
from monitor.model.turns import Citation, Message
from monitor.stores import Store

if TYPE_CHECKING:
    from tests.contract.conftest import Make

HOUR = timedelta(hours=1)
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def test_turn_reads_back(store: Store, make: Make) -> None:
    """A turn reads back equal, field by field."""
    turn = make.turn()
    make.assembled(store, turn)
    assert turn == store.turn(turn.turn_id)


@pytest.mark.parametrize("citations", [None, ()])
def test_no_citations(store: Store, make: Make, citations: tuple[()] | None) -> None:
    """Retrieval that found nothing stays different from retrieval that was never seen."""
    turn = replace(make.turn(), citations=citations, history=(), retrieval_queries=(), response=None, streaming=None)
    make.assembled(store, turn)
    assert turn == store.turn(turn.turn_id)


def test_unknown_turn(store: Store) -> None:
    """An unknown turn is None."""
    assert store.turn("0" * 32) is None


def test_another_zone(store: Store, make: Make) -> None:
    """An instant given in any zone reads back as the same instant, aware, in UTC."""
    there = datetime(2026, 3, 1, 13, 30, tzinfo=timezone(timedelta(hours=-8)))
    turn = make.turn(started_at=there)
    make.assembled(store, turn)
    read = store.turn(turn.turn_id)
    assert (read.started_at.isoformat(), read.started_at) == ("2026-03-01T21:30:00+00:00", there)
    assert [turn.turn_id] == [t.turn_id for t in store.turns(since=there, until=there + timedelta(microseconds=1))]


def test_naive_instant(store: Store, make: Make) -> None:
    """A naive datetime is refused instead of guessed at, and nothing is written."""
    turn = replace(make.turn(), started_at=datetime(2026, 3, 1, 13, 30))  # noqa: DTZ001 -- the point
    with pytest.raises((StatementError, ValueError, TypeError), match="naive"):
        make.assembled(store, turn)
    assert list(store.turns()) == []


def test_nul_and_surrogates(store: Store, make: Make) -> None:
    """NUL and lone surrogates in any text are replaced, and its neighbours are written unharmed."""
    odd, repaired = "a\x00b\ud800c", "a\ufffdb\ufffdc"
    turn = replace(
        make.turn(),
        query=odd,
        response=odd,
        ground_truth=odd,
        error=odd,
        model=odd,
        session_id=odd,
        history=(Message(role=odd, content=odd),),
        retrieval_queries=(odd,),
        citations=(Citation(id=odd, title=odd, content=odd, source=odd),),
        facets={odd: odd},
        flags=frozenset({odd}),
    )
    neighbour = make.turn()
    make.assembled(store, turn, neighbour)
    expected = replace(
        turn,
        query=repaired,
        response=repaired,
        ground_truth=repaired,
        error=repaired,
        model=repaired,
        session_id=repaired,
        history=(Message(role=repaired, content=repaired),),
        retrieval_queries=(repaired,),
        citations=(Citation(id=repaired, title=repaired, content=repaired, source=repaired),),
        facets={repaired: repaired},
        flags=frozenset({repaired}),
    )
    assert expected == store.turn(turn.turn_id)
    assert neighbour == store.turn(neighbour.turn_id)


def test_repaired_text_is_sampled(store: Store, make: Make) -> None:
    """The hash of a turn whose text was repaired is that of the turn as it reads back, so its sampling holds."""
    turn = replace(make.turn(), query="a\x00b")
    make.assembled(store, turn)
    (read,) = store.unsampled(10)
    store.record_samplings([make.sampling(read, make.job(read))])
    assert store.unsampled(10) == ()
    assert len(store.claim(now=make.now, lease=HOUR, limit=10)) == 1


def test_odd_numbers(store: Store, make: Make) -> None:
    """NaN and numbers no database holds are kept as far as they make sense, and never lose the turn."""
    odd = Citation(content="c", score=float("nan"), rank=10**30)
    turn = replace(make.turn(), input_tokens=10**30, citations=(odd,))
    make.assembled(store, turn)
    read = store.turn(turn.turn_id)
    assert (10**12, None, 10**12) == (read.input_tokens, read.citations[0].score, read.citations[0].rank)


def test_long_names(store: Store, make: Make) -> None:
    """A service name longer than an index takes is cut, and its turns are found under the long name too."""
    turn = make.turn(app="x" * 5000)
    make.assembled(store, turn)
    stored = store.turn(turn.turn_id)
    assert stored.app.startswith("x" * 183)
    assert len(stored.app) == 200
    assert {"app": stored.app} == dict(stored.sent_names)
    assert "name_limit" in stored.flags
    assert len(list(store.turns(app="x" * 5000))) == 1
    assert len(store.changed_windows(10)) == 1


def test_big_integers(store: Store, make: Make) -> None:
    """Counts beyond 32 bits are kept."""
    turn = replace(make.turn(), input_tokens=4_500_000_000, output_tokens=2**31)
    make.assembled(store, turn)
    assert turn == store.turn(turn.turn_id)


def test_turns_in_order(store: Store, make: Make) -> None:
    """Turns come oldest first; `since` is inclusive, `until` exclusive, `app` and `limit` narrow them down."""
    turns = [make.turn(started_at=make.now + n * HOUR, app="shop" if n % 2 else "bank") for n in range(6)]
    make.assembled(store, *reversed(turns))
    assert turns == list(store.turns())
    assert turns[1:4] == list(store.turns(since=make.now + HOUR, until=make.now + 4 * HOUR))
    assert turns[1::2] == list(store.turns(app="shop"))
    assert turns[:2] == list(store.turns(limit=2))
    assert list(store.turns(limit=0)) == []


def test_more_turns_than_a_page(store: Store, make: Make) -> None:
    """Turns of one instant are each yielded once, over as many pages as it takes."""
    turns = [make.turn() for _ in range(450)]
    make.assembled(store, *turns)
    found = [turn.turn_id for turn in store.turns()]
    assert sorted(turn.turn_id for turn in turns) == found
    assert found[:401] == [turn.turn_id for turn in store.turns(limit=401)]


def test_replaced_twice(store: Store, make: Make) -> None:
    """The same assembly a second time changes nothing."""
    turn = make.turn()
    (job,) = make.sampled(store, turn)
    make.assembled(store, turn)
    assert turn == store.turn(turn.turn_id)
    assert (job,) == store.sampling(turn.turn_id).jobs
    assert store.unsampled(10) == ()


def test_unchanged_content(store: Store, make: Make) -> None:
    """A turn that a judge would see alike keeps its sampling, jobs and outcomes; its other fields are renewed."""
    turn = make.turn()
    (job,) = make.sampled(store, turn)
    store.finish([make.verdict(job)])
    before = store.outcomes(turn.turn_id)
    renewed = replace(turn, output_tokens=99, ended_at=turn.ended_at + HOUR)
    make.assembled(store, renewed)
    assert renewed == store.turn(turn.turn_id)
    assert before == store.outcomes(turn.turn_id)
    assert store.sampling(turn.turn_id).proxy == 0.25


def test_changed_content(store: Store, make: Make) -> None:
    """A turn whose content changed loses its sampling, jobs and outcomes and is sampled anew."""
    judged, waiting = make.turn(), make.turn()
    job, _ = make.sampled(store, judged, waiting)
    store.finish([make.verdict(job)])
    changed = [replace(judged, response="It costs 6 €."), replace(waiting, response="It costs 6 €.")]
    make.assembled(store, *changed)
    assert store.outcomes(judged.turn_id) == ()
    assert store.sampling(judged.turn_id) is None
    assert store.claim(now=make.now, lease=HOUR, limit=10) == ()
    assert sorted(changed, key=lambda t: t.turn_id) == list(store.unsampled(10))


def test_gone_turn(store: Store, make: Make) -> None:
    """A turn that its trace no longer yields is deleted with all that belongs to it; its siblings stay."""
    trace_id = make.trace_id()
    stays, goes = make.turn(trace_id, root="a"), make.turn(trace_id, root="b")
    _, job = make.sampled(store, stays, goes)
    store.finish([make.verdict(job)])
    make.assembled(store, stays)
    assert [stays] == list(store.turns())
    assert store.turn(goes.turn_id) is None
    assert store.outcomes(goes.turn_id) == ()


def test_stale_assembly(store: Store, make: Make) -> None:
    """An assembly that read less of the trace than the stored one is dropped."""
    trace_id = make.trace_id()
    store.append([make.fragment(trace_id), make.fragment(trace_id)])
    first, second = store.fragments([trace_id])[trace_id]
    whole, part = make.turn(trace_id), replace(make.turn(trace_id), response=None)
    store.replace_turns([Assembly(trace_id=trace_id, through=second.position, turns=(whole,))], now=make.now)
    store.replace_turns([Assembly(trace_id=trace_id, through=first.position, turns=(part,))], now=make.now)
    assert [whole] == list(store.turns())


def test_one_trace_twice_in_a_call(store: Store, make: Make) -> None:
    """Of two assemblies of one trace in one call the one that read more is kept."""
    trace_id = make.trace_id()
    whole, part = make.turn(trace_id), replace(make.turn(trace_id), response=None)
    store.replace_turns(
        [
            Assembly(trace_id=trace_id, through=2, turns=(whole, whole)),
            Assembly(trace_id=trace_id, through=1, turns=(part,)),
        ],
        now=make.now,
    )
    assert [whole] == list(store.turns())


def test_failed_replacement(store: Store, make: Make) -> None:
    """Either all assemblies of a call are kept or none."""
    good, bad = make.turn(), replace(make.turn(), ended_at=datetime(2026, 3, 1))  # noqa: DTZ001 -- the point
    with pytest.raises((StatementError, ValueError, TypeError)):
        make.assembled(store, good, bad)
    assert list(store.turns()) == []
    assert store.backlog().fragments == 2


def test_unsampled(store: Store, make: Make) -> None:
    """Turns without a decision come oldest first, with their text, and leave once decided about."""
    turns = [make.turn(started_at=make.now + n * HOUR) for n in range(3)]
    make.assembled(store, *reversed(turns))
    assert tuple(turns[:2]) == store.unsampled(2)
    store.record_samplings([make.sampling(turns[0])])
    assert tuple(turns[1:]) == store.unsampled(10)


def test_windows_of_turns(store: Store, make: Make) -> None:
    """Every window that turns came to, left or changed in is marked, once, oldest first."""
    turn = make.turn()
    make.assembled(store, turn, make.turn(), make.turn(app="bank"))
    early = turn.started_at - 3 * HOUR
    make.assembled(store, replace(turn, started_at=early, query="Moved"))
    assert [("shop", early), ("bank", make.now), ("shop", make.now)] == [
        (window.app, window.start) for window in store.changed_windows(10)
    ]
    assert len(store.changed_windows(1)) == 1


def test_turn_leaves_its_window(store: Store, make: Make) -> None:
    """The window that a turn has left is rolled up without it."""
    turn = make.turn(started_at=make.now - 3 * HOUR)
    make.assembled(store, turn)
    store.roll_up(store.changed_windows(10), rubrics=[make.rubric], length=HOUR)
    assert [1] == [rollup.sums.turns for rollup in store.rollups()]
    make.assembled(store, replace(turn, started_at=make.now))
    store.roll_up(store.changed_windows(10), rubrics=[make.rubric], length=HOUR)
    assert [make.now] == [rollup.start for rollup in store.rollups()]


def test_unmet_need_of_replaced_content(store: Store, make: Make) -> None:
    """What was unscored about replaced content goes with it."""
    turn = make.turn()
    make.assembled(store, turn)
    store.record_samplings([make.sampling(turn, unmet=(make.job(turn, probability=1.0),))])
    assert [Reason.NO_GROUND_TRUTH] == [outcome.reason for outcome in store.outcomes(turn.turn_id)]
    make.assembled(store, replace(turn, response="Another answer."))
    assert store.outcomes(turn.turn_id) == ()


def test_what_became_of_traces(store: Store, make: Make) -> None:
    """Traces that were assembled lately, the latest first, with what was not read of them; no more than asked for."""
    for minutes, unread in ((0, {"noise": 1}), (10, {}), (20, {"no_dialect": 2, "transport": 1})):
        fragment = make.fragment()
        store.append([fragment])
        assembly = Assembly(trace_id=fragment.trace_id, through=10**6, turns=(), unread=unread)
        store.replace_turns([assembly], now=make.now + timedelta(minutes=minutes))
    since = make.now + timedelta(minutes=10)
    latest, earlier = store.assembled(since=since, limit=5)
    assert ({"no_dialect": 2, "transport": 1}, 0, {}) == (latest.unread, latest.turns, earlier.unread)
    assert (make.now + timedelta(minutes=20), since) == (latest.assembled_at, earlier.assembled_at)
    assert (latest,) == store.assembled(since=since, limit=1)


def test_extents(store: Store, make: Make) -> None:
    """An app's turns of a time say when they were; single calls what was answered, and the others no text."""
    whole = make.turn(started_at=NOW)
    call = replace(make.turn(started_at=NOW + HOUR), flags=frozenset({"single_call", "truncated"}))
    early = make.turn(started_at=NOW - HOUR)
    make.assembled(store, whole, call, early, replace(make.turn(started_at=NOW), app="bot"))
    asked = {"since": NOW - 2 * HOUR, "until": NOW + 2 * HOUR}
    found = store.extents(whole.app, **asked, ended_since=whole.ended_at, single_calls=False)
    assert {(whole.trace_id, False, None), (call.trace_id, True, call.response)} == {
        (one.trace_id, one.single_call, one.response) for one in found
    }
    (only,) = store.extents(whole.app, **asked, ended_since=early.started_at, single_calls=True)
    assert (call.started_at, call.ended_at) == (only.started_at, only.ended_at)
    assert () == store.extents(whole.app, since=NOW, until=NOW, ended_since=NOW, single_calls=False)
