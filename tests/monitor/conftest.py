"""Spans as values, and the turns that all dialects together read from them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import pytest

from monitor import plugins
from monitor.assembly.join import join
from monitor.assembly.rules import ReadingRules, reading_rules
from monitor.assembly.trace_turns import read_trace
from monitor.model.spans import Assembly, Attributes, AttributeValue, Decoded, Event, LogRecord, Span
from monitor.model.turns import Turn
from monitor.ports import Dialect

TRACE = "0af7651916cd43dd8448eb211c80319c"
BEGAN = 1_772_366_400_000_000_000
SECOND = 1_000_000_000

Turns: TypeAlias = Callable[..., tuple[Turn, ...]]
Assemble: TypeAlias = Callable[..., Assembly]


class Make:
    """Spans of one trace; ids are made of small numbers, times are seconds after the trace began."""

    trace_id = TRACE

    @staticmethod
    def id(number: int) -> str:
        """The span id of a number."""
        return f"{number:016x}"

    def span(
        self,
        number: int,
        attributes: Attributes,
        *,
        parent: int | None = None,
        name: str = "step",
        at: float = 0.0,
        lasts: float = 1.0,
        status: int = 0,
        message: str = "",
        events: Sequence[Event] = (),
        resource: Attributes | None = None,
        scope: str = "app",
        flags: frozenset[str] = frozenset(),
        dropped: int = 0,
    ) -> Span:
        """One span; the resource is that of the app `shop`."""
        start = BEGAN + round(at * SECOND)
        return Span(
            trace_id=TRACE,
            span_id=self.id(number),
            parent_id=None if parent is None else self.id(parent),
            name=name,
            kind=1,
            start_ns=start,
            end_ns=start + round(lasts * SECOND),
            attributes=attributes,
            events=tuple(events),
            resource={"service.name": "shop"} if resource is None else resource,
            scope=scope,
            status={0: 0, 1: 1, 2: 2}[status],
            status_message=message,
            flags=flags,
            dropped_attributes=dropped,
        )

    def event(
        self, name: str, attributes: Attributes, *, at: float = 0.0, body: AttributeValue = None, log: bool = False
    ) -> Event:
        """One event."""
        return Event(name=name, time_ns=BEGAN + round(at * SECOND), attributes=attributes, body=body, is_log=log)

    def log(
        self, number: int, name: str, body: AttributeValue, *, at: float = 0.0, attributes: Attributes | None = None
    ) -> LogRecord:
        """One log record of span `number`."""
        return LogRecord(
            trace_id=TRACE,
            span_id=self.id(number) if number else "",
            event=self.event(name, attributes or {}, at=at, body=body, log=True),
            resource={"service.name": "shop"},
            scope="app",
        )

    def chain(
        self,
        number: int,
        asked: str | None,
        answered: str | None,
        *,
        parent: int | None = None,
        at: float = 0.0,
        lasts: float = 1.0,
        status: int = 0,
    ) -> Span:
        """An OpenInference chain with plain input and output."""
        attributes: dict[str, AttributeValue] = {"openinference.span.kind": "CHAIN"}
        if asked is not None:
            attributes["input.value"] = asked
        if answered is not None:
            attributes["output.value"] = answered
        return self.span(number, attributes, parent=parent, at=at, lasts=lasts, status=status)

    def call(
        self,
        number: int,
        messages: Sequence[tuple[str, str]],
        answered: str | None,
        *,
        parent: int | None = None,
        at: float = 0.0,
        lasts: float = 1.0,
        status: int = 0,
    ) -> Span:
        """An OpenInference model call: messages as (role, content)."""
        attributes: dict[str, AttributeValue] = {"openinference.span.kind": "LLM", "llm.model_name": "m"}
        for i, (role, content) in enumerate(messages):
            attributes[f"llm.input_messages.{i}.message.role"] = role
            attributes[f"llm.input_messages.{i}.message.content"] = content
        if answered is not None:
            attributes["llm.output_messages.0.message.role"] = "assistant"
            attributes["llm.output_messages.0.message.content"] = answered
        return self.span(number, attributes, parent=parent, at=at, lasts=lasts, status=status)

    def retrieval(
        self,
        number: int,
        searched: str | None,
        documents: Mapping[str, str],
        *,
        parent: int | None = None,
        at: float = 0.0,
        lasts: float = 1.0,
        status: int = 0,
    ) -> Span:
        """An OpenInference retriever: documents as id and content."""
        attributes: dict[str, AttributeValue] = {"openinference.span.kind": "RETRIEVER"}
        if searched is not None:
            attributes["input.value"] = searched
        for i, (identity, content) in enumerate(documents.items()):
            attributes[f"retrieval.documents.{i}.document.id"] = identity
            attributes[f"retrieval.documents.{i}.document.content"] = content
        return self.span(number, attributes, parent=parent, at=at, lasts=lasts, status=status)


@pytest.fixture(scope="session")
def make() -> Make:
    """Spans with telling defaults."""
    return Make()


@pytest.fixture(scope="session")
def dialects() -> tuple[Dialect, ...]:
    """All telemetry conventions that are shipped."""
    return tuple(plugins.load("dialects", kind, "test").DIALECT for kind in plugins.kinds("dialects"))


@pytest.fixture(scope="session")
def rules(dialects: tuple[Dialect, ...]) -> ReadingRules:
    """All of them, without a limit; user ids become `user:<id>`."""
    return reading_rules(dialects, hash_user=lambda user: f"user:{user}")


@pytest.fixture(scope="session")
def assemble(rules: ReadingRules) -> Assemble:
    """Read spans, and log records, as one trace."""

    def of(spans: Sequence[Span], logs: Sequence[LogRecord] = (), *, max_spans: int | None = None) -> Assembly:
        trace = join(TRACE, [Decoded(spans=tuple(spans), logs=tuple(logs))])
        return read_trace(trace, replace(rules, max_spans=max_spans)).assembly

    return of


@pytest.fixture(scope="session")
def turns(assemble: Assemble) -> Turns:
    """As `assemble`, the turns only."""

    def of(spans: Sequence[Span], logs: Sequence[LogRecord] = ()) -> tuple[Turn, ...]:
        return assemble(spans, logs).turns

    return of
