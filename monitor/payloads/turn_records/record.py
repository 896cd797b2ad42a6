"""The shapes of an imported record, strict in what they mean and lenient in how they spell it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal, TypeAlias, TypeGuard

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from monitor.errors import MalformedPayload
from monitor.extract.documents import documents
from monitor.extract.messages import conversation, messages_of
from monitor.model.turns import Citation, Message

_FLAG = re.compile(r"[a-z][a-z_]{0,39}")
_NO_TURN = "no turn: expected question or query, answer or response, or messages"


def _or_empty(value: object) -> object:
    """Null says as little as an absent key."""
    return "" if value is None else value


def _instant(value: object) -> object:
    """Unix time comes in seconds, milliseconds, microseconds and nanoseconds; pydantic knows the first two."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        for unit in (1e6, 1e3):
            if abs(value) >= 1e11 * unit:
                return value / unit
    return value


def _messages(value: object) -> object:
    return () if value is None else conversation(messages_of(value)) if isinstance(value, list | str) else value


def _flags(value: object) -> object:
    return tuple(f for f in value or () if isinstance(f, str) and _FLAG.fullmatch(f)) if _is_list(value) else ()


def _is_list(value: object) -> TypeGuard[list[object] | None]:
    return value is None or isinstance(value, list)


def _or_none(value: object) -> object:
    return () if value is None else value


def _or_no(value: object) -> object:
    return {} if value is None else value


_Label: TypeAlias = Annotated[str, BeforeValidator(_or_empty)]
_Instant: TypeAlias = Annotated[datetime | None, BeforeValidator(_instant)]


class _Record(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        hide_input_in_errors=True,
        populate_by_name=True,
        coerce_numbers_to_str=True,
        arbitrary_types_allowed=True,
    )


class Tokens(_Record):
    """What the answer took; None where the record does not say."""

    input: int | None = None
    output: int | None = None


class Spoken(_Record):
    """One message of a conversation, as the record has it; `content` is text, parts or null."""

    role: str
    content: object = None
    tool_calls: object = None
    function_call: object = None
    context: object = Field(None, validation_alias=AliasChoices("context", "citations"))


class _Common(_Record):
    turn_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    app: str | None = None
    environment: _Label = ""
    release: _Label = ""
    session_id: str | None = Field(None, validation_alias=AliasChoices("session_id", "conversation_id", "thread_id"))
    user_id: str | None = None
    model: str | None = None
    started_at: _Instant = Field(None, validation_alias=AliasChoices("started_at", "timestamp"))
    ended_at: _Instant = None
    ground_truth: str | None = None
    relevant_ids: tuple[str, ...] | None = None
    history: Annotated[tuple[Message, ...], BeforeValidator(_messages)] = ()
    retrieval_queries: Annotated[tuple[str, ...], BeforeValidator(_or_none)] = ()
    error: str | None = None
    tokens: Annotated[Tokens, BeforeValidator(_or_no)] = Tokens()
    streaming: bool | None = None
    facets: Annotated[Mapping[str, str], BeforeValidator(_or_no)] = Field(default_factory=dict)
    flags: Annotated[tuple[str, ...], BeforeValidator(_flags)] = ()


class Line(_Common):
    """One turn."""

    query: str | None = Field(None, validation_alias=AliasChoices("query", "question", "userText"))
    response: str | None = Field(None, validation_alias=AliasChoices("response", "answer", "responseContent"))
    citations: object = Field(None, validation_alias=AliasChoices("citations", "context", "dataList"))


class Conversation(_Common):
    """Several turns."""

    messages: tuple[Spoken, ...] = Field(min_length=1)


class _Cited(_Record):
    """A citation as this program prints it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str | None
    title: str | None
    content: str | None
    score: float | None
    score_kind: Literal["similarity", "distance", "unknown"]
    source: str | None
    rank: int | None
    used: bool | None


def parse(tree: object) -> Line | Conversation:
    """Return the record in a JSON value.

    Raises:
        MalformedPayload: it has none of the shapes (`not_object`, `wrong_shape`, `no_turn`); names keys, never values.
    """
    if not isinstance(tree, dict):
        raise MalformedPayload(f"expected a JSON object, found {type(tree).__name__}", reason="not_object")
    shape = Conversation if tree.get("messages") else Line
    try:
        record = shape.model_validate(tree)
    except ValidationError as error:
        complaint = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))
        raise MalformedPayload(complaint, reason="wrong_shape") from None
    if isinstance(record, Line) and record.query is None and record.response is None:
        raise MalformedPayload(_NO_TURN, reason="no_turn")
    return record


def citations_of(value: object) -> tuple[Citation, ...] | None:
    """Return the documents that a record names: () for none found, None where it does not say.

    They come as one text, a list of texts or objects, an object with a list in it, or as this program prints them.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return (Citation(content=value, rank=1),) if value.strip() else ()
    if isinstance(value, dict) and isinstance(value.get("citations"), list):
        value = value["citations"]
    if isinstance(value, list):
        printed = [_printed(item) for item in value]
        if all(printed):
            return tuple(citation for citation in printed if citation is not None)
    read = documents(value, trusted=True) if isinstance(value, list | dict) else None
    return read.citations if read is not None else ()


def _printed(item: object) -> Citation | None:
    try:
        return Citation(**_Cited.model_validate(item).model_dump())
    except ValidationError:
        return None
