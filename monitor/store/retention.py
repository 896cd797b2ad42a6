"""Deletes text that is older than it is kept, and says since when there is any."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, delete, exists, func, select, tuple_, update

from monitor.model.stored import OldestText
from monitor.store import awaited_links, erased_traces, under_way
from monitor.store.statements import batches
from monitor.store.tables import exchanges, spans, traces, turn_texts, turns, unassembled


def prune_text(connection: Connection, *, before: datetime, limit: int) -> int:
    """Delete the text of up to `limit` turns started before, and as many exchanges about such turns.

    A turn that nobody decided about by then never will be: without its text it cannot be judged. Here and below, rows
    that others lock first are locked first and in order, so that this and they never wait for each other.
    """
    erased_traces.forget(connection, before=before)
    old = select(turn_texts.c.turn_id).where(turn_texts.c.started_at < before).order_by(turn_texts.c.started_at)
    texts = connection.execute(old.limit(limit)).scalars().all()
    for part in batches(sorted(texts)):
        undecided = turns.c.turn_id.in_(part), turns.c.decided_at.is_(None)
        connection.execute(select(turns.c.turn_id).where(*undecided).order_by(turns.c.turn_id).with_for_update()).all()
        connection.execute(update(turns).where(*undecided).values(decided_at=before))
        connection.execute(delete(turn_texts).where(turn_texts.c.turn_id.in_(part)))
    under_way.end_of_turns(connection, texts)
    judged = select(*exchanges.primary_key).where(exchanges.c.started_at < before).order_by(exchanges.c.started_at)
    said = connection.execute(delete(exchanges).where(tuple_(*exchanges.primary_key).in_(judged.limit(limit))))
    return len(texts) + said.rowcount


def prune_fragments(connection: Connection, *, before: datetime, limit: int) -> int:
    """Delete assembled fragments received before, of the `limit` that were stored first.

    They are stored in the order they are received in, give or take seconds, so the first ones decide whether there is
    anything to do, and no index of times has to be kept up while storing.
    """
    waiting = exists().where(unassembled.c.position == spans.c.position)
    first = select(spans.c.position, spans.c.trace_id, spans.c.received_at).where(~waiting).order_by(spans.c.position)
    old = [row for row in connection.execute(first.limit(limit)) if row.received_at < before]
    touched = sorted({row.trace_id for row in old})
    for part in batches(touched):
        of_part = traces.c.trace_id.in_(part)
        connection.execute(select(traces.c.trace_id).where(of_part).order_by(traces.c.trace_id).with_for_update()).all()
        connection.execute(update(traces).where(of_part).values(pruned=True))
    for some in batches([row.position for row in old]):
        connection.execute(delete(spans).where(spans.c.position.in_(some)))
    awaited_links.prune(connection, touched)
    kept = {
        trace_id
        for part in batches(touched)
        for trace_id in connection.execute(
            select(spans.c.trace_id).where(spans.c.trace_id.in_(part)).distinct()
        ).scalars()
    }
    under_way.end(connection, "trace", [trace_id for trace_id in touched if trace_id not in kept])
    for part in batches(touched):
        left = exists().where(spans.c.trace_id == traces.c.trace_id)
        connection.execute(delete(traces).where(traces.c.trace_id.in_(part), traces.c.turns == 0, ~left))
    return len(old)


def oldest(connection: Connection) -> OldestText:
    """Return since when text is kept; each is one look at an index."""
    waiting = exists().where(unassembled.c.position == spans.c.position)
    first = connection.execute(select(spans.c.received_at, waiting).order_by(spans.c.position).limit(1)).first()
    starts = [connection.execute(select(func.min(table.c.started_at))).scalar() for table in (turn_texts, exchanges)]
    return OldestText(
        fragment_at=first[0] if first and not first[1] else None,
        turn_at=min((start for start in starts if start is not None), default=None),
    )
