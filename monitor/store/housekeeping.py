"""What waits between the stages."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, func, select, true

from monitor.model.stored import Backlog
from monitor.store.tables import (
    changed_windows,
    jobs,
    turns,
    unassembled,
)


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
