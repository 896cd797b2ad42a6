"""Turns for the benches of judging: each has a content of its own, so that no verdict is copied."""

from __future__ import annotations

from datetime import datetime

from monitor.model.turns import Citation, Turn, turn_id


def judged_turn(number: int, at: datetime, *, sentences: int) -> Turn:
    """Return the turn of trace `number`, whose answer and only document are so many sentences."""
    trace_id = f"{number:032x}"
    text = f"Refunds of order {number} are paid within 14 days to the card that was used for the purchase. " * sentences
    return Turn(
        turn_id=turn_id(trace_id, "root"),
        trace_id=trace_id,
        span_id="root",
        app="bench",
        query=f"When is the refund of order {number} paid?",
        response=text.strip(),
        citations=(Citation(id="kb-1", content=text.strip()),),
        started_at=at,
        ended_at=at,
    )
