"""Leases by the clock that all processes of one database share, and that clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, func, or_, select, update

from monitor.store.statements import insert
from monitor.store.tables import leases

_WAIT = timedelta(minutes=1)
"""More than passes between reading the clock and having the row, which somebody else may have taken meanwhile."""


def now(connection: Connection) -> datetime:
    """Return what time it is: PostgreSQL's, or this host's, where all processes of an SQLite file run."""
    if connection.dialect.name != "postgresql":
        return datetime.now(UTC)
    at: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
    return at.astimezone(UTC)


def take(connection: Connection, name: str, holder: str, *, ttl: timedelta) -> bool:
    """Take or extend the lease; see `LeaseStore.take_lease`.

    Nobody takes one for longer than `ttl`: what ends later was written before the clock was set back, and is over.
    """
    at = now(connection)
    statement = insert(connection, leases).values(name=name, holder=holder, expires_at=at + ttl)
    new, ends = statement.excluded, leases.c.expires_at
    taken = connection.execute(
        statement.on_conflict_do_update(
            index_elements=["name"],
            set_={"holder": new.holder, "expires_at": new.expires_at},
            where=or_(leases.c.holder == new.holder, ends <= at, ends > at + ttl + _WAIT),
        ).returning(leases.c.holder)
    )
    return taken.first() is not None


def give_back(connection: Connection, name: str, holder: str) -> None:
    """End the lease now, if it is this holder's; see `LeaseStore.give_lease_back`."""
    connection.execute(
        update(leases).where(leases.c.name == name, leases.c.holder == holder).values(expires_at=now(connection))
    )


def left(connection: Connection, name: str) -> timedelta | None:
    """Return how long the lease lasts yet; see `LeaseStore.lease_left`."""
    ends: datetime | None = connection.execute(select(leases.c.expires_at).where(leases.c.name == name)).scalar()
    return None if ends is None else ends - now(connection)
