"""Turns that arrive as JSON objects, one a line or one a message: read strictly once, then kept as they came.

Four shapes, told apart by their keys:
- `{"question", "context", "answer", "ground_truth"?}`, or `query`/`response` (Azure AI evaluation, QA line)
- `{"messages": [{"role", "content", "context": {"citations": [{"id", "title", "content"}]}}]}` (its conversation line):
  every assistant message is a turn, with the messages before it as history
- `{"userText", "dataList", "responseContent"}` (Spring AI `EvaluationRequest`)
- what `rag-monitor turns --format jsonl` prints
All may carry `app`, `environment`, `release`, `session_id`, `user_id`, `model` and `started_at` (RFC 3339).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

import orjson
from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from monitor.errors import MalformedPayload
from monitor.model import Citation, Message, Turn, turn_id
from monitor.spans import Decoded, Fragment

_STEP = timedelta(milliseconds=1)


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True, populate_by_name=True)


def _documents(value: object) -> object:
    """Citations come as one text, a list of texts, or a list of objects; None and "" are no documents."""
    if value is None or value == "":
        return ()
    if isinstance(value, Mapping) and "citations" in value:
        return _documents(value["citations"])
    items = value if isinstance(value, list | tuple) else (value,)
    return tuple({"content": item} if isinstance(item, str) else item for item in items)


class _Document(_Record):
    id: str | None = Field(None, coerce_numbers_to_str=True)
    title: str | None = None
    content: str | None = Field(None, validation_alias=AliasChoices("content", "text", "page_content"))
    score: float | None = None
    source: str | None = Field(None, validation_alias=AliasChoices("source", "url", "filepath"))


_Documents = Annotated[tuple[_Document, ...], BeforeValidator(_documents)]


class _Message(_Record):
    role: str
    content: str = ""
    context: _Documents | None = None


class _Common(_Record):
    app: str | None = None
    environment: str = ""
    release: str = ""
    session_id: str | None = None
    user_id: str | None = None
    model: str | None = None
    started_at: datetime | None = Field(None, validation_alias=AliasChoices("started_at", "timestamp"))
    ground_truth: str | None = None
    history: tuple[_Message, ...] = ()
    retrieval_queries: tuple[str, ...] = ()
    error: str | None = None


class _Line(_Common):
    query: str | None = Field(None, validation_alias=AliasChoices("query", "question", "userText"))
    response: str | None = Field(None, validation_alias=AliasChoices("response", "answer", "responseContent"))
    citations: _Documents | None = Field(None, validation_alias=AliasChoices("citations", "context", "dataList"))


class _Conversation(_Common):
    messages: tuple[_Message, ...] = Field(min_length=1)


def fragment(record: bytes, *, origin: str, app: str, received_at: datetime) -> Fragment:
    """Return the record as a durable fragment; its `received_at` is the turn's own time when the record has one.

    Args:
        record: one JSON object.
        origin: where it came from, such as `chats.jsonl:17`; equal records of other origins are other turns.
        app: the app's name where the record has none.
        received_at: aware UTC.

    Raises:
        MalformedPayload: not JSON, or none of the shapes; the message names keys, never values.
    """
    parsed = _parse(record)
    count = len(_questions(parsed.messages)) if isinstance(parsed, _Conversation) else 1
    if not count:
        raise MalformedPayload("messages: no assistant message, so no turn", reason="no_turn")
    payload = orjson.dumps({"origin": origin, "app": app, "record": orjson.Fragment(record)})
    digest = hashlib.blake2b(payload, digest_size=16).digest()
    return Fragment(
        trace_id=digest.hex(),
        signal="turns",
        payload=payload,
        count=count,
        received_at=_utc(parsed.started_at) or received_at,
        digest=digest,
    )


def decode(stored: Fragment) -> Decoded:
    """Return the turns of a fragment made by `fragment`; `user_id` is still as the record has it."""
    envelope = orjson.loads(stored.payload)
    parsed = _parse(orjson.dumps(envelope["record"]))
    if isinstance(parsed, _Conversation):
        turns = []
        for at in _questions(parsed.messages):
            before = [m for m in parsed.messages[:at] if m.role in {"user", "assistant"}]
            query = before.pop().content if before and before[-1].role == "user" else None
            answer = parsed.messages[at]
            line = _Line(
                **parsed.model_dump(exclude={"messages", "history"}),
                query=query,
                response=answer.content,
                citations=answer.context,
                history=tuple(before),
            )
            turns.append(_turn(line, stored, app=envelope["app"], index=at))
        return Decoded(turns=tuple(turns))
    return Decoded(turns=(_turn(parsed, stored, app=envelope["app"], index=0),))


def _parse(record: bytes) -> _Line | _Conversation:
    try:
        tree = orjson.loads(record)
    except orjson.JSONDecodeError as error:
        raise MalformedPayload(f"not JSON: line {error.lineno}, column {error.colno}", reason="not_json") from None
    if not isinstance(tree, dict):
        raise MalformedPayload(f"expected a JSON object, found {type(tree).__name__}", reason="not_object")
    shape = _Conversation if "messages" in tree else _Line
    try:
        parsed = shape.model_validate(tree)
    except ValidationError as error:
        found = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))
        raise MalformedPayload(found, reason="wrong_shape") from None
    if isinstance(parsed, _Line) and parsed.query is None and parsed.response is None:
        raise MalformedPayload("no turn: expected question or query, answer or response, or messages", reason="no_turn")
    return parsed


def _questions(messages: Sequence[_Message]) -> list[int]:
    return [i for i, m in enumerate(messages) if m.role == "assistant"]


def _turn(line: _Line, stored: Fragment, *, app: str, index: int) -> Turn:
    span_id = f"{index:016x}"
    started = _utc(line.started_at) or stored.received_at
    # Turns of one conversation keep their order even though the record has a single time.
    started += index * _STEP
    citations = None
    if line.citations is not None:
        citations = tuple(
            Citation(
                id=d.id,
                title=d.title,
                content=d.content,
                score=d.score,
                source=d.source,
                rank=rank,
            )
            for rank, d in enumerate(line.citations, 1)
        )
    return Turn(
        turn_id=turn_id(stored.trace_id, span_id),
        trace_id=stored.trace_id,
        span_id=span_id,
        app=line.app or app,
        environment=line.environment,
        release=line.release,
        session_id=line.session_id,
        user_id=line.user_id,
        query=line.query,
        history=tuple(Message(role=m.role, content=m.content) for m in line.history),
        retrieval_queries=line.retrieval_queries,
        citations=citations,
        response=line.response,
        ground_truth=line.ground_truth,
        model=line.model,
        error=line.error,
        started_at=started,
        ended_at=started,
        dialect="import",
    )


def _utc(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
