"""A turn to judge, with every field that a test does not care about filled in."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from monitor.model.turns import Citation, Turn

ASKED_AT = datetime(2026, 3, 4, 10, 0, tzinfo=UTC)


def judged_turn(
    response: str | None = "Refunds are paid within 14 days.",
    *documents: str | Citation,
    query: str | None = "When is a refund paid?",
    name: str = "1",
) -> Turn:
    """Return a turn over `documents`, or over one that supports the default answer; `name` tells turns apart."""
    given = documents or ("Refunds are paid within 14 days.",)
    citations = tuple(
        replace(document, id=document.id or f"kb-{number}")
        if isinstance(document, Citation)
        else Citation(id=f"kb-{number}", content=document, title=None if name == "1" else f"note {name}")
        for number, document in enumerate(given, start=1)
    )
    return Turn(
        turn_id=f"turn-{name}",
        trace_id=f"trace-{name}",
        span_id=f"span-{name}",
        app="shop",
        query=query,
        response=response,
        citations=citations,
        started_at=ASKED_AT,
        ended_at=ASKED_AT + timedelta(seconds=2),
    )
