"""Plug-ins of other distributions behind a guard: what they do wrong stays theirs, is counted, and quotes nobody."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, Self, cast

import pytest

from monitor.errors import ConfigError, Permanent, PluginFailed, Retryable
from monitor.extract.convention import Convention, Setup
from monitor.model.spans import Fragment, Role, Span, Step
from monitor.model.trends import Alert
from monitor.model.turns import Citation
from monitor.payloads.turn_records.fragments import turn_fragment
from monitor.ports import Channel
from monitor.runtime.isolation import (
    GuardedChannel,
    GuardedReports,
    GuardedSink,
    PluginFailures,
    guarded_dialect,
    started,
)

if TYPE_CHECKING:
    from tests.monitor.conftest import Make

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECRET = "what a user wrote"
BY = "acme_rag of acme-rag"
ALERT = cast("Alert", object())
"""Guards pass alerts on without a look at them."""


def total(failures: PluginFailures, kind: str, name: str) -> float:
    """How often a plug-in failed."""
    (gauge,) = [g for g in failures.counters() if g.labels == {"kind": kind, "name": name}]
    return gauge.value


class Acme:
    """A dialect that answers whatever it is told to."""

    name = "acme"
    priority = 5

    def __init__(self, *, answer: object = Role.LLM, **step: object) -> None:
        self._answer = answer
        self._step = step

    def claims(self, span: Span) -> bool:
        """Look for a key, and stumble over spans without any attribute."""
        return "acme" in next(iter(span.attributes))

    def role(self, span: Span) -> Role:  # noqa: ARG002 -- the dialect's signature
        """The role it was told."""
        return self._answer  # type: ignore[return-value]

    def read(self, span: Span) -> Step:
        """The step it was told."""
        return replace(Step(span=span, role=Role.LLM, dialect="acme"), **self._step)  # type: ignore[arg-type]


def test_dialect_that_works(make: Make) -> None:
    """A guarded dialect answers as it does without the guard, and its failures are known to be none."""
    failures = PluginFailures()
    step = {"query": "Why?", "documents": (Citation(id="1"),), "facets": {"k": "v"}, "flags": frozenset({"redacted"})}
    span, acme = make.span(1, {"acme": 1}), Acme(**step)
    guarded = guarded_dialect(acme, failures, brought_by=BY)
    assert (True, acme.role(span), acme.read(span)) == (guarded.claims(span), guarded.role(span), guarded.read(span))
    assert ("acme", 5, 0) == (guarded.name, guarded.priority, total(failures, "dialect", "acme"))


def test_convention_keeps_what_it_says_of_itself() -> None:
    """A dialect made as ours are stays one, with its set-up for the doctor."""
    acme, setup = Acme(), Setup(lines="pip install acme")
    convention = Convention(
        name="acme",
        priority=5,
        url="https://example.org",
        versions="1",
        setup=setup,
        claims=acme.claims,
        role=acme.role,
        read=acme.read,
    )
    assert (setup, "1") == (guarded_dialect(convention, PluginFailures(), brought_by=BY).setup, convention.versions)


def test_dialect_that_raises(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """Each failure is counted; the log names the place once, and nothing that the span holds."""
    failures = PluginFailures()
    guarded = guarded_dialect(Acme(), failures, brought_by=BY)
    span = make.span(1, {}, name=SECRET)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            with pytest.raises(PluginFailed, match=r"^dialect 'acme': claims raised StopIteration at .*\.py:\d+$"):
                guarded.claims(span)
    assert (3, 1) == (total(failures, "dialect", "acme"), len(caplog.records))
    assert "plug-in failed: dialect 'acme' (acme_rag of acme-rag): claims raised StopIteration at " in caplog.text
    assert SECRET not in caplog.text


def test_dialect_that_wants_the_process_to_end(make: Make) -> None:
    """SystemExit is a failure of the dialect like any other: it ended the tick, for the traces of all apps."""

    class Ending(Acme):
        """It ends."""

        def claims(self, span: Span) -> bool:
            """Want everything to end."""
            raise SystemExit(len(span.name))

    with pytest.raises(PluginFailed, match=r"claims raised SystemExit at "):
        guarded_dialect(Ending(), PluginFailures(), brought_by=BY).claims(make.span(1, {}))


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"query": 5}, "query: expected str or None, found int"),
        ({"input_tokens": True}, "input_tokens: expected int or None, found bool"),
        (
            {"documents": [Citation()]},
            "documents: expected tuple[monitor.model.turns.Citation, ...] or None, found list",
        ),
        ({"documents": (Citation(content=b"x"),)}, "documents: expected tuple[monitor.model.turns.Citation, ...] or "),
        ({"facets": {"k": 1}}, "facets: expected collections.abc.Mapping[str, str], found dict"),
        ({"flags": {"redacted"}}, "flags: expected frozenset[str], found set"),
        ({"role": "llm"}, "role: expected Role, found str"),
        ({"dialect": "other"}, "dialect: expected the dialect's name"),
    ],
)
def test_step_that_is_none(make: Make, wrong: dict[str, object], problem: str) -> None:
    """A step is looked at field by field, so that assembly never stumbles over what a dialect made of a span."""
    acme = Acme(**wrong)
    with pytest.raises(PluginFailed) as caught:
        guarded_dialect(acme, PluginFailures(), brought_by=BY).read(make.span(1, {"acme": 1}))
    assert str(caught.value).startswith(f"dialect 'acme': read returned a wrong {problem}")


def test_role_that_is_none(make: Make) -> None:
    """A role is one of `Role`."""
    with pytest.raises(PluginFailed, match="role returned a wrong type: expected a Role, found str"):
        guarded_dialect(Acme(answer="model"), PluginFailures(), brought_by=BY).role(make.span(1, {"acme": 1}))


class Nameless(Permanent):
    """An error whose author forgot `super().__init__`."""

    def __init__(self) -> None:
        Exception.__init__(self, SECRET)


@dataclass
class Room:
    """A channel that raises what it is told to."""

    error: BaseException | None = None

    async def send(self, alert: Alert) -> None:
        """Raise, or take the alert."""
        if self.error:
            raise self.error
        assert alert == ALERT

    async def check(self) -> None:
        """As `send`."""
        await self.send(ALERT)


def guarded_room(error: BaseException | None) -> tuple[Channel, PluginFailures]:
    """The channel `pager`, guarded."""
    failures = PluginFailures()
    failures.watch("channel", "pager", BY)
    return GuardedChannel(Room(error), "pager", failures), failures


@pytest.mark.parametrize(
    "error",
    [None, Retryable("busy"), Retryable("busy", retry_after=timedelta(seconds=5)), Permanent("no", reason="http_404")],
)
async def test_channel_that_keeps_its_promise(error: Exception | None) -> None:
    """What a channel may raise passes the guard, and is no failure of the plug-in."""
    channel, failures = guarded_room(error)
    caught: Exception | None = None
    try:
        await channel.send(ALERT)
    except (Retryable, Permanent) as raised:
        caught = raised
    assert (error, 0) == (caught, total(failures, "channel", "pager"))


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (KeyError(SECRET), "raised KeyError at "),
        (asyncio.CancelledError(SECRET), "raised CancelledError"),
        (Retryable("busy", retry_after=30), "raised a Retryable with a wrong retry_after: expected a timedelta or"),  # type: ignore[arg-type]
        (Permanent("no", reason=SECRET), "raised a Permanent with a wrong reason: expected a short word, lower case"),
        (Nameless(), "raised a Nameless with a wrong reason: expected a short word"),
    ],
)
@pytest.mark.parametrize("method", ["send", "check"])
async def test_channel_that_breaks_it(
    error: BaseException, problem: str, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Anything else is one failure of the channel by its name, without a word of what the error says."""
    channel, failures = guarded_room(error)
    with caplog.at_level(logging.ERROR), pytest.raises(PluginFailed) as caught:
        await (channel.send(ALERT) if method == "send" else channel.check())
    assert str(caught.value).startswith(f"channel 'pager': {method} {problem}")
    assert (1, 1) == (total(failures, "channel", "pager"), len(caplog.records))
    assert f"plug-in failed: channel 'pager' ({BY}): {method} " in caplog.text
    assert SECRET not in caplog.text + str(caught.value)


