"""Fragments as received: made durable in one transaction, found when their trace is due, read back in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import cast

from sqlalchemy import Connection, and_, exists, func, literal, or_, select, text

from monitor.model.spans import Fragment, Signal, StoredFragment
from monitor.model.stored import ReceivedTrace, TraceSize
from monitor.store import erased_traces, under_way
from monitor.store.columns import Instant, microseconds
from monitor.store.database import Database
from monitor.store.statements import batches, insert
from monitor.store.tables import spans, traces, turns, unassembled

BARRIER = 0x7261677370616E
"""Key of the lock that appends on PostgreSQL share, "ragspan", beside that of migrations."""

# The one hot statement, written for each driver: Core's own executemany costs 0.2 s more CPU per 100,000 spans.
_SQLITE_APPEND = (
    "INSERT INTO spans (trace_id, signal, count, received_at, digest, payload) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING"
)
_SQLITE_QUEUE = (
    "INSERT INTO unassembled (position, trace_id, received_at) "
    "SELECT position, trace_id, received_at FROM spans WHERE position > ?"
)
# psycopg sends an executemany as one pipeline. Measured beside it, in spans/s of fragments of 3 spans and 10.5 kB:
# this 50,000, multi-row VALUES 54,000 (and more client CPU), COPY through a temporary table 29,000, unnest 12,000.
_POSTGRESQL_APPEND = (
    "WITH stored AS (INSERT INTO spans (trace_id, digest, position, signal, count, received_at, payload) "
    "VALUES (%b, %b, %b, %b, %b, %b, %b) ON CONFLICT DO NOTHING RETURNING position, trace_id, received_at) "
    "INSERT INTO unassembled (position, trace_id, received_at) SELECT position, trace_id, received_at FROM stored"
)
_POSITIONS = text("SELECT nextval(pg_get_serial_sequence('spans', 'position')) FROM generate_series(1, :count)")


def append(connection: Connection, fragments: Sequence[Fragment]) -> int:
    """Write the fragments that are not known yet, and of no trace that was erased; return how many they were."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock_shared(:key)"), {"key": BARRIER})
    erased = erased_traces.among(connection, {f.trace_id for f in fragments})
    wanted = [f for f in fragments if f.trace_id not in erased]
    if not wanted:
        return 0
    if connection.dialect.name == "postgresql":
        # Placed in the order they came in, and written in one that is everybody's: of two who store the same fragments
        # in different orders each would wait for the other.
        positions = connection.execute(_POSITIONS, {"count": len(wanted)}).scalars()
        placed = [
            (f.trace_id, f.digest, position, f.signal, f.count, microseconds(f.received_at), f.payload)
            for f, position in zip(wanted, positions, strict=True)
        ]
        return connection.exec_driver_sql(_POSTGRESQL_APPEND, sorted(placed)).rowcount
    rows = [(f.trace_id, f.signal, f.count, microseconds(f.received_at), f.digest, f.payload) for f in wanted]
    last = connection.exec_driver_sql("SELECT coalesce(max(position), 0) FROM spans").scalar_one()
    connection.exec_driver_sql(_SQLITE_APPEND, rows)
    return connection.exec_driver_sql(_SQLITE_QUEUE, (last,)).rowcount


def due(
    connection: Connection, *, quiet_since: datetime, open_since: datetime, limit: int, ahead: datetime | None
) -> tuple[str, ...]:
    """Return traces whose waiting fragments are all older than `quiet_since`, or one older than `open_since`.

    The walk follows the queue and stops at `limit`, however long the queue is: each trace shows up once, at its first
    waiting fragment. Where that one is too young no other of its trace needs to be looked at, which is so for nearly
    all of a queue that is worked off in time.
    """
    first, other, queued = unassembled.alias("first"), spans.alias("other"), unassembled.alias("queued")
    same_trace = and_(other.c.trace_id == first.c.trace_id, queued.c.position == other.c.position)
    earlier = exists().where(same_trace, queued.c.position < first.c.position)
    believed = [] if ahead is None else [queued.c.received_at < ahead]
    late = exists().where(same_trace, queued.c.received_at >= quiet_since, *believed)
    settled = first.c.received_at < max(quiet_since, open_since)
    aged = exists().where(same_trace, queued.c.received_at < open_since)
    rows = connection.execute(
        select(first.c.trace_id)
        .where(
            settled if ahead is None else or_(settled, first.c.received_at >= ahead),
            ~earlier,
            or_(~late, aged),
        )
        .order_by(first.c.position)
        .limit(limit)
    )
    return tuple(rows.scalars())


def received(connection: Connection, *, since: datetime | None, after: str, limit: int) -> tuple[ReceivedTrace, ...]:
    """Return traces by id; see `SpanStore.received`."""
    recent = [] if since is None else [spans.c.received_at >= since]
    ids = select(spans.c.trace_id).where(spans.c.trace_id > after, *recent).distinct()
    page = ids.order_by(spans.c.trace_id).limit(limit).subquery()
    rows = connection.execute(
        select(page.c.trace_id, turns.c.app)
        .join(turns, turns.c.trace_id == page.c.trace_id, isouter=True)
        .order_by(page.c.trace_id)
    )
    return tuple(
        ReceivedTrace(trace_id=trace_id, apps=frozenset(app for _, app in group if app is not None))
        for trace_id, group in groupby(rows, key=lambda row: cast("str", row[0]))
    )


