"""Connections to SQLite or PostgreSQL, and the only two ways to use one: `reading` and `writing`.

Both translate every failure to `StoreUnavailable` and leave no transaction open behind them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import cast

from sqlalchemy import URL, Connection, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from monitor.errors import ConfigError, StoreUnavailable
from monitor.store.driver_errors import unavailable
from monitor.store.fair_lock import FairLock
from monitor.store.wal import LIMIT, WriteAheadLog

_ALLOWED = "allowed: sqlite:///path/of/file.db and postgresql+psycopg://user:password@host:5432/database"
_BEGIN = "sqlite_begin"
_STATEMENT_TIMEOUT = timedelta(minutes=2)
_CONNECT_TIMEOUT = timedelta(seconds=5)


class Database:
    """One database and its pool of connections; safe to share between threads."""

    def __init__(self, url: str, *, patience: timedelta) -> None:
        parsed = _parse(url)
        self.sqlite = parsed.get_backend_name() == "sqlite"
        self.place = parsed.database if self.sqlite else f"{parsed.host or 'local'}/{parsed.database}"
        self._patience = patience
        self._write_lock = FairLock()
        self._file = Path(parsed.database or "") if self.sqlite else None
        self._log = WriteAheadLog(self._file) if self._file is not None else None
        try:
            # Pool sizes: `asyncio.to_thread` runs up to cores + 4 threads by default, and a few more do other work.
            self._engine = create_engine(
                parsed,
                poolclass=QueuePool,
                pool_size=8,
                max_overflow=24,
                # The one returned last is warm; in turn, all eight would hold full page caches.
                pool_use_lifo=True,
                pool_timeout=patience.total_seconds(),
                pool_pre_ping=not self.sqlite,
                hide_parameters=True,
                isolation_level=None if self.sqlite else "READ COMMITTED",
                connect_args=_sqlite_arguments(patience) if self.sqlite else _postgresql_arguments(parsed),
            )
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"{error.name} is not installed: pip install 'rag-monitor[postgres]'", where="store.url"
            ) from None
        self._errors: tuple[type[Exception], ...] = (DBAPIError, self._engine.dialect.loaded_dbapi.Error)
        if self.sqlite:
            event.listen(self._engine, "connect", _prepare_sqlite)
            event.listen(self._engine, "begin", _begin_sqlite)
        else:
            event.listen(self._engine, "connect", _postgresql_preparation(patience))

    @contextmanager
    def reading(self, doing: str) -> Iterator[Connection]:
        """Yield a connection whose statements all see the same moment; nothing is kept of what they write."""
        with self._served(doing), self._engine.connect() as connection:
            if not self.sqlite:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")  # noqa: PLW2901 -- the same one
            yield connection

    @contextmanager
    def following(self, doing: str) -> Iterator[Connection]:
        """As `reading`, but on PostgreSQL each statement sees what was committed when it began."""
        with self._served(doing), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, doing: str) -> Iterator[Connection]:
        """Yield a connection in a transaction, committed at the end, rolled back on any exception."""
        with self._served(doing), self._in_turn(doing), self._engine.connect() as connection:
            connection = connection.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})  # noqa: PLW2901 -- the same one
            with connection.begin():
                yield connection
            if self._log is not None:
                self._log.bound(cast("sqlite3.Connection", connection.connection.driver_connection))

    @contextmanager
    def outside_transactions(self, doing: str) -> Iterator[Connection]:
        """Yield a connection to SQLite that begins no transaction, for pragmas that must not be in one."""
        with self._served(doing), self._engine.connect() as connection:
            yield connection.execution_options(**{_BEGIN: ""})

    def empty_log(self) -> bool:
        """Take what was overwritten out of SQLite's log; False while a reader keeps it there. PostgreSQL's is its own.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        if self._log is None:
            return True
        doing = "emptying the log"
        with self._served(doing), self._in_turn(doing), self.outside_transactions(doing) as connection:
            return self._log.empty(cast("sqlite3.Connection", connection.connection.driver_connection))

    def close(self) -> None:
        """Close the pool's connections."""
        self._engine.dispose()

    @contextmanager
    def _in_turn(self, doing: str) -> Iterator[None]:
        """Queue the threads of this process; SQLite's own waiting polls, and lets whoever polls first in."""
        if not self.sqlite:
            yield
            return
        with self._write_lock.holding(self._patience) as entered:
            if not entered:
                raise StoreUnavailable(
                    f"{doing}: {self.place}: locked by this process for {self._patience.total_seconds():g} s",
                    reason="locked",
                    retry_after=timedelta(seconds=1),
                )
            yield

    @contextmanager
    def _served(self, doing: str) -> Iterator[None]:
        try:
            yield
        except PoolTimeoutError:
            raise StoreUnavailable(
                f"{doing}: {self.place}: no free connection within {self._patience.total_seconds():g} s",
                reason="locked",
                retry_after=timedelta(seconds=1),
            ) from None
        except self._errors as error:
            raise unavailable(error, f"{doing}: {self.place}", file=self._file) from None


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        if parsed.drivername in {"postgresql", "postgres"}:
            parsed = parsed.set(drivername="postgresql+psycopg")
        parsed.get_dialect()
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{error.name} is not installed: pip install 'rag-monitor[postgres]'", where="store.url"
        ) from None
    except (ArgumentError, NoSuchModuleError):
        raise ConfigError(f"not a database URL that is known here; {_ALLOWED}", where="store.url") from None
    if parsed.drivername not in {"sqlite", "sqlite+pysqlite", "postgresql+psycopg"}:
        raise ConfigError(f"no store for {parsed.drivername!r}; {_ALLOWED}", where="store.url")
    if parsed.get_backend_name() != "sqlite":
        return parsed
    if not parsed.database or parsed.database == ":memory:" or parsed.query.get("mode") == "memory":
        raise ConfigError(f"SQLite in memory would lose what was acknowledged; {_ALLOWED}", where="store.url")
    folder = Path(parsed.database).parent
    if not parsed.database.startswith("file:") and not folder.is_dir():
        raise ConfigError(f"no folder {str(folder)!r} to keep {Path(parsed.database).name!r} in", where="store.url")
    return parsed


