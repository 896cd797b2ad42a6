"""A turn as rows of `turns` and `turn_texts`, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias, TypeVar

import orjson
from sqlalchemy import Row

from monitor.model.turns import Citation, Message, Turn
from monitor.store.columns import json_text
from monitor.store.pseudonyms import pseudonym
from monitor.text.repair import repaired

Cell: TypeAlias = object
"""A value as SQLAlchemy takes it for a column."""

T = TypeVar("T", str, "str | None")


def cleaned(turn: Turn) -> Turn:
    """Return the turn as it will read back, so that its content hash is the same before and after storing."""
    return replace(
        turn,
        session_id=_clean(turn.session_id),
        query=_clean(turn.query),
        response=_clean(turn.response),
        ground_truth=_clean(turn.ground_truth),
        relevant_ids=None if turn.relevant_ids is None else tuple(map(repaired, turn.relevant_ids)),
        error=_clean(turn.error),
        history=tuple(Message(role=repaired(m.role), content=repaired(m.content)) for m in turn.history),
        citations=None if turn.citations is None else tuple(map(_clean_citation, turn.citations)),
    )


def turn_row(turn: Turn, *, session_key: bytes) -> dict[str, Cell]:
    """Return the row of `turns` of a `cleaned` turn about which nothing is decided yet."""
    return {
        "turn_id": turn.turn_id,
        "trace_id": turn.trace_id,
        "span_id": turn.span_id,
        "app": turn.app,
        "environment": turn.environment,
        "release": turn.release,
        "session_hash": None if turn.session_id is None else pseudonym(turn.session_id, key=session_key),
        "user_id": turn.user_id,
        "model": turn.model,
        "input_tokens": turn.input_tokens,
        "output_tokens": turn.output_tokens,
        "error": turn.error,
        "streaming": turn.streaming,
        "started_at": turn.started_at,
        "ended_at": turn.ended_at,
        "dialect": turn.dialect,
        "facets": json_text(dict(turn.facets)),
        "flags": json_text(sorted(turn.flags)),
        "content_hash": turn.content_hash(),
        "decided_at": None,
        "asked": "",
        "proxy": None,
        "proxy_version": "",
    }


def turn_text_row(turn: Turn) -> dict[str, Cell]:
    """Return the row of `turn_texts` of a `cleaned` turn."""
    return {
        "turn_id": turn.turn_id,
        "started_at": turn.started_at,
        "session_id": turn.session_id,
        "query": turn.query,
        "history": json_text([[m.role, m.content] for m in turn.history]),
        "retrieval_queries": json_text(list(turn.retrieval_queries)),
        "citations": None if turn.citations is None else json_text(turn.citations),
        "response": turn.response,
        "ground_truth": turn.ground_truth,
        "relevant_ids": None if turn.relevant_ids is None else json_text(list(turn.relevant_ids)),
        "sent_names": json_text(dict(turn.sent_names)) if turn.sent_names else None,
    }


def turn_from(row: Row[tuple[object, ...]]) -> Turn:
    """Return the turn of a row of `turns` joined to `turn_texts`, whose columns are all NULL once pruned."""
    return Turn(
        turn_id=row.turn_id,
        trace_id=row.trace_id,
        span_id=row.span_id,
        app=row.app,
        environment=row.environment,
        release=row.release,
        session_id=row.session_id,
        user_id=row.user_id,
        query=row.query,
        history=tuple(Message(role=role, content=content) for role, content in orjson.loads(row.history or "[]")),
        retrieval_queries=tuple(orjson.loads(row.retrieval_queries or "[]")),
        citations=None
        if row.citations is None
        else tuple(Citation(**citation) for citation in orjson.loads(row.citations)),
        response=row.response,
        ground_truth=row.ground_truth,
        relevant_ids=None if row.relevant_ids is None else tuple(orjson.loads(row.relevant_ids)),
        model=row.model,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        error=row.error,
        streaming=row.streaming,
        started_at=row.started_at,
        ended_at=row.ended_at,
        dialect=row.dialect,
        facets=orjson.loads(row.facets),
        flags=frozenset(orjson.loads(row.flags)),
        sent_names=orjson.loads(row.sent_names or "{}"),
    )


def _clean(text: str | None) -> str | None:
    return None if text is None else repaired(text)


def _clean_citation(citation: Citation) -> Citation:
    return replace(
        citation,
        id=_clean(citation.id),
        title=_clean(citation.title),
        content=_clean(citation.content),
        source=_clean(citation.source),
    )