def failed_traces(connection: Connection, *, rules: str, limit: int) -> tuple[str, ...]:
    """Return traces to try again; see `SpanStore.failed_traces`."""
    waiting = exists().where(unassembled.c.trace_id == traces.c.trace_id)
    kept = exists().where(spans.c.trace_id == traces.c.trace_id)
    found = select(traces.c.trace_id).where(traces.c.failed, traces.c.rules != rules, ~traces.c.pruned, ~waiting, kept)
    return tuple(connection.execute(found.order_by(traces.c.trace_id).limit(limit)).scalars())


def reopen(connection: Connection, trace_ids: Sequence[str], *, as_of: datetime) -> int:
    """Put the fragments of traces back into the queue; see `SpanStore.reopen`."""
    pruned = exists().where(traces.c.trace_id == spans.c.trace_id, traces.c.pruned)
    opened = 0
    under_way.end(connection, "trace", trace_ids)
    for part in batches(trace_ids):
        waiting = select(spans.c.position, spans.c.trace_id, literal(as_of, Instant)).where(
            spans.c.trace_id.in_(part), ~pruned
        )
        queue = insert(connection, unassembled).from_select(["position", "trace_id", "received_at"], waiting)
        connection.execute(queue.on_conflict_do_nothing())
        count = select(func.count(spans.c.trace_id.distinct())).where(spans.c.trace_id.in_(part), ~pruned)
        opened += connection.execute(count).scalar_one()
    return opened


def sizes(connection: Connection, trace_ids: Sequence[str]) -> Mapping[str, TraceSize]:
    """Return how much is stored of each trace; see `SpanStore.sizes`."""
    counted: dict[str, TraceSize] = {}
    for part in batches(trace_ids):
        columns = spans.c.trace_id, func.max(spans.c.position), func.sum(spans.c.count)
        rows = connection.execute(select(*columns).where(spans.c.trace_id.in_(part)).group_by(spans.c.trace_id))
        counted.update({trace_id: TraceSize(through=last, records=int(records)) for trace_id, last, records in rows})
    return counted


def read(database: Database, trace_ids: Sequence[str]) -> Mapping[str, tuple[StoredFragment, ...]]:
    """Return the fragments of each trace; see `SpanStore.fragments`."""
    with database.following("reading fragments") as connection:
        through = high_water(connection)
    with database.reading("reading fragments") as connection:
        return fragments(connection, trace_ids, through=through)


def high_water(connection: Connection) -> int:
    """Return a position up to which every fragment is either visible to later reads or will never be.

    PostgreSQL gives positions out before it commits, so a trace could be read without a fragment that has a lower
    position and is still on its way, and that would then count as assembled. Appends share a lock for the length of
    their transaction; having held it alone for a moment means that none is on its way.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": BARRIER})
    last: int = connection.execute(select(func.coalesce(func.max(spans.c.position), 0))).scalar_one()
    return last


def fragments(
    connection: Connection, trace_ids: Sequence[str], *, through: int
) -> Mapping[str, tuple[StoredFragment, ...]]:
    """Return the fragments of each trace up to position `through`, in order of arrival."""
    by_trace: dict[str, list[StoredFragment]] = {trace_id: [] for trace_id in trace_ids}
    rows = connection.execute(
        select(spans)
        .where(spans.c.trace_id.in_(list(by_trace)), spans.c.position <= through)
        .order_by(spans.c.trace_id, spans.c.position)
    )
    for position, trace_id, signal, count, received_at, digest, payload in rows:
        fragment = Fragment(
            trace_id=trace_id,
            signal=cast("Signal", signal),
            payload=payload,
            count=count,
            received_at=received_at,
            digest=digest,
        )
        by_trace[trace_id].append(StoredFragment(position=position, fragment=fragment))
    return {trace_id: tuple(stored) for trace_id, stored in by_trace.items()}


def containing(connection: Connection, what: bytes, *, after: int, limit: int) -> tuple[int | None, tuple[str, ...]]:
    """Look into `limit` payloads behind position `after` for bytes; see `TextStore.traces_with`.

    Returns:
        The last position looked at, None when there is none, and the traces that have the bytes.
    """
    looked_at = select(spans.c.position).where(spans.c.position > after).order_by(spans.c.position).limit(limit)
    last = connection.execute(select(func.max(looked_at.subquery().c.position))).scalar()
    if last is None:
        return None, ()
    find = "position(:what in payload)" if connection.dialect.name == "postgresql" else "instr(payload, :what)"
    within = f"SELECT DISTINCT trace_id FROM spans WHERE position > :after AND position <= :last AND {find} > 0"  # noqa: S608 -- our own names
    found = connection.execute(text(within), {"what": what, "after": after, "last": last}).scalars()
    return last, tuple(found)
