"""Which windows changed since they were last rolled up."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlalchemy import BigInteger, Connection, delete, func, literal, select, type_coerce

from monitor.model.spans import EPOCH
from monitor.model.stored import Window
from monitor.store.database import Database
from monitor.store.statements import insert
from monitor.store.tables import changed_windows, rollups, turns, window_length

_MICROSECOND = timedelta(microseconds=1)


def window_start(instant: datetime, length: timedelta) -> datetime:
    """Return the start of the window that holds `instant`; windows are counted from 1970 UTC.

    >>> window_start(datetime.fromisoformat("2026-03-01T13:30:00-08:00"), timedelta(hours=1)).isoformat()
    '2026-03-01T21:00:00+00:00'
    """
    return EPOCH + (instant - EPOCH) // length * length


def mark(connection: Connection, moments: Iterable[tuple[str, str, datetime]], *, length: timedelta) -> None:
    """Mark the windows of these (app, environment, start of a turn) as changed; the transaction's last statement.

    The mark is a fresh random number: it tells this change from any other without a counter that all writers would
    queue for. Windows are marked in order, so that two writers never wait for each other.
    """
    starts = sorted({(app, environment, window_start(at, length)) for app, environment, at in moments})
    if not starts:
        return
    statement = insert(connection, changed_windows)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["app", "environment", "window_start"], set_={"mark": statement.excluded.mark}
        ),
        [
            {"app": app, "environment": environment, "window_start": start, "mark": secrets.randbits(62)}
            for app, environment, start in starts
        ],
    )


def changed(connection: Connection, limit: int) -> tuple[Window, ...]:
    """Return marked windows, oldest first."""
    order = (changed_windows.c.window_start, changed_windows.c.app, changed_windows.c.environment)
    return tuple(
        Window(app=row.app, environment=row.environment, start=row.window_start, mark=row.mark)
        for row in connection.execute(select(changed_windows).order_by(*order).limit(limit))
    )


def adopt(database: Database, length: timedelta) -> None:
    """Make `length` the length of all windows: rollups of another length are dropped and all windows marked."""
    with database.reading("reading the length of windows") as connection:
        if _adopted(connection, length):
            return
    with database.writing("changing the length of windows") as connection:
        # Another process may have done it meanwhile.
        if not _adopted(connection, length):
            _change_length(connection, length)


def _adopted(connection: Connection, length: timedelta) -> bool:
    return connection.execute(select(window_length.c.length)).scalars().all() == [length]


def _change_length(connection: Connection, length: timedelta) -> None:
    connection.execute(delete(window_length))
    connection.execute(insert(connection, window_length).values(length=length).on_conflict_do_nothing())
    connection.execute(delete(rollups))
    connection.execute(delete(changed_windows))
    at, step = type_coerce(turns.c.started_at, BigInteger), length // _MICROSECOND
    # The remainder of a negative number is negative in SQL; windows before 1970 start below it all the same.
    start = at - func.mod(func.mod(at, step) + step, step)
    every = select(turns.c.app, turns.c.environment, start, literal(secrets.randbits(62), BigInteger)).distinct()
    connection.execute(insert(connection, changed_windows).from_select(changed_windows.c.keys(), every))
