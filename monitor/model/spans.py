"""What arrives: fragments, spans and log records; and steps, the vocabulary dialects translate spans into.

Times of spans are UTC nanoseconds, whose precision `datetime` cannot hold; `instant` converts. Attribute values
hold user text: they may appear in the tables of spans and turns, in prompts and on a person's screen, never in
logs, errors or metric labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Literal, TypeAlias

from monitor.model.turns import Citation, Message, Turn

AttributeValue: TypeAlias = (
    "str | bool | int | float | bytes | Sequence[AttributeValue] | Mapping[str, AttributeValue] | None"
)
"""An OTLP AnyValue: scalars, arrays and maps, nested at will; None for an AnyValue without a value."""

Attributes: TypeAlias = Mapping[str, AttributeValue]

Signal: TypeAlias = Literal["traces", "logs", "turns"]
"""A fragment's payload: protobuf `TracesData`, protobuf `LogsData`, or one imported turn as a JSON object."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(nanoseconds: int) -> datetime:
    """Return the aware UTC instant, cut to microseconds, of Unix time in nanoseconds.

    >>> instant(1_700_000_000_123_456_789).isoformat()
    '2023-11-14T22:13:20.123456+00:00'
    """
    return EPOCH + timedelta(microseconds=nanoseconds // 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """The spans, log records or turn of one trace in one request, as the bytes that are made durable.

    `payload` holds only this trace, with its resource and scopes. It is cut out of the request without being
    decoded and read again when the trace settles. `digest` makes storing it twice harmless: the same bytes of the
    same trace are one row.
    """

    trace_id: str
    """32 lower-case hex characters."""
    signal: Signal
    payload: bytes
    count: int
    """Spans, log records or turns in `payload`."""
    received_at: datetime
    digest: bytes
    """16 bytes, `blake2b(payload)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFragment:
    """A fragment as read back; `position` grows with every fragment stored, over all traces."""

    position: int
    fragment: Fragment


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A span event, or a log record that was joined to its span; `body` is None for span events."""

    name: str
    time_ns: int
    attributes: Attributes
    body: AttributeValue = None
    is_log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A span that another one names as what set it off, usually of another trace."""

    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One finished operation. Times are UTC nanoseconds; `parent_id` is None at the root of its trace."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: int
    """OTLP SpanKind: 0 unspecified, 1 internal, 2 server, 3 client, 4 producer, 5 consumer."""
    start_ns: int
    end_ns: int
    attributes: Attributes
    events: tuple[Event, ...] = ()
    links: tuple[Link, ...] = ()
    resource: Attributes = field(default_factory=dict)
    scope: str = ""
    scope_version: str = ""
    status: Literal[0, 1, 2] = 0
    """0 unset, 1 ok, 2 error."""
    status_message: str = ""
    dropped_attributes: int = 0
    flags: frozenset[str] = frozenset()
    """What had to be repaired while reading: `time_repaired`, `text_repaired`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """A log record that carries a trace context; assembly joins it to its span as an `Event`."""

    trace_id: str
    span_id: str
    event: Event
    resource: Attributes
    scope: str = ""
    flags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All spans known of one trace, each once, ordered by start then span id, their log records joined."""

    trace_id: str
    spans: tuple[Span, ...]
    orphan_logs: tuple[LogRecord, ...] = ()
    """Log records whose span never came."""
    turns: tuple[Turn, ...] = ()
    """Turns that arrived as such, each once."""
    unread: Mapping[str, int] = field(default_factory=dict)
    """Records that could not be read, by reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """What one fragment's payload reads as; `unread` counts records that could not be read, by reason."""

    spans: tuple[Span, ...] = ()
    logs: tuple[LogRecord, ...] = ()
    turns: tuple[Turn, ...] = ()
    unread: Mapping[str, int] = field(default_factory=dict)


PROCESS_DIED = "process_died"
"""Why records are unread: processes died while their trace was being read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """What one settled trace became: its turns, and the records and spans that are in none, counted by reason."""

    trace_id: str
    through: int
    """The highest fragment position that was read; later fragments reopen the trace."""
    turns: tuple[Turn, ...]
    unread: Mapping[str, int] = field(default_factory=dict)
    rules: str = ""
    """Which version of the program read it, and with which dialects and settings."""
    failed: bool = False
    """A fault ended the reading: other rules may do better."""
    awaited: Mapping[str, int] = field(default_factory=dict)
    """Traces to which turns link without a span that has arrived, each with the highest fragment position that had."""


class Role(StrEnum):
    """What a span does in a turn, whatever convention describes it."""

    CHAIN = "chain"
    """May be the root of a turn: a chain, pipeline, workflow or decorated function."""
    AGENT = "agent"
    """As CHAIN, with tools."""
    LLM = "llm"
    RETRIEVAL = "retrieval"
    RERANK = "rerank"
    EMBEDDING = "embedding"
    TOOL = "tool"
    DB = "db"
    TRANSPORT = "transport"
    """HTTP and RPC: carries session, route and status only."""
    NOISE = "noise"
    EVALUATION = "evaluation"
    """Judging of other steps; what runs below it is nobody's turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One span in the shared vocabulary; `None` means "this span does not say". What wins is decided in assembly."""

    span: Span
    role: Role
    dialect: str
    query: str | None = None
    """What a person asked, free of prompt template and history, where the convention says so directly."""
    response: str | None = None
    """What a person was answered, likewise."""
    history: tuple[Message, ...] | None = None
    """Messages before the query, oldest first, where the convention says so directly."""
    messages: tuple[Message, ...] | None = None
    """All messages that went into a model call, oldest first; of a chain those of its calls whose speakers it tells."""
    output: str | None = None
    """The text that a model call produced; None or "" when it only called tools."""
    tool_calls: int = 0
    """Tool calls that the model asked for in this step."""
    documents: tuple[Citation, ...] | None = None
    """() when retrieval found nothing."""
    retrieval_query: str | None = None
    model: str | None = None
    request_model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    response_id: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    """As the app sent it; assembly hashes it."""
    error: str | None = None
    """A short class, never a message."""
    streaming: bool | None = None
    tool: str | None = None
    """Name of the tool that was called."""
    shapeless: str | None = None
    """Compact JSON of a chain's output in which no answer was found: the last resort for a response.

    Of tools and model calls the text that was returned, or that the prompt was filled with as context."""
    unsure: frozenset[str] = frozenset()
    """Of `query`, `history`, `response`: read from a repr, a cut text or a key that often holds something else.

    `speakers`: nothing says whose the messages are.
    """
    facets: Mapping[str, str] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
