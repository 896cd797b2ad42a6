"""Traces that turns link to and that have not arrived, or not far enough: whoever waits for one is read again then.

A row says how far the linked trace had arrived when it was looked at, so that only something new in it reopens a trace,
and two traces that link to each other do not reopen each other without end.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    PrimaryKeyConstraint,
    Table,
    Text,
    delete,
    exists,
    or_,
    select,
    text,
)

from monitor.model.spans import Assembly
from monitor.store import spans
from monitor.store.naming import metadata
from monitor.store.statements import batches, insert
from monitor.store.tables import traces

LOCK = 0x7261676C696E6B
"""Key of the lock that assemblies on PostgreSQL share, "raglink", beside that of appends."""

_MOST_REOPENED = 1000
"""Traces that one write reopens; whoever else waits is reopened when the linked trace is read the next time."""

awaited_links = Table(
    "awaited_links",
    metadata,
    Column("trace_id", Text, nullable=False),
    Column("linked_trace_id", Text, nullable=False),
    Column("through", BigInteger, nullable=False),
    PrimaryKeyConstraint("trace_id", "linked_trace_id"),
)
Index(None, awaited_links.c.linked_trace_id)


def lock(connection: Connection, assemblies: Sequence[Assembly]) -> None:
    """Let nobody else write assemblies at a time when one of these waits for a trace, until the transaction ends.

    Two that did saw nothing of each other: one, that the trace it waits for was written; the other, that somebody
    waits for it. To be called before any row is locked. Several write at a time only while the scheduler changes.
    """
    if connection.dialect.name == "postgresql":
        shared = "" if any(assembly.awaited for assembly in assemblies) else "_shared"
        connection.execute(text(f"SELECT pg_advisory_xact_lock{shared}(:key)"), {"key": LOCK})


def replace(connection: Connection, assemblies: Sequence[Assembly], *, now: datetime) -> None:
    """Write what these traces wait for, and reopen those that wait for one of them and have not seen it as it is."""
    ids = sorted(assembly.trace_id for assembly in assemblies)
    for part in batches(ids):
        connection.execute(delete(awaited_links).where(awaited_links.c.trace_id.in_(part)))
    rows = [
        {"trace_id": assembly.trace_id, "linked_trace_id": linked, "through": through}
        for assembly in assemblies
        for linked, through in sorted(assembly.awaited.items())
    ]
    if rows:
        connection.execute(insert(connection, awaited_links).on_conflict_do_nothing(), rows)
    news = traces.c.trace_id == awaited_links.c.linked_trace_id, traces.c.through > awaited_links.c.through
    waiting: set[str] = set()
    for part in batches(ids):
        # What was read while its link's trace was being read may have missed it, and the other way round.
        mine = or_(awaited_links.c.linked_trace_id.in_(part), awaited_links.c.trace_id.in_(part))
        columns = select(awaited_links.c.trace_id).where(mine, exists().where(*news)).distinct()
        waiting.update(connection.execute(columns.order_by(awaited_links.c.trace_id).limit(_MOST_REOPENED)).scalars())
    if waiting:
        reopened = sorted(waiting)
        spans.reopen(connection, reopened, as_of=now)
        for part in batches(reopened):
            connection.execute(delete(awaited_links).where(awaited_links.c.trace_id.in_(part)))


def prune(connection: Connection, trace_ids: Sequence[str]) -> None:
    """Forget what these traces waited for: not all of their spans are kept any more."""
    for part in batches(trace_ids):
        connection.execute(delete(awaited_links).where(awaited_links.c.trace_id.in_(part)))


def erase(connection: Connection, trace_ids: Sequence[str]) -> None:
    """Forget these traces on either side of a link."""
    prune(connection, trace_ids)
    for part in batches(trace_ids):
        connection.execute(delete(awaited_links).where(awaited_links.c.linked_trace_id.in_(part)))
