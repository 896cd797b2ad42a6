"""Keys, what waits between the stages, and retention."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, exists, func, select, true, tuple_, update

from monitor.model.stored import Backlog
from monitor.store.statements import batches, insert
from monitor.store.tables import (
    changed_windows,
    exchanges,
    jobs,
    keys,
    spans,
    traces,
    turn_texts,
    turns,
    unassembled,
)

_KEY_BYTES = 32


def key(connection: Connection, name: str) -> bytes:
    """Return the key of this name; of several processes that ask first, all get the same."""
    connection.execute(
        insert(connection, keys)
        .values(name=name, value=secrets.token_bytes(_KEY_BYTES))
        .on_conflict_do_nothing(index_elements=["name"])
    )
    return bytes(connection.execute(select(keys.c.value).where(keys.c.name == name)).scalar_one())


def backlog(connection: Connection, *, rubric_ids: Sequence[str] | None = None) -> Backlog:
    """Return what waits, all of it at one moment."""
    counted = true() if rubric_ids is None else jobs.c.rubric_id.in_(rubric_ids)
    row = connection.execute(
        select(
            select(func.count()).select_from(unassembled).scalar_subquery().label("fragments"),
            select(func.count()).where(turns.c.decided_at.is_(None)).scalar_subquery().label("turns"),
            select(func.count()).select_from(jobs).where(counted).scalar_subquery().label("jobs"),
            select(func.count()).select_from(changed_windows).scalar_subquery().label("windows"),
            select(unassembled.c.received_at)
            .order_by(unassembled.c.position)
            .limit(1)
            .scalar_subquery()
            .label("oldest_fragment_at"),
            select(func.min(jobs.c.created_at)).scalar_subquery().label("oldest_job_at"),
        )
    ).one()
    return Backlog(
        fragments=row.fragments,
        turns=row.turns,
        jobs=row.jobs,
        windows=row.windows,
        oldest_fragment_at=row.oldest_fragment_at,
        oldest_job_at=row.oldest_job_at,
    )


def prune_text(connection: Connection, *, before: datetime, limit: int) -> int:
    """Delete the text of up to `limit` turns started before, and as many exchanges about such turns.

    A turn that nobody decided about by then never will be: without its text it cannot be judged.
    """
    old = select(turn_texts.c.turn_id).where(turn_texts.c.started_at < before).order_by(turn_texts.c.started_at)
    texts = connection.execute(old.limit(limit)).scalars().all()
    for part in batches(texts):
        connection.execute(delete(turn_texts).where(turn_texts.c.turn_id.in_(part)))
        undecided = turns.c.turn_id.in_(part), turns.c.decided_at.is_(None)
        connection.execute(update(turns).where(*undecided).values(decided_at=before))
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
    for some in batches([row.position for row in old]):
        connection.execute(delete(spans).where(spans.c.position.in_(some)))
    for part in batches(sorted({row.trace_id for row in old})):
        connection.execute(update(traces).where(traces.c.trace_id.in_(part)).values(pruned=True))
        left = exists().where(spans.c.trace_id == traces.c.trace_id)
        connection.execute(delete(traces).where(traces.c.trace_id.in_(part), traces.c.turns == 0, ~left))
    return len(old)
