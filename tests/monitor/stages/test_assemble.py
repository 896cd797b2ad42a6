"""The tick that turns settled traces into turns, on a real database."""

from __future__ import annotations

import hashlib
import itertools
import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from monitor.assembly.rules import reading_rules
from monitor.assembly.trace_turns import read_trace
from monitor.dialects._configured import Fields, NamedDialect, places
from monitor.model.judgements import Sampling
from monitor.model.spans import Decoded, Fragment, Link, Role, Span, Step, Trace
from monitor.model.turns import Turn
from monitor.payloads.otlp.fragments import decode_otlp, split_otlp
from monitor.ports import Dialect
from monitor.runtime.isolation import PluginFailures, guarded_dialect
from monitor.settings.tree import AssembleSettings
from monitor.stages.assemble import reopen, tick
from monitor.store.sql_store import SqlStore

if TYPE_CHECKING:
    from tests.monitor.conftest import Make

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
SETTINGS = AssembleSettings()


class Feed:
    """A store to which spans are delivered as fragments; decoding looks them up again."""

    def __init__(self, store: SqlStore, dialects: tuple[Dialect, ...]) -> None:
        self.store = store
        self.dialects = dialects
        self._held: dict[bytes, Decoded] = {}
        self._numbers = itertools.count()

    def deliver(self, *spans: Span, at: datetime = NOW) -> None:
        """One delivery; all spans of a trace are one fragment."""
        for trace_id in dict.fromkeys(span.trace_id for span in spans):
            self.deliver_decoded(trace_id, Decoded(spans=tuple(s for s in spans if s.trace_id == trace_id)), at=at)

    def deliver_decoded(self, trace_id: str, decoded: Decoded, *, at: datetime = NOW) -> None:
        """One fragment that reads as `decoded`."""
        payload = str(next(self._numbers)).encode()
        self._held[payload] = decoded
        digest = hashlib.blake2b(payload, digest_size=16).digest()
        fragment = Fragment(trace_id=trace_id, signal="traces", payload=payload, count=3, received_at=at, digest=digest)
        self.store.append([fragment])

    def decode(self, fragment: Fragment) -> Decoded:
        """What was delivered under these bytes."""
        return self._held[fragment.payload]

    def tick(self, now: datetime = LATER, settings: AssembleSettings = SETTINGS, *, version: str = "1") -> int:
        """One tick of a program of that version."""
        rules = reading_rules(self.dialects, hash_user=lambda user: f"h{user}", version=version)
        return tick(self.store, settings, now=now, decode=self.decode, rules=rules, worker="1")

    def turns(self) -> tuple[Turn, ...]:
        """All turns there are."""
        return tuple(self.store.turns())


@pytest.fixture
def feed(store: SqlStore, dialects: tuple[Dialect, ...]) -> Feed:
    """An empty store."""
    return Feed(store, dialects)


def of_trace(span: Span, number: int) -> Span:
    """The span in another trace."""
    return replace(span, trace_id=f"{number:032x}")


def test_a_settled_trace(feed: Feed, make: Make) -> None:
    """A trace for which nothing has arrived for the quiet period becomes turns, once."""
    feed.deliver(make.chain(1, "Why?", "So."))
    counts = [feed.tick(NOW + timedelta(seconds=5)), feed.tick(), feed.tick()]
    assert ([0, 1, 0], ["So."]) == (counts, [turn.response for turn in feed.turns()])


def test_a_trace_that_keeps_growing(feed: Feed, make: Make) -> None:
    """A trace that never falls quiet is assembled at its greatest age all the same."""
    for minute in range(12):
        feed.deliver(make.call(minute + 1, [("user", "Why?")], "So.", parent=99), at=NOW + timedelta(minutes=minute))
    assert (0, 1) == (
        feed.tick(NOW + timedelta(minutes=9, seconds=1)),
        feed.tick(NOW + timedelta(minutes=11, seconds=5)),
    )


def test_a_late_root(feed: Feed, make: Make) -> None:
    """Late spans reopen the trace: the turn keeps its id and gets its answer."""
    feed.deliver(make.retrieval(2, "Why?", {"a": "x"}, parent=1))
    feed.tick()
    early = feed.turns()
    feed.deliver(make.chain(1, "Why?", "So."), make.call(3, [("user", "Why?")], "So.", parent=1), at=LATER)
    feed.tick(LATER + timedelta(minutes=5))
    assert ([(early[0].turn_id, "So.")], None) == ([(t.turn_id, t.response) for t in feed.turns()], early[0].response)


