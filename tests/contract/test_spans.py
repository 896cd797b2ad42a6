"""`SpanStore`: what was received, as received."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from monitor.model.spans import Assembly
from monitor.stores import Store

if TYPE_CHECKING:
    from tests.contract.conftest import Make

SECOND = timedelta(seconds=1)


def test_fragments_read_back(store: Store, make: Make) -> None:
    """A fragment reads back as it was given, bytes and all."""
    fragment = make.fragment(payload=bytes(range(256)))
    assert store.append([fragment]) == 1
    (stored,) = store.fragments([fragment.trace_id])[fragment.trace_id]
    assert fragment == stored.fragment


def test_log_fragments_read_back(store: Store, make: Make) -> None:
    """Each signal keeps its name."""
    fragments = [replace(make.fragment("a" * 32), signal=signal) for signal in ("traces", "logs", "turns")]
    store.append(fragments)
    assert fragments == [stored.fragment for stored in store.fragments(["a" * 32])["a" * 32]]


def test_resent(store: Store, make: Make) -> None:
    """A fragment delivered twice is stored once, whether in one request or in two."""
    first, second = make.fragment(), make.fragment()
    assert store.append([first, first]) == 1
    assert store.append([first, second]) == 1
    assert len(store.fragments([first.trace_id])[first.trace_id]) == 1


def test_same_bytes_of_two_traces(store: Store, make: Make) -> None:
    """Only the same bytes of the same trace are the same fragment."""
    assert store.append([make.fragment(payload=b"same"), make.fragment(payload=b"same")]) == 2


def test_nothing_appended(store: Store) -> None:
    """No fragments are no work and no error."""
    assert store.append([]) == 0


def test_positions_grow(store: Store, make: Make) -> None:
    """Positions grow over all traces in order of arrival, and are not used again once rows are pruned."""
    traces = [make.trace_id() for _ in range(3)]
    for trace_id in traces * 2:
        store.append([make.fragment(trace_id)])
    stored = store.fragments(traces)
    positions = [stored[trace_id][place].position for place in (0, 1) for trace_id in traces]
    assert sorted(set(positions)) == positions
    store.replace_turns([Assembly(trace_id=t, through=positions[-1], turns=()) for t in traces], now=make.now)
    assert store.kept_text.prune(text_before=make.now, fragments_before=make.now + SECOND, limit=100) == 6
    late = make.fragment(traces[0])
    store.append([late])
    assert store.fragments(traces)[traces[0]][0].position > positions[-1]


def test_unknown_traces(store: Store) -> None:
    """A trace without fragments is an empty tuple, not a missing key."""
    assert store.fragments(["f" * 32]) == {"f" * 32: ()}


def test_many_traces(store: Store, make: Make) -> None:
    """More traces than a statement has room for are read all the same."""
    fragments = [make.fragment() for _ in range(1200)]
    store.append(fragments)
    found = store.fragments([fragment.trace_id for fragment in fragments])
    assert len(fragments) == sum(len(stored) for stored in found.values())


def test_due_when_quiet(store: Store, make: Make) -> None:
    """A trace is due once its newest fragment is older than `quiet_since`, and not before."""
    trace_id = make.trace_id()
    store.append([make.fragment(trace_id), make.fragment(trace_id, at=make.now + 5 * SECOND)])
    long_ago = make.now - timedelta(hours=1)

    def due(seconds: int) -> tuple[str, ...]:
        return store.due(quiet_since=make.now + seconds * SECOND, open_since=long_ago, limit=10)

    assert (due(1), due(5), due(6)) == ((), (), (trace_id,))


def test_due_when_old(store: Store, make: Make) -> None:
    """A trace that never falls quiet is due once its oldest waiting fragment is older than `open_since`."""
    trace_id = make.trace_id()
    store.append([make.fragment(trace_id), make.fragment(trace_id, at=make.now + 600 * SECOND)])
    quiet_since = make.now + 595 * SECOND
    assert store.due(quiet_since=quiet_since, open_since=make.now, limit=10) == ()
    assert store.due(quiet_since=quiet_since, open_since=make.now + SECOND, limit=10) == (trace_id,)


def test_due_although_it_arrived_by_a_clock_that_was_ahead(store: Store, make: Make) -> None:
    """A trace whose fragments are dated tomorrow does not wait for it, unless something has just arrived."""
    ahead, mixed = make.trace_id(), make.trace_id()
    tomorrow = make.now + timedelta(days=1)
    store.append([make.fragment(ahead, at=tomorrow), make.fragment(mixed, at=tomorrow), make.fragment(mixed)])

    def due(seconds: int) -> tuple[str, ...]:
        now = make.now + seconds * SECOND
        long_ago = now - timedelta(hours=1)
        return store.due(quiet_since=now - 10 * SECOND, open_since=long_ago, limit=10, ahead=now + 60 * SECOND)

    assert ((ahead,), (ahead, mixed)) == (due(5), due(15))


def test_due_in_order(store: Store, make: Make) -> None:
    """The longest waiting trace comes first, once however many fragments it has, and `limit` counts traces."""
    traces = [make.trace_id() for _ in range(4)]
    for _ in range(3):
        store.append([make.fragment(trace_id) for trace_id in traces])
    later = make.now + SECOND
    assert store.due(quiet_since=later, open_since=later, limit=3) == tuple(traces[:3])


def test_late_fragment(store: Store, make: Make) -> None:
    """An assembled trace is not due until another fragment of it arrives; then it is read whole."""
    trace_id, later = make.trace_id(), make.now + SECOND
    store.append([make.fragment(trace_id)])
    (first,) = store.fragments([trace_id])[trace_id]
    store.replace_turns([Assembly(trace_id=trace_id, through=first.position, turns=())], now=make.now)
    assert store.due(quiet_since=later, open_since=later, limit=10) == ()
    store.append([make.fragment(trace_id)])
    assert store.due(quiet_since=later, open_since=later, limit=10) == (trace_id,)
    assert len(store.fragments([trace_id])[trace_id]) == 2


def test_fragment_during_assembly(store: Store, make: Make) -> None:
    """What arrived after the fragments were read keeps the trace due."""
    trace_id, later = make.trace_id(), make.now + SECOND
    store.append([make.fragment(trace_id)])
    (read,) = store.fragments([trace_id])[trace_id]
    store.append([make.fragment(trace_id)])
    store.replace_turns([Assembly(trace_id=trace_id, through=read.position, turns=())], now=make.now)
    assert store.due(quiet_since=later, open_since=later, limit=10) == (trace_id,)
    assert store.backlog().fragments == 1


def test_received_traces(store: Store, make: Make) -> None:
    """Traces are listed by id, each once, from a place and a time of arrival on, with the apps of their turns."""
    turn = make.turn(app="shop")
    traces = sorted([turn.trace_id, make.trace_id(), make.trace_id()])
    for trace_id in traces * 2:
        store.append([make.fragment(trace_id)])
    store.append([make.fragment(make.trace_id(), at=make.now - SECOND)])
    make.assembled(store, turn)
    listed = store.received(since=make.now, after="", limit=2)
    listed += store.received(since=make.now, after=listed[-1].trace_id, limit=2)
    assert traces == [trace.trace_id for trace in listed]
    assert [frozenset({"shop"} if trace_id == turn.trace_id else ()) for trace_id in traces] == [t.apps for t in listed]
    assert 4 == len(store.received(since=None, after="", limit=9))


def test_reopened(store: Store, make: Make) -> None:
    """A trace that is reopened is due as of the given time, with all it has; one that was pruned in part is not."""
    whole, part, unknown = make.trace_id(), make.trace_id(), make.trace_id()
    store.append([make.fragment(part, at=make.now - 2 * SECOND), make.fragment(whole), make.fragment(whole)])
    through = 9 + max(stored.position for stored in store.fragments([whole])[whole])
    store.replace_turns([Assembly(trace_id=t, through=through, turns=()) for t in (whole, part)], now=make.now)
    make.assembled(store, replace(make.turn(), trace_id=part))
    store.append([make.fragment(part)])
    store.kept_text.prune(text_before=make.now - 9 * SECOND, fragments_before=make.now - SECOND, limit=1)
    waiting = store.due(quiet_since=make.now + SECOND, open_since=make.now, limit=9)
    assert 1 == store.reopen([whole, part, unknown], as_of=make.now)
    assert 1 == store.reopen([whole], as_of=make.now)
    assert () == store.due(quiet_since=make.now, open_since=make.now - SECOND, limit=9)
    assert {*waiting, whole} == set(store.due(quiet_since=make.now + SECOND, open_since=make.now, limit=9))
    assert whole not in waiting


def test_failed_traces(store: Store, make: Make) -> None:
    """A trace whose reading failed is listed for other rules than those, until it waits, succeeds or is gone."""
    failed, other = make.trace_id(), make.trace_id()
    store.append([make.fragment(failed), make.fragment(other)])
    through = max(stored.position for stored in store.fragments([other])[other])
    now = make.now
    store.replace_turns([Assembly(trace_id=failed, through=through, turns=(), rules="1", failed=True)], now=now)
    store.replace_turns([Assembly(trace_id=other, through=through, turns=(), rules="1")], now=now)
    assert ((), (failed,)) == (store.failed_traces(rules="1", limit=9), store.failed_traces(rules="2", limit=9))
    store.reopen([failed], as_of=now)
    assert () == store.failed_traces(rules="2", limit=9)
    store.replace_turns([Assembly(trace_id=failed, through=through, turns=(), rules="2")], now=now)
    assert () == store.failed_traces(rules="3", limit=9)
