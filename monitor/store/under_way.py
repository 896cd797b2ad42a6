"""What is being read, written before it is: what is still there when another process comes by ended the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, and_, case, delete, select, update

from monitor.store.statements import batches, insert
from monitor.store.tables import under_way
from monitor.stores import DEATHS, UnderWayKind

_NOBODY = ""
"""The worker of what is paused."""


def begin(connection: Connection, kind: UnderWayKind, subjects: Sequence[str], *, worker: str, alone: bool) -> None:
    """Write that `worker` begins; see `UnderWayStore.begin`."""
    if not subjects:
        return
    statement = insert(connection, under_way)
    another = and_(under_way.c.worker != statement.excluded.worker, under_way.c.worker != _NOBODY)
    values = {"deaths": under_way.c.deaths + case((another, 1), else_=0), "worker": statement.excluded.worker}
    # The death of a process that read many says little of each: it makes a suspect and counts no death yet.
    deaths = 0 if alone else -1
    rows = [{"kind": kind, "subject": subject, "worker": worker, "deaths": deaths} for subject in sorted(subjects)]
    connection.execute(statement.on_conflict_do_update(index_elements=["kind", "subject"], set_=values), rows)


def pause(connection: Connection, kind: UnderWayKind, subjects: Sequence[str]) -> None:
    """Keep nothing of these but how many processes died; see `UnderWayStore.end`."""
    for part in batches(subjects):
        these = and_(under_way.c.kind == kind, under_way.c.subject.in_(part))
        connection.execute(delete(under_way).where(these, under_way.c.deaths <= 0))
        connection.execute(update(under_way).where(these).values(worker=_NOBODY))


def end(connection: Connection, kind: UnderWayKind, subjects: Sequence[str]) -> None:
    """Delete what has become something."""
    for part in batches(subjects):
        connection.execute(delete(under_way).where(under_way.c.kind == kind, under_way.c.subject.in_(part)))


def end_of_turns(connection: Connection, turn_ids: Sequence[str]) -> None:
    """Delete what stands of turns whose text goes, and of their jobs; only what processes died with has rows."""
    end(connection, "turn", turn_ids)
    of_these = frozenset(turn_ids)
    subjects = connection.execute(select(under_way.c.subject).where(under_way.c.kind == "job")).scalars()
    end(connection, "job", sorted(subject for subject in subjects if subject.partition(" ")[0] in of_these))


def deaths(connection: Connection, kind: UnderWayKind, subjects: Sequence[str], *, worker: str) -> Mapping[str, int]:
    """Return during which of these how many processes died; see `UnderWayStore.deaths`."""
    another = and_(under_way.c.worker != worker, under_way.c.worker != _NOBODY).label("another")
    counted: dict[str, int] = {}
    for part in batches(subjects):
        columns = select(under_way.c.subject, under_way.c.deaths, another)
        rows = connection.execute(columns.where(under_way.c.kind == kind, under_way.c.subject.in_(part)))
        counted.update({row.subject: row.deaths + row.another for row in rows if row.another or row.deaths > 0})
    return counted


def set_aside(connection: Connection, kind: UnderWayKind) -> tuple[str, ...]:
    """Return what ended so many processes that it is not tried again."""
    statement = select(under_way.c.subject).where(under_way.c.kind == kind, under_way.c.deaths >= DEATHS)
    return tuple(connection.execute(statement.order_by(under_way.c.subject)).scalars())
