"""Turns that arrive as JSON objects, one a line or one a message: read strictly once, then kept as they came.

Four shapes, told apart by their keys:
- `{"question", "context", "answer", "ground_truth"?}`, or `query`/`response` (Azure AI evaluation, QA line)
- `{"messages": [{"role", "content", "context": {"citations": [{"id", "title", "content"}]}}]}` (its conversation line):
  every question that was answered is a turn, with the messages before it as history
- `{"userText", "dataList", "responseContent"}` (Spring AI `EvaluationRequest`)
- what `rag-monitor turns --format jsonl` prints; such a turn keeps its ids
All may carry `ground_truth`, `relevant_ids` (of the documents that should be found; [] for none), `app`, `environment`,
`release`, `session_id`, `user_id`, `model`, `started_at` (RFC 3339, or Unix time) and `turn_id`, which names the turn
wherever it is read; without it, the place it is read from does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import orjson

from monitor.errors import MalformedPayload
from monitor.extract.failure import class_name
from monitor.model.spans import Decoded, Fragment
from monitor.model.turns import Citation, Message, Turn, turn_id
from monitor.payloads.otlp.times import AHEAD, EARLIEST, TIME_REPAIRED
from monitor.payloads.turn_records.conversation import Exchange, exchanges
from monitor.payloads.turn_records.readable_json import readable
from monitor.payloads.turn_records.record import Conversation, Line, citations_of, parse

_STEP = timedelta(milliseconds=1)
_LARGEST_COUNT = 2**31 - 1
_TRACE_ID, _SPAN_ID = re.compile(r"[0-9a-f]{32}"), re.compile(r"[0-9a-f]{16}")

_Record: TypeAlias = Line | Conversation


def turn_fragment(record: bytes, *, origin: str, app: str, received_at: datetime) -> Fragment:
    """Return the record as a durable fragment; its `received_at` is the turn's own time when the record has one.

    Args:
        record: one JSON object.
        origin: where it came from, such as `chats.jsonl:17`; equal records of other origins are other turns, unless
            they say by a `turn_id` that they are the same.
        app: the app's name where the record has none.
        received_at: aware UTC.

    Raises:
        MalformedPayload: not JSON, or none of the shapes; the message names keys, never values.
    """
    text = readable(record)
    shape = parse(text.tree)
    count = len(exchanges(shape)) if isinstance(shape, Conversation) else 1
    if not count:
        raise MalformedPayload("messages: no question that was answered, so no turn", reason="no_turn")
    is_named = shape.turn_id is not None
    envelope = {"origin": "" if is_named else origin, "app": app, "record": orjson.Fragment(text.record)}
    payload = orjson.dumps({**envelope, "repaired": True} if text.repaired else envelope)
    digest = hashlib.blake2b(payload, digest_size=16).digest()
    started, _ = _started(shape, received_at)
    return Fragment(
        trace_id=_trace_id(shape, app) or digest.hex(),
        signal="turns",
        payload=payload,
        count=count,
        received_at=started,
        digest=digest,
    )


def decode_turns(stored: Fragment) -> Decoded:
    """Return the turns of a fragment that `turn_fragment` returned; `user_id` is still as the record has it."""
    try:
        envelope = orjson.loads(stored.payload)
        record, app = parse(envelope["record"]), envelope["app"]
    except (orjson.JSONDecodeError, MalformedPayload, TypeError, KeyError):
        return Decoded(unread={"unreadable": stored.count})
    around = _Around(
        trace_id=stored.trace_id,
        app=record.app or app,
        received_at=stored.received_at,
        flags=frozenset({"text_repaired"}) if envelope.get("repaired") else frozenset(),
    )
    if isinstance(record, Line):
        return Decoded(turns=(_from_line(record, around),))
    answered = exchanges(record)
    last = len(answered) - 1
    turns = tuple(_from_exchange(record, exchange, around, last=i == last) for i, exchange in enumerate(answered))
    return Decoded(turns=turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """What the turns of one fragment share."""

    trace_id: str
    app: str
    received_at: datetime
    flags: frozenset[str]


def _from_line(line: Line, around: _Around) -> Turn:
    own_ids = _own_ids(line)
    started, repaired = _started(line, around.received_at)
    return _turn(
        line,
        around,
        span_id=own_ids[1] if own_ids else f"{0:016x}",
        started=started,
        ended=started if repaired else max(started, _utc(line.ended_at) or started),
        flags=frozenset(line.flags) | _time_flags(repaired=repaired),
        query=line.query,
        history=line.history,
        citations=citations_of(line.citations),
        response=line.response,
        last=True,
    )


def _from_exchange(record: Conversation, exchange: Exchange, around: _Around, *, last: bool) -> Turn:
    started, repaired = _started(record, around.received_at)
    # Turns of one conversation keep their order even though the record has a single time.
    started += exchange.at * _STEP
    return _turn(
        record,
        around,
        span_id=f"{exchange.at:016x}",
        started=started,
        ended=started,
        flags=frozenset(record.flags) | _time_flags(repaired=repaired),
        query=exchange.query,
        history=(*record.history, *exchange.history),
        citations=exchange.citations,
        response=exchange.response,
        last=last,
    )


def _turn(
    record: _Record,
    around: _Around,
    *,
    span_id: str,
    started: datetime,
    ended: datetime,
    flags: frozenset[str],
    query: str | None,
    history: Sequence[Message],
    citations: tuple[Citation, ...] | None,
    response: str | None,
    last: bool,
) -> Turn:
    """What a record says once, such as its reference answer, is about the `last` of its turns."""
    return Turn(
        turn_id=turn_id(around.trace_id, span_id),
        trace_id=around.trace_id,
        span_id=span_id,
        app=around.app,
        environment=record.environment,
        release=record.release,
        session_id=record.session_id,
        user_id=record.user_id,
        query=query,
        history=tuple(history),
        retrieval_queries=record.retrieval_queries if last else (),
        citations=citations,
        response=response,
        ground_truth=record.ground_truth if last else None,
        relevant_ids=record.relevant_ids if last else None,
        model=record.model,
        input_tokens=_count(record.tokens.input) if last else None,
        output_tokens=_count(record.tokens.output) if last else None,
        # An error is a short class wherever it is shown; what else stands there may be a message with user text.
        error=(class_name(record.error) or "error") if record.error and last else None,
        streaming=record.streaming,
        started_at=started,
        ended_at=ended,
        dialect="import",
        facets=dict(record.facets),
        flags=flags | around.flags,
    )


def _own_ids(record: _Record) -> tuple[str, str] | None:
    """Return trace and span id of a turn that this program printed: its `turn_id` is made of them."""
    trace, span = record.trace_id or "", record.span_id or ""
    if isinstance(record, Conversation) or not (_TRACE_ID.fullmatch(trace) and _SPAN_ID.fullmatch(span)):
        return None
    return (trace, span) if turn_id(trace, span) == record.turn_id else None


def _trace_id(record: _Record, app: str) -> str | None:
    """Return the trace of a turn that has a name of its own; a later version of it replaces the earlier."""
    if record.turn_id is None:
        return None
    own_ids = _own_ids(record)
    name = orjson.dumps([record.app or app, record.turn_id])
    return own_ids[0] if own_ids else hashlib.blake2b(name, digest_size=16).hexdigest()


def _started(record: _Record, received_at: datetime) -> tuple[datetime, bool]:
    """Return when the turn began, and whether the record gives an impossible time."""
    moment = _utc(record.started_at)
    # As for spans: a turn is never dated 1970 or later than now, where nobody looks at its window.
    if moment is None or not EARLIEST <= moment <= received_at + AHEAD:
        return received_at, record.started_at is not None
    return moment, False


def _time_flags(*, repaired: bool) -> frozenset[str]:
    return frozenset({TIME_REPAIRED}) if repaired else frozenset()


def _utc(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        return None


def _count(value: int | None) -> int | None:
    return value if value is not None and 0 <= value <= _LARGEST_COUNT else None
