"""Transactions on PostgreSQL that lean on nothing that a connection remembers: a pooler lends another one for each.

PgBouncer in transaction mode (https://www.pgbouncer.org/features.html) hands a connection of the server to whoever
begins next. What a session `SET` there meets the next client, and is not met by our own next transaction; statements
prepared there are unknown, or known to somebody else. So whatever we need is said with each BEGIN, in the same message.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from sqlalchemy import URL, Connection, event

from monitor.errors import ConfigError, StoreUnavailable

if TYPE_CHECKING:
    from types import ModuleType

    import psycopg
    from psycopg.pq.abc import PGresult
    from sqlalchemy import Engine
    from sqlalchemy.engine import ExceptionContext

Level: TypeAlias = Literal["READ COMMITTED", "REPEATABLE READ"]

_STATEMENT_TIMEOUT = timedelta(minutes=2)
_CONNECT_TIMEOUT = timedelta(seconds=5)
_UNANSWERED = timedelta(seconds=30)
_LOST = frozenset({None, "57P01", "57P02", "57P03", "57P05", "25P03", "25P04"})
_PREPARE = "prepare_threshold"


def without_our_options(url: URL) -> URL:
    """Return the URL as libpq takes it: `prepare_threshold` is psycopg's."""
    return url.difference_update_query([_PREPARE])


def arguments(url: URL) -> dict[str, object]:
    """Return what a connection is opened with; what the URL's query says itself goes first.

    Raises:
        ConfigError: `prepare_threshold` is neither a number nor `none`.
    """
    ours: dict[str, object] = {
        "connect_timeout": round(_CONNECT_TIMEOUT.total_seconds()),
        "application_name": "rag-monitor",
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        # Keepalives are not sent while an answer to what was sent is awaited from a host that is gone.
        "tcp_user_timeout": _milliseconds(_UNANSWERED),
    }
    return {
        **{name: value for name, value in ours.items() if name not in url.query},
        _PREPARE: _prepare_threshold(url.query.get(_PREPARE, "none")),
    }


def ask_for_password(engine: Engine, password: Callable[[], str | None]) -> None:
    """Have each new connection log in with what `password` gives then; None for no password."""

    def take(_: object, __: object, ___: object, parameters: dict[str, object]) -> None:
        parameters["password"] = password()

    event.listen(engine, "do_connect", take)


def _prepare_threshold(value: str | tuple[str, ...]) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if value in {"none", "None", ""}:
        return None
    raise ConfigError(
        f"{_PREPARE} in its query: expected `none`, or after how many executions a statement is prepared: "
        "a whole number, and only without a pooler",
        where="store.url",
    )


class Beginning:
    """Begins transactions on an engine's connections, under our settings, and not waiting longer than `patience`."""

    def __init__(self, engine: Engine, driver: ModuleType, *, patience: timedelta) -> None:
        self._engine = engine
        self._driver = driver
        self._patience = patience
        self._settings = "".join(
            (
                f"; SET LOCAL lock_timeout = {_milliseconds(patience)}",
                f"; SET LOCAL statement_timeout = {_milliseconds(_STATEMENT_TIMEOUT)}",
                f"; SET LOCAL idle_in_transaction_session_timeout = {_milliseconds(_STATEMENT_TIMEOUT)}",
                # Compiling takes 140 ms of what is otherwise a 5 ms walk along a queue of 15,000.
                "; SET LOCAL jit = off",
                # A role or database set to `off` would acknowledge what a crash can lose; stricter settings stay.
                "; SELECT set_config('synchronous_commit', 'on', true)",
                " WHERE current_setting('synchronous_commit') = 'off'",
            )
        )

    def begun(self, level: Level, doing: str) -> Connection:
        """Return a connection in a transaction of its own; its closing without a commit rolls back.

        A connection that died while nobody used it (the server or the pooler restarted) is replaced by another: nothing
        had been asked of it but to begin.

        Raises:
            StoreUnavailable: no answer came in time: the server is stuck, or a pooler has no connection to lend.
        """
        deadline = time.monotonic() + self._patience.total_seconds()
        while True:
            connection = self._engine.connect()
            try:
                connection.begin()
                if self._answered(connection, f"BEGIN ISOLATION LEVEL {level}{self._settings}", deadline):
                    return connection
                connection.invalidate()
            except BaseException as error:
                dead = isinstance(error, self._driver.Error) and _broken(connection)
                if dead:
                    connection.invalidate()
                connection.close()
                if dead and time.monotonic() < deadline:
                    continue
                raise
            connection.close()
            raise StoreUnavailable(
                f"{doing}: no answer within {self._patience.total_seconds():g} s: the server is stuck, "
                "or a pooler before it has no connection to lend (PgBouncer: default_pool_size)",
                reason="unreachable",
                retry_after=timedelta(seconds=2),
            )

    def _answered(self, connection: Connection, statements: str, deadline: float) -> bool:
        """Send statements and return whether all were answered in time.

        psycopg waits without end, and PgBouncer lets those wait for 2 minutes that begin while all its connections are
        lent (`query_wait_timeout`). So this one message is sent and awaited below psycopg's cursors.

        Raises:
            Error: psycopg's, of what the server refused, or of a connection that is lost.
        """
        low = cast("psycopg.Connection[object]", connection.connection.driver_connection).pgconn
        low.send_query(statements.encode())
        refused: PGresult | None = None
        while True:
            while (unsent := low.flush()) or low.is_busy():
                poll = select.poll()
                poll.register(low.socket, select.POLLIN | (select.POLLOUT if unsent else 0))
                if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    return False
                low.consume_input()
            result = low.get_result()
            if result is None:
                break
            if result.status == self._driver.pq.ExecStatus.FATAL_ERROR:
                refused = refused or result
        if refused is not None:
            raise self._driver.errors.error_from_result(refused)
        return True


def drop_if_lost(context: ExceptionContext) -> None:
    """Have SQLAlchemy drop a connection that was lost at work; it would roll back on it, and log that this fails.

    psycopg 3.3.9 calls a connection that the server ended within `executemany` busy, not closed. What the server itself
    refuses has an SQLSTATE; those are of sessions that it ends with the refusal (PostgreSQL, appendix A).
    """
    error = context.original_exception
    operational = isinstance(error, cast("ModuleType", context.dialect.loaded_dbapi).OperationalError)
    if operational and context.connection is not None and getattr(error, "sqlstate", None) in _LOST:
        context.is_disconnect = True


def _broken(connection: Connection) -> bool:
    """Return whether nothing can be asked of the connection any more."""
    driver_connection = connection.connection.driver_connection
    return driver_connection is None or bool(driver_connection.closed or driver_connection.broken)


def _milliseconds(value: timedelta) -> int:
    return value // timedelta(milliseconds=1)