@dataclass(frozen=True)
class Faulty:
    """A dialect that claims every span and raises."""

    name: str = "faulty"
    priority: int = 0

    def claims(self, span: Span) -> bool:
        """Every span."""
        return bool(span)

    def role(self, span: Span) -> Role:
        """Each is a chain."""
        return Role.CHAIN if span else Role.NOISE

    def read(self, span: Span) -> Step:
        """A fault of ours."""
        raise KeyError(span.name)


def test_a_fault_is_tried_again_by_other_rules(feed: Feed, make: Make) -> None:
    """A trace that a fault ended is read again once the program reads otherwise, and only then."""
    feed.deliver(make.chain(1, "Why?", "So."))
    mended, feed.dialects = feed.dialects, (Faulty(), *feed.dialects)
    assert 0 == feed.tick()
    feed.dialects = mended
    assert (0, ()) == (feed.tick(), feed.turns())
    assert (1, 0) == (feed.tick(version="2"), feed.tick(version="3"))
    assert ["So."] == [turn.response for turn in feed.turns()]


def test_reopened_traces_are_read_again(feed: Feed, make: Make) -> None:
    """A dialect that was mended later reads stored spans; turns that come out as before stay as they are decided."""
    feed.deliver(
        of_trace(make.chain(1, "Why?", "So."), 1), of_trace(make.span(2, {"acme.q": "Who?", "acme.a": "I."}), 2)
    )
    feed.tick()
    (turn,) = feed.turns()
    feed.store.record_samplings(
        [Sampling(turn_id=turn.turn_id, content_hash=turn.content_hash(), jobs=(), unscored=(), decided_at=LATER)]
    )
    nowhere = places(())
    fields = Fields(
        query=places(["acme.q"]), response=places(["acme.a"]), documents=nowhere, session_id=nowhere, user_id=nowhere
    )
    feed.dialects = (NamedDialect(fields, feed.dialects), *feed.dialects)
    assert 0 == feed.tick()
    assert 2 == reopen(feed.store, [f"{number:032x}" for number in (1, 2, 3)], SETTINGS, now=LATER)
    feed.tick()
    assert {"Why?", "Who?"} == {turn.query for turn in feed.turns()}
    assert ["Who?"] == [turn.query for turn in feed.store.unsampled(9)]


class Stumbling:
    """A dialect that raises what a span holds, over spans of one name."""

    name = "faulty"
    priority = 0

    def claims(self, span: Span) -> bool:
        """The poisonous ones."""
        return span.name == "poison"

    def role(self, span: Span) -> Role:
        """A fault that quotes the span."""
        raise KeyError(span.attributes["secret"])

    def read(self, span: Span) -> Step:
        """A step, which nobody gets to see."""
        return Step(span=span, role=Role.LLM, dialect=self.name)


def test_more_traces_than_one_batch(feed: Feed, make: Make) -> None:
    """A tick works off all that is due, in transactions of the batch size."""
    feed.deliver(*(of_trace(make.chain(1, "Why?", "So."), n) for n in range(1, 8)))
    assert 7 == feed.tick(settings=AssembleSettings(batch=3))


