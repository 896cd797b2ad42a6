"""What is being read, written before it is: what is still there when another process comes by ended the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, case, delete, select

from monitor.store.statements import batches, insert
from monitor.store.tables import under_way
from monitor.stores import DEATHS, UnderWayKind


def begin(connection: Connection, kind: UnderWayKind, subjects: Sequence[str], *, worker: str) -> None:
    """Write that `worker` begins; see `UnderWayStore.begin`."""
    if not subjects:
        return
    statement = insert(connection, under_way)
    another = under_way.c.worker != statement.excluded.worker
    values = {"deaths": under_way.c.deaths + case((another, 1), else_=0), "worker": statement.excluded.worker}
    rows = [{"kind": kind, "subject": subject, "worker": worker, "deaths": 0} for subject in sorted(subjects)]
    connection.execute(statement.on_conflict_do_update(index_elements=["kind", "subject"], set_=values), rows)


def end(connection: Connection, kind: UnderWayKind, subjects: Sequence[str]) -> None:
    """Delete what is no longer under way."""
    for part in batches(subjects):
        connection.execute(delete(under_way).where(under_way.c.kind == kind, under_way.c.subject.in_(part)))


def deaths(connection: Connection, kind: UnderWayKind, subjects: Sequence[str], *, worker: str) -> Mapping[str, int]:
    """Return during which of these how many processes died; see `UnderWayStore.deaths`."""
    died = (under_way.c.deaths + case((under_way.c.worker != worker, 1), else_=0)).label("died")
    counted: dict[str, int] = {}
    for part in batches(subjects):
        of_these = select(under_way.c.subject, died).where(under_way.c.kind == kind, under_way.c.subject.in_(part))
        counted.update({row.subject: row.died for row in connection.execute(of_these) if row.died})
    return counted


def set_aside(connection: Connection, kind: UnderWayKind) -> tuple[str, ...]:
    """Return what ended so many processes that it is not tried again."""
    statement = select(under_way.c.subject).where(under_way.c.kind == kind, under_way.c.deaths >= DEATHS)
    return tuple(connection.execute(statement.order_by(under_way.c.subject)).scalars())
