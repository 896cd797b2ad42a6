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
from monitor.payloads.otlp.times import TIME_REPAIRED
from monitor.payloads.turn_records.conversation import Exchange, exchanges
from monitor.payloads.turn_records.readable_json import readable
from monitor.payloads.turn_records.record import Conversation, Line, citations_of, parsed

_STEP = timedelta(milliseconds=1)
_EARLIEST, _AHEAD = datetime(2000, 1, 1, tzinfo=UTC), timedelta(days=1)
"""As for spans: a turn is never dated 1970 or next year, where nobody looks at its window."""
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
    found = parsed(text.tree)
    count = len(exchanges(found)) if isinstance(found, Conversation) else 1
    if not count:
        raise MalformedPayload("messages: no question that was answered, so no turn", reason="no_turn")
    known = found.turn_id is not None
    envelope = {"origin": "" if known else origin, "app": app, "record": orjson.Fragment(text.record)}
    payload = orjson.dumps({**envelope, "repaired": True} if text.repaired else envelope)
    digest = hashlib.blake2b(payload, digest_size=16).digest()
    started, _ = _started(found, received_at)
    return Fragment(
        trace_id=_trace_id(found, app) or digest.hex(),
        signal="turns",
        payload=payload,
        count=count,
        received_at=started,
        digest=digest,
    )


def decode_turns(stored: Fragment) -> Decoded:
    """Return the turns of a fragment made by `fragment`; `user_id` is still as the record has it."""
    try:
        envelope = orjson.loads(stored.payload)
        found, app = parsed(envelope["record"]), envelope["app"]
    except (orjson.JSONDecodeError, MalformedPayload, TypeError, KeyError):
        return Decoded(unread={"unreadable": stored.count})
    around = _Around(
        trace_id=stored.trace_id,
        app=found.app or app,
        received_at=stored.received_at,
        flags=frozenset({"text_repaired"}) if envelope.get("repaired") else frozenset(),
    )
    if isinstance(found, Line):
        return Decoded(turns=(_from_line(found, around),))
    answered = exchanges(found)
    last = len(answered) - 1
    turns = tuple(_from_exchange(found, one, around, last=i == last) for i, one in enumerate(answered))
    return Decoded(turns=turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """What the turns of one fragment share."""

    trace_id: str
    app: str
    received_at: datetime
    flags: frozenset[str]


def _from_line(line: Line, around: _Around) -> Turn:
    kept = _own_ids(line)
    started, repaired = _started(line, around.received_at)
    return _turn(
        line,
        around,
        span_id=kept[1] if kept else f"{0:016x}",
        started=started,
        ended=started if repaired else max(started, _utc(line.ended_at) or started),
        flags=frozenset(line.flags) | _time_flags(repaired=repaired),
        query=line.query,
        history=line.history,
        citations=citations_of(line.citations),
        response=line.response,
        last=True,
    )


def _from_exchange(found: Conversation, one: Exchange, around: _Around, *, last: bool) -> Turn:
    started, repaired = _started(found, around.received_at)
    # Turns of one conversation keep their order even though the record has a single time.
    started += one.at * _STEP
    return _turn(
        found,
        around,
        span_id=f"{one.at:016x}",
        started=started,
        ended=started,
        flags=frozenset(found.flags) | _time_flags(repaired=repaired),
        query=one.query,
        history=(*found.history, *one.history),
        citations=one.citations,
        response=one.response,
        last=last,
    )


def _turn(
    found: _Record,
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
        environment=found.environment,
        release=found.release,
        session_id=found.session_id,
        user_id=found.user_id,
        query=query,
        history=tuple(history),
        retrieval_queries=found.retrieval_queries if last else (),
        citations=citations,
        response=response,
        ground_truth=found.ground_truth if last else None,
        relevant_ids=found.relevant_ids if last else None,
        model=found.model,
        input_tokens=_count(found.tokens.input) if last else None,
        output_tokens=_count(found.tokens.output) if last else None,
        # An error is a short class wherever it is shown; what else stands there may be a message with user text.
        error=(class_name(found.error) or "error") if found.error and last else None,
        streaming=found.streaming,
        started_at=started,
        ended_at=ended,
        dialect="import",
        facets=dict(found.facets),
        flags=flags | around.flags,
    )


def _own_ids(found: _Record) -> tuple[str, str] | None:
    """Return trace and span id of a turn that this program printed: its `turn_id` is made of them."""
    trace, span = found.trace_id or "", found.span_id or ""
    if isinstance(found, Conversation) or not (_TRACE_ID.fullmatch(trace) and _SPAN_ID.fullmatch(span)):
        return None
    return (trace, span) if turn_id(trace, span) == found.turn_id else None


def _trace_id(found: _Record, app: str) -> str | None:
    """Return the trace of a turn that has a name of its own; a later version of it replaces the earlier."""
    if found.turn_id is None:
        return None
    kept = _own_ids(found)
    name = orjson.dumps([found.app or app, found.turn_id])
    return kept[0] if kept else hashlib.blake2b(name, digest_size=16).hexdigest()


def _started(found: _Record, received_at: datetime) -> tuple[datetime, bool]:
    """Return when the turn began, and whether the record says it in a way that cannot be."""
    said = _utc(found.started_at)
    if said is None or not _EARLIEST <= said <= received_at + _AHEAD:
        return received_at, found.started_at is not None
    return said, False


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
