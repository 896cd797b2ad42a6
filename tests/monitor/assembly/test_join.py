"""Fragments add up to a trace, whatever order they come in."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from monitor.assembly.join import join
from monitor.model.spans import Decoded, Trace

if TYPE_CHECKING:
    from tests.monitor.conftest import Make


def joined(make: Make, *parts: Decoded) -> Trace:
    """The trace of some fragments."""
    return join(make.trace_id, parts)


def test_a_span_delivered_twice(make: Make) -> None:
    """A span that was sent again is there once."""
    span = make.span(1, {"a": 1})
    assert (span,) == joined(make, Decoded(spans=(span,)), Decoded(spans=(span,))).spans


def test_the_fuller_copy_counts(make: Make) -> None:
    """Of a span that was exported before it ended and after, the later one says more and stays, in either order."""
    early, late = make.span(1, {"a": "x"}, lasts=1), make.span(1, {"a": "x", "b": "y"}, lasts=2)
    forwards = joined(make, Decoded(spans=(early,)), Decoded(spans=(late,)))
    backwards = joined(make, Decoded(spans=(late,)), Decoded(spans=(early,)))
    assert ((late,), (late,)) == (forwards.spans, backwards.spans)


def test_a_copy_with_whole_times_counts(make: Make) -> None:
    """A copy whose times had to be guessed gives way to one that has them."""
    guessed = make.span(1, {"a": "x", "b": "y"}, flags=frozenset({"time_repaired"}))
    whole = make.span(1, {"a": "x"})
    assert (whole,) == joined(make, Decoded(spans=(guessed,)), Decoded(spans=(whole,))).spans


def test_log_records_join_their_span(make: Make) -> None:
    """Log records become events of their span, between its own events, by time."""
    span = make.span(1, {}, events=[make.event("own", {}, at=2)])
    logs = (make.log(1, "later", "x", at=3), make.log(1, "sooner", "x", at=1))
    trace = joined(make, Decoded(logs=logs), Decoded(spans=(span,)))
    assert ["sooner", "own", "later"] == [event.name for event in trace.spans[0].events]


def test_a_log_record_delivered_twice(make: Make) -> None:
    """A record that was sent again is there once; the same words a moment later are another record."""
    first = make.log(1, "gen_ai.user.message", {"content": "yes"}, at=1)
    again = make.log(1, "gen_ai.user.message", {"content": "yes"}, at=2)
    trace = joined(make, Decoded(spans=(make.span(1, {}),), logs=(first, again)), Decoded(logs=(first,)))
    assert 2 == len(trace.spans[0].events)


def test_records_of_one_instant(make: Make) -> None:
    """Where a coarse clock gives all messages one time, they stand as a conversation goes."""
    names = ("gen_ai.choice", "gen_ai.user.message", "gen_ai.system.message")
    trace = joined(make, Decoded(spans=(make.span(1, {}),), logs=tuple(make.log(1, name, name) for name in names)))
    assert list(reversed(names)) == [event.name for event in trace.spans[0].events]


def test_a_conversation_of_one_instant(make: Make) -> None:
    """Where speakers come again, the delivery that holds all of them tells the order, whatever else was delivered."""
    dialogue = [("user", "Where?"), ("assistant", "There."), ("user", "And when?")]
    logs = tuple(make.log(1, f"gen_ai.{role}.message", {"content": text}) for role, text in dialogue)
    for deliveries in ([Decoded(logs=logs)], [Decoded(logs=logs[2:]), Decoded(logs=logs)]):
        trace = joined(make, Decoded(spans=(make.span(1, {}),)), *deliveries)
        assert [text for _, text in dialogue] == [
            event.body["content"] for event in trace.spans[0].events if isinstance(event.body, dict)
        ]


def test_a_record_without_its_span(make: Make) -> None:
    """A record whose span never came is kept apart."""
    assert 1 == len(joined(make, Decoded(logs=(make.log(9, "x", "y"),))).orphan_logs)


@given(st.randoms(use_true_random=False))
def test_any_delivery(make: Make, random: Random) -> None:
    """Order, grouping and repetition of deliveries make no difference."""
    spans = [make.span(n, {"n": n}, parent=n // 2 or None, at=n % 3) for n in range(1, 9)]
    spans += [make.span(n, {"n": n, "more": n}, at=n % 3) for n in (2, 5)]
    logs = [make.log(n, "gen_ai.user.message", {"content": str(at)}, at=at) for n in (1, 5, 77) for at in range(3)]
    expected = joined(make, Decoded(spans=tuple(spans), logs=tuple(logs)))
    deliveries = [Decoded(spans=(span,)) for span in spans] + [Decoded(logs=(log,)) for log in logs]
    deliveries += random.choices(deliveries, k=random.randint(0, 9))
    random.shuffle(deliveries)

    assert expected == joined(make, *deliveries)
