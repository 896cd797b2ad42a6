"""Keys, what waits between the stages, and retention."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from sqlalchemy import Connection, func, select, true

from monitor.model.stored import Backlog
from monitor.store.statements import insert
from monitor.store.tables import (
    changed_windows,
    jobs,
    keys,
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