async def test_channel_whose_sender_is_cancelled() -> None:
    """Being cancelled is no failure of a channel: whoever stops us is obeyed."""

    class Waiting(Room):
        async def send(self, alert: Alert) -> None:  # noqa: ARG002 -- the channel's signature
            await asyncio.Event().wait()

    failures = PluginFailures()
    failures.watch("channel", "pager", BY)
    task = asyncio.create_task(GuardedChannel(Waiting(), "pager", failures).send(ALERT))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert 0 == total(failures, "channel", "pager")


class Kept:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.fragments: list[Fragment] = []

    async def put(self, fragments: Sequence[Fragment]) -> None:
        """Keep them."""
        self.fragments += fragments


FRAGMENT = turn_fragment(b'{"question": "q", "context": "c", "answer": "a"}', origin="t", app="shop", received_at=NOW)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"trace_id": "ABC"}, "trace_id: expected 32 lower-case hex characters"),
        ({"payload": "text"}, "payload: expected bytes, found str"),
        ({"signal": "spans"}, r"signal: expected typing.Literal\['traces', 'logs', 'turns'\], found str"),
        ({"received_at": NOW.replace(tzinfo=None)}, "received_at: expected an aware datetime"),
        ({"count": 0}, "expected a count from 1 and the payload's digest"),
        ({"digest": b"1" * 16}, "expected a count from 1 and the payload's digest"),
    ],
)
async def test_fragment_that_is_none(changed: Mapping[str, object], problem: str) -> None:
    """A collector's wrong fragment is refused before it shares a transaction with those of others."""
    kept = Kept()
    sink = GuardedSink(kept, "queue")
    await sink.put([FRAGMENT])
    with pytest.raises(PluginFailed, match=f"^collector 'queue': put a wrong fragment: {problem}"):
        await sink.put([FRAGMENT, replace(FRAGMENT, **changed)])  # type: ignore[arg-type]
    assert [FRAGMENT] == kept.fragments


