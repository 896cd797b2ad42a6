"""Text that databases and JSON refuse is repaired before it becomes part of a turn."""

from __future__ import annotations

from dataclasses import replace

from monitor.extract.messages import text_of
from monitor.model.turns import Turn
from monitor.text.repair import repaired


def with_sound_text(turn: Turn) -> Turn:
    """Return the turn with its texts repaired (flag `text_repaired` where one was) and inlined media as markers.

    JSON inside attributes may hold what the attribute itself could not.
    """
    seen: set[str] = set()

    def text(value: str | None) -> str | None:
        if value is None:
            return None
        return required(value)

    def required(value: str) -> str:
        if ";base64," in value:
            value = text_of(value)
        sound = repaired(value)
        if sound is not value:
            seen.add("text_repaired")
        return sound

    fixed = replace(
        turn,
        session_id=text(turn.session_id),
        query=text(turn.query),
        response=text(turn.response),
        model=text(turn.model),
        error=text(turn.error),
        app=required(turn.app),
        environment=required(turn.environment),
        release=required(turn.release),
        history=tuple(replace(message, content=required(message.content)) for message in turn.history),
        retrieval_queries=tuple(map(required, turn.retrieval_queries)),
        citations=None
        if turn.citations is None
        else tuple(
            replace(c, id=text(c.id), title=text(c.title), content=text(c.content), source=text(c.source))
            for c in turn.citations
        ),
        facets={facet: required(value) for facet, value in turn.facets.items()},
    )
    return replace(fixed, flags=fixed.flags | seen) if seen else fixed