def test_a_trace_that_cannot_be_assembled(
    feed: Feed, make: Make, dialects: tuple[Dialect, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of ours costs one trace: the others go on, it is logged without its text, and not tried for ever."""
    feed.dialects = (*dialects, Stumbling())
    feed.deliver(of_trace(make.chain(1, "Why?", "So."), 1))
    feed.deliver(of_trace(make.span(1, {"secret": "my password"}, name="poison"), 2))
    with caplog.at_level(logging.ERROR):
        counts = [feed.tick(), feed.tick()]

    assert ([1, 0], 0) == (counts, feed.store.backlog().fragments)
    assert ("KeyError" in caplog.text, "password" in caplog.text) == (True, False)


def test_a_dialect_of_another_distribution_that_fails(
    feed: Feed, make: Make, dialects: tuple[Dialect, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """It costs its own traces, whose reason names it, and is counted; the others go on, and the log quotes nothing."""
    failures = PluginFailures()
    feed.dialects = (*dialects, guarded_dialect(Stumbling(), failures, brought_by="acme_rag of acme-rag"))
    feed.deliver(of_trace(make.chain(1, "Why?", "So."), 1))
    for number in (2, 3):
        feed.deliver(of_trace(make.span(1, {"secret": "my password"}, name="poison"), number))
    with caplog.at_level(logging.ERROR):
        assert 1 == feed.tick()

    lost = [dict(trace.unread) for trace in feed.store.assembled(since=NOW, limit=9) if trace.unread]
    assert [{"dialect_failed:faulty": 3}] * 2 == lost
    assert [2] == [gauge.value for gauge in failures.counters()]
    assert (["ERROR"], False) == ([record.levelname for record in caplog.records], "password" in caplog.text)


def test_users_are_hashed(feed: Feed, make: Make) -> None:
    """The user's id is stored only as the key makes it."""
    span = make.chain(1, "Why?", "So.")
    feed.deliver(replace(span, attributes={**span.attributes, "user.id": "7"}))
    feed.tick()
    assert ["h7"] == [turn.user_id for turn in feed.turns()]


def test_imported_turns(feed: Feed, make: Make) -> None:
    """Turns that arrive as such pass through as they are, the same one once."""
    (turn,) = read_trace(_trace(make), reading_rules(feed.dialects, hash_user=str)).assembly.turns
    for _ in range(2):
        feed.deliver_decoded(make.trace_id, Decoded(turns=(turn,)))
    feed.tick()
    assert (turn,) == feed.turns()


def test_an_assembly(make: Make, dialects: tuple[Dialect, ...]) -> None:
    """One trace by itself reads as turns and as what could not be used."""
    made = read_trace(_trace(make), reading_rules(dialects, hash_user=str), through=7).assembly
    assert (["So."], {"transport": 1}, 7) == ([t.response for t in made.turns], made.unread, made.through)


def _trace(make: Make) -> Trace:
    spans = (make.span(9, {"http.route": "/chat"}), make.chain(1, "Why?", "So.", parent=9))
    return Trace(trace_id=make.trace_id, spans=spans)


# One model call that two instrumentations describe in two traces


def described_twice(make: Make, *, failed: bool = False) -> tuple[list[Span], list[Span]]:
    """A chain with its call, and the client's own description of that call in a trace of its own."""
    answer = None if failed else "So."
    chain = [make.chain(1, "Why?", answer, lasts=3, status=2 if failed else 0)]
    chain.append(make.call(2, [("user", "Why?")], answer, parent=1, at=1, status=2 if failed else 0))
    client = make.call(3, [("user", "Why?")], answer, at=1.1, lasts=0.8, status=2 if failed else 0)
    return [of_trace(span, 1) for span in chain], [replace(of_trace(client, 2), scope="openai")]


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize("order", ["together", "chain first", "client first"])
def test_a_call_described_in_two_traces(feed: Feed, make: Make, order: str, *, failed: bool) -> None:
    """The client's lone description of a call inside a chain is no turn, whichever trace settles first."""
    chain, client = described_twice(make, failed=failed)
    first, second = (client, chain) if order == "client first" else (chain, client)
    feed.deliver(*first)
    if order != "together":
        feed.tick()
    feed.deliver(*second, at=LATER)
    feed.tick(LATER + timedelta(minutes=5))
    assert [chain[0].span_id] == [turn.span_id for turn in feed.turns()]


def test_the_same_words_at_another_time(feed: Feed, make: Make) -> None:
    """A lone call outside the chain's time is a turn of its own, though it says the same."""
    chain, client = described_twice(make)
    feed.deliver(
        *chain, *(replace(span, start_ns=span.end_ns + 10**10, end_ns=span.end_ns + 10**10) for span in client)
    )
    feed.tick()
    assert 2 == len(feed.turns())


def test_the_same_call_of_one_instrumentation(feed: Feed, make: Make) -> None:
    """Equal answers at one time from one instrumentation are calls of several people."""
    feed.deliver(*(of_trace(make.call(1, [("user", "Fee?")], "5 EUR."), n) for n in range(1, 6)))
    feed.tick()
    assert 5 == len(feed.turns())


def test_two_lone_descriptions(feed: Feed, make: Make) -> None:
    """Of two lone descriptions of one call the wider one stays."""
    wide = of_trace(make.call(1, [("user", "Why?")], "So.", lasts=2), 1)
    narrow = replace(of_trace(make.call(2, [("user", "Why?")], "So.", at=0.5), 2), scope="openai")
    feed.deliver(narrow)
    feed.tick()
    feed.deliver(wide, at=LATER)
    feed.tick(LATER + timedelta(minutes=5))
    assert [wide.trace_id] == [turn.trace_id for turn in feed.turns()]


def _linked(make: Make) -> tuple[Span, Span, Span]:
    """A request, its step that sends a message, and the call of a worker that links to that step."""
    request = make.span(1, {"http.route": "/ask", "session.id": "s1", "user.id": "u1"})
    sends = make.span(2, {"messaging.system": "kafka"}, parent=1)
    call = make.call(3, [("user", "Why?")], "So.")
    link = Link(trace_id=sends.trace_id, span_id=sends.span_id)
    return request, sends, replace(call, trace_id="b" * 32, links=(link,))


def test_a_link_to_another_trace(feed: Feed, make: Make) -> None:
    """A worker's turn belongs to the session and user of the request that its span links to."""
    feed.deliver(*_linked(make))
    feed.tick()
    assert [("s1", "hu1", False)] == [
        (turn.session_id, turn.user_id, "link_not_followed" in turn.flags) for turn in feed.turns()
    ]


def test_a_link_to_what_never_came(feed: Feed, make: Make) -> None:
    """It is flagged; once the other trace is there, reading the turn's again finds it."""
    request, sends, call = _linked(make)
    feed.deliver(call)
    feed.tick()
    before = feed.turns()
    feed.deliver(request, sends, at=LATER)
    reopen(feed.store, [call.trace_id], SETTINGS, now=LATER)
    feed.tick(LATER + timedelta(minutes=5))
    assert [(None, True), ("s1", False)] == [
        (turn.session_id, "link_not_followed" in turn.flags) for turn in (*before, *feed.turns())
    ]


def test_a_link_to_what_comes_later(feed: Feed, make: Make) -> None:
    """Once the trace that a turn links to is read, the turn is read again, and has its session and user."""
    request, sends, call = _linked(make)
    feed.deliver(call)
    feed.tick()
    assert [(None, True)] == [(turn.session_id, "link_not_followed" in turn.flags) for turn in feed.turns()]
    feed.deliver(request, at=LATER)
    feed.tick(LATER + timedelta(minutes=5))
    feed.tick(LATER + timedelta(minutes=10))
    assert [(None, True)] == [(turn.session_id, "link_not_followed" in turn.flags) for turn in feed.turns()]
    feed.deliver(sends, at=LATER + timedelta(minutes=11))
    feed.tick(LATER + timedelta(minutes=15))
    feed.tick(LATER + timedelta(minutes=20))
    assert [("s1", "hu1", False)] == [
        (turn.session_id, turn.user_id, "link_not_followed" in turn.flags) for turn in feed.turns()
    ]


def test_links_to_each_other(feed: Feed, make: Make) -> None:
    """Two traces that link to what is missing in the other do not have each other read without end."""
    one, other = make.call(1, [("user", "Why?")], "So."), make.call(2, [("user", "When?")], "Now.", at=100)
    one = replace(one, links=(Link(trace_id="b" * 32, span_id="9" * 16),))
    other = replace(other, trace_id="b" * 32, links=(Link(trace_id=one.trace_id, span_id="9" * 16),))
    feed.deliver(one)
    feed.tick()
    feed.deliver(other, at=LATER)
    at = LATER
    for _ in range(4):
        at += timedelta(minutes=5)
        feed.tick(at)
    assert () == feed.store.due(quiet_since=at + timedelta(days=1), open_since=at, limit=9)
    assert [True, True] == ["link_not_followed" in turn.flags for turn in feed.turns()]


def test_a_link_to_a_trace_that_is_not_kept(feed: Feed, make: Make) -> None:
    """A trace whose spans were pruned waits for nothing."""
    request, sends, call = _linked(make)
    feed.deliver(call)
    feed.tick()
    feed.store.kept_text.prune(text_before=NOW, fragments_before=LATER, limit=100)
    feed.deliver(request, sends, at=LATER)
    for minutes in (5, 10):
        feed.tick(LATER + timedelta(minutes=minutes))
    assert [(None, True)] == [(turn.session_id, "link_not_followed" in turn.flags) for turn in feed.turns()]


def test_a_link_of_a_turn_that_says_all(feed: Feed, make: Make) -> None:
    """Its own session and user count, and that the other trace is missing is no trouble."""
    *_, call = _linked(make)
    feed.deliver(replace(call, attributes={**call.attributes, "session.id": "own", "user.id": "own"}))
    feed.tick()
    assert [("own", False)] == [(turn.session_id, "link_not_followed" in turn.flags) for turn in feed.turns()]


def test_a_recorded_link(feed: Feed, shared: Path) -> None:
    """A job that a web service queued has the session and user of its request."""
    body = (shared / "cases" / "round2" / "payloads" / "split-over-two-traces.traces.json").read_bytes()
    feed.store.append(split_otlp(body, "traces", received_at=NOW, encoding="json").fragments)
    rules = reading_rules(feed.dialects, hash_user=lambda user: f"h{user}")
    tick(feed.store, SETTINGS, now=LATER, decode=decode_otlp, rules=rules, worker="1")
    assert [("s1", "hu1")] == [(turn.session_id, turn.user_id) for turn in feed.turns()]