def _sqlite_arguments(patience: timedelta) -> dict[str, object]:
    return {"timeout": patience.total_seconds(), "check_same_thread": False}


def _postgresql_arguments(url: URL) -> dict[str, object]:
    ours: dict[str, object] = {
        "connect_timeout": round(_CONNECT_TIMEOUT.total_seconds()),
        "application_name": "rag-monitor",
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
    }
    return {name: value for name, value in ours.items() if name not in url.query}


def _prepare_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # The driver's own transaction handling starts transactions late and never as IMMEDIATE; `_begin_sqlite` does it.
    connection.isolation_level = None
    cursor = connection.cursor()
    # FULL: the write-ahead log is synced at every commit, so what was acknowledged survives a power cut.
    # A checkpoint each 4096 pages (32 MB) instead of 1000 costs a tenth less per span at 10 kB a row.
    # Each of the pool's connections has a page cache of its own. With 16 MB each the monitor was 15 MB larger under
    # full load and no faster than with 2 MB, since the system keeps the file's pages anyway.
    for pragma in (
        "synchronous = FULL",
        "foreign_keys = ON",
        "wal_autocheckpoint = 4096",
        f"journal_size_limit = {LIMIT // 2}",
        "cache_size = -2000",
        "temp_store = MEMORY",
        # Deleted text is overwritten. Debian's SQLite does so on its own, others leave it in the file.
        "secure_delete = ON",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    if statement := connection.get_execution_options().get(_BEGIN, "BEGIN"):
        connection.exec_driver_sql(statement)


def _postgresql_preparation(patience: timedelta) -> Callable[[DBAPIConnection, ConnectionPoolEntry], None]:
    """Statements instead of start-up options, which poolers such as PgBouncer refuse."""

    def milliseconds(value: timedelta) -> int:
        return value // timedelta(milliseconds=1)

    statements = (
        f"SET lock_timeout = {milliseconds(patience)}",
        f"SET statement_timeout = {milliseconds(_STATEMENT_TIMEOUT)}",
        f"SET idle_in_transaction_session_timeout = {milliseconds(_STATEMENT_TIMEOUT)}",
        # Compiling takes 140 ms of what is otherwise a 5 ms walk along a queue of 15,000.
        "SET jit = off",
        # A role or database set to `off` would acknowledge what a crash can lose; stricter settings are left alone.
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
    )

    def prepare(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        cursor.close()
        connection.commit()

    return prepare
