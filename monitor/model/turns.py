"""What is captured: a turn, its messages and citations. Frozen slotted values, no I/O.

Instants are aware UTC `datetime`s. Query, history, citations, response, prompts and replies are user text: they may
appear in the tables of spans, turns and verdicts' exchanges, in prompts and on a person's screen, never in logs, errors
or metric labels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One earlier message of the conversation."""

    role: str
    """`user`, `assistant`, `system` or `tool`."""
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """One retrieved document; its place in the turn is its rank in the list."""

    id: str | None = None
    title: str | None = None
    content: str | None = None
    score: float | None = None
    """As emitted."""
    score_kind: Literal["similarity", "distance", "unknown"] = "unknown"
    source: str | None = None
    rank: int | None = None
    """1 for the first."""
    used: bool | None = None
    """Whether the document was seen in the answering prompt; None when the telemetry does not tell."""

    @property
    def is_evidence(self) -> bool:
        """Whether an answer is held against it: the answering model saw it, or nobody knows whether it did."""
        return self.used is not False


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One question, what was retrieved for it, and the answer. `None` always means "the telemetry does not say"."""

    turn_id: str
    """`turn_id(trace_id, span_id)`: the same turn keeps its id however often it is assembled."""
    trace_id: str
    span_id: str
    """The turn-root span; for imported turns, a hash of their place in the file."""
    app: str
    """Resource attribute `service.name`."""
    environment: str = ""
    """Resource attribute `deployment.environment.name` or `deployment.environment`."""
    release: str = ""
    """Resource attribute `service.version`."""
    session_id: str | None = None
    """As the app sent it; None, too, when the turn's text is no longer kept."""
    user_id: str | None = None
    """A keyed hash of the user id that the app sent, never the id itself."""
    query: str | None = None
    history: tuple[Message, ...] = ()
    retrieval_queries: tuple[str, ...] = ()
    citations: tuple[Citation, ...] | None = None
    """() when retrieval ran and found nothing; None when no retrieval was seen."""
    response: str | None = None
    ground_truth: str | None = None
    """A reference answer, only ever present in imported turns."""
    relevant_ids: tuple[str, ...] | None = None
    """Ids or sources of the documents that should be found, likewise; () when nothing should be."""
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    error: str | None = None
    """A short class such as `APIError` or `500`, never a message with user text; None when the turn did not fail."""
    streaming: bool | None = None
    started_at: datetime
    ended_at: datetime
    dialect: str = ""
    facets: Mapping[str, str] = field(default_factory=dict)
    """Low-cardinality properties to slice by, such as `search_type` or `language`."""
    flags: frozenset[str] = frozenset()
    sent_names: Mapping[str, str] = field(default_factory=dict)
    """What `app`, `environment` or `release` was sent as, by that word, where the store put another name in its place;
    empty, too, when the turn's text is no longer kept."""

    def content_hash(self) -> str:
        """Return 32 hex characters that change exactly when something a judge can see changes."""
        h = hashlib.blake2b(digest_size=16)
        parts: list[str | None] = [self.query, self.response, self.ground_truth, self.error]
        for message in self.history:
            parts += (message.role, message.content)
        if self.relevant_ids is not None:
            parts += ("relevant_ids", *self.relevant_ids)
        parts.append("citations" if self.citations is not None else None)
        for c in self.citations or ():
            parts += (c.id, c.title, c.content, str(c.used))
        for part in parts:
            h.update(
                b"\x00"
                if part is None
                else b"\x01" + str(len(part)).encode() + b":" + part.encode("utf-8", "surrogatepass")
            )
        return h.hexdigest()

    @property
    def latency(self) -> timedelta:
        """Time from the start of the turn-root span to its end."""
        return self.ended_at - self.started_at


def turn_id(trace_id: str, span_id: str) -> str:
    """Return the 32 hex characters that name the turn rooted at `span_id` in `trace_id`."""
    return hashlib.blake2b(f"{trace_id}:{span_id}".encode(), digest_size=16).hexdigest()