@dataclass
class Numbers:
    """What a collector counts."""

    lag: object


class Source:
    """A collector that fails where it is told to."""

    def __init__(self, fails: Literal["start", "stop", "health", "stats", ""] = "") -> None:
        self.fails = fails
        self.is_running = False

    def _fail(self, where: str) -> None:
        if where == self.fails:
            raise LookupError(SECRET)

    async def __aenter__(self) -> Self:
        self._fail("start")
        self.is_running = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self.is_running = False
        self._fail("stop")

    def health(self) -> Mapping[str, str]:
        """Nothing wrong."""
        self._fail("health")
        return {"queue": "gone"}

    def stats(self) -> Numbers:
        """One number, or what is none."""
        return Numbers(lag={"a": "many"} if self.fails == "stats" else {"a": 3})


async def test_collector_that_does_not_start() -> None:
    """A collector that raises when it is started ends the start with a line that names it."""
    with pytest.raises(
        ConfigError, match=r"^collector 'queue' \(.* of acme-rag\): cannot start: LookupError at .*:\d+$"
    ):
        async with started("queue", Source("start"), foreign_queue()):
            raise AssertionError


def foreign_queue() -> PluginFailures:
    """Failures that know who brings the collector `queue`."""
    failures = PluginFailures()
    failures.watch("collector", "queue", BY)
    return failures


async def test_setting_that_a_collector_cannot_start_with() -> None:
    """What a collector of another distribution says of its settings names it; ours name themselves."""

    class Taken(Source):
        async def __aenter__(self) -> Self:
            raise ConfigError("found 7, which is taken", where="port")

    with pytest.raises(ConfigError, match=r"^collector 'queue' \(.* of acme-rag\): port: found 7, which is taken$"):
        async with started("queue", Taken(), foreign_queue()):
            raise AssertionError
    with pytest.raises(ConfigError, match=r"^port: found 7, which is taken$"):
        async with started("queue", Taken(), PluginFailures()):
            raise AssertionError


async def test_collector_that_does_not_stop(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever ends after it ends as ever, and the log names it."""
    with caplog.at_level(logging.ERROR):
        ended: list[str] = []

        @asynccontextmanager
        async def outer() -> AsyncIterator[None]:
            yield
            ended.append("outer")

        source = Source("stop")
        async with outer(), started("queue", source, foreign_queue()):
            assert source.is_running
        assert ["outer"] == ended
    assert "collector 'queue' (acme_rag of acme-rag) did not stop as it should: LookupError at " in caplog.text
    assert SECRET not in caplog.text


def test_what_a_collector_tells() -> None:
    """Health and numbers of a collector at work pass the guard."""
    reports = GuardedReports(Source(), "queue", PluginFailures())
    assert ({"queue": "gone"}, Numbers(lag={"a": 3})) == (reports.health(), reports.stats())


@pytest.mark.parametrize("fails", ["health", "stats"])
def test_what_a_collector_cannot_tell(fails: Literal["health", "stats"]) -> None:
    """A collector that cannot say how it is has a problem; readiness and metrics of all others are told as ever."""
    failures = PluginFailures()
    reports = GuardedReports(Source(fails), "queue", failures)
    told = (reports.health(), reports.stats())
    expected = {
        "health": ({"health": "the collector failed to say how it is; the log says why"}, Numbers({"a": 3})),
        "stats": ({"queue": "gone"}, None),
    }
    assert expected[fails] == told
    assert 1 == total(failures, "collector", "queue")


@pytest.mark.parametrize(
    ("method", "answer", "problem"),
    [
        ("health", "all is well", "health returned str; expected a mapping of problems to reasons"),
        ("health", None, "health returned NoneType; expected a mapping of problems to reasons"),
        ("stats", {"lag": 3}, "stats returned dict; expected a dataclass of counts"),
    ],
)
def test_reports_of_a_wrong_type(caplog: pytest.LogCaptureFixture, method: str, answer: object, problem: str) -> None:
    """The log says what was returned and what is expected, and not a line of ours."""

    class Odd(Source):
        def health(self) -> Mapping[str, str]:
            return cast("Mapping[str, str]", answer) if method == "health" else super().health()

        def stats(self) -> Numbers:
            return cast("Numbers", answer) if method == "stats" else super().stats()

    reports = GuardedReports(Odd(), "queue", PluginFailures())
    reports.health()
    reports.stats()
    assert f"plug-in failed: collector 'queue': {problem}; counted in" in caplog.text
