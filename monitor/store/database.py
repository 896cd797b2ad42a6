"""Connections to SQLite or PostgreSQL, and the only ways to use one: `reading`, `following` and `writing`.

All translate every failure to `StoreUnavailable` and leave no transaction open behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from monitor.errors import StoreUnavailable
from monitor.store import postgresql, sqlite_file
from monitor.store.address import parse, place
from monitor.store.driver_errors import unavailable
from monitor.store.fair_lock import FairLock
from monitor.store.sqlite_file import SqliteFile
from monitor.store.wal import WriteAheadLog

if TYPE_CHECKING:
    import sqlite3
    from types import ModuleType

MAX_CONNECTIONS = 32
"""As many as there can be threads of `asyncio.to_thread`, which runs cores + 4 and never more than 32."""

_KEPT_OPEN = 8


@dataclass(frozen=True, slots=True)
class Renewed:
    """Where a database is whose password may change."""

    address: URL
    password: Callable[[], str | None]
    """Asked for each new connection to PostgreSQL."""


class Database:
    """One database and its pool of connections; safe to share between threads."""

    def __init__(
        self,
        url: str | URL | Renewed,
        *,
        patience: timedelta,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        """Check the address; nothing is opened yet.

        Raises:
            ConfigError: the URL is wrong, or what it needs is not installed.
        """
        address = parse(url.address if isinstance(url, Renewed) else url)
        self.sqlite = address.get_backend_name() == "sqlite"
        self.place = place(address)
        self._patience = patience
        self._write_lock = FairLock()
        self._file = SqliteFile(address) if self.sqlite else None
        self._log = WriteAheadLog(self._file.path) if self._file is not None else None
        kept = min(_KEPT_OPEN, max_connections)
        self._engine = create_engine(
            address if self.sqlite else postgresql.without_our_options(address),
            poolclass=QueuePool,
            pool_size=kept,
            max_overflow=max_connections - kept,
            # The one returned last is warm; in turn, all eight would hold full page caches.
            pool_use_lifo=True,
            pool_timeout=patience.total_seconds(),
            hide_parameters=True,
            connect_args=sqlite_file.arguments(patience) if self.sqlite else postgresql.arguments(address),
            **({"isolation_level": None} if self.sqlite else {"use_native_hstore": False}),
        )
        driver = self._engine.dialect.loaded_dbapi
        self._errors: tuple[type[Exception], ...] = (DBAPIError, driver.Error)
        self._beginning: postgresql.Beginning | None = None
        if self._file is not None:
            self._prepare_sqlite(self._file)
        else:
            if isinstance(url, Renewed):
                postgresql.ask_for_password(self._engine, url.password)
            self._beginning = postgresql.Beginning(self._engine, cast("ModuleType", driver), patience=patience)
            event.listen(self._engine, "handle_error", postgresql.drop_if_lost)

    def _prepare_sqlite(self, file: SqliteFile) -> None:
        def open_file(*_: object) -> None:
            file.before_connecting()

        def prepare(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
            file.note()
            sqlite_file.prepare(connection)

        event.listen(self._engine, "do_connect", open_file)
        event.listen(self._engine, "connect", prepare)
        event.listen(self._engine, "begin", sqlite_file.begin)

    @contextmanager
    def reading(self, doing: str) -> Iterator[Connection]:
        """Yield a connection whose statements all see the same moment; nothing is kept of what they write."""
        with self._served(doing), self._begun("REPEATABLE READ", doing) as connection:
            yield connection

    @contextmanager
    def following(self, doing: str) -> Iterator[Connection]:
        """As `reading`, but on PostgreSQL each statement sees what was committed when it began."""
        with self._served(doing), self._begun("READ COMMITTED", doing) as connection:
            yield connection

    @contextmanager
    def writing(self, doing: str) -> Iterator[Connection]:
        """Yield a connection in a transaction, committed at the end, rolled back on any exception."""
        with (
            self._served(doing),
            self._in_turn(doing),
            self._begun("READ COMMITTED", doing, sqlite="BEGIN IMMEDIATE") as connection,
        ):
            yield connection
            if self._file is not None:
                self._file.require_log_in_place()
            connection.commit()
            if self._log is not None:
                self._log.bound(cast("sqlite3.Connection", connection.connection.driver_connection))

    @contextmanager
    def outside_transactions(self, doing: str) -> Iterator[Connection]:
        """Yield a connection to SQLite that begins no transaction, for pragmas that must not be in one."""
        with self._served(doing), self._begun("READ COMMITTED", doing, sqlite="") as connection:
            yield connection

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

    def rewrite(self, tables: Sequence[str]) -> None:
        """Write these tables, on SQLite the whole file, anew, without what was deleted; writers wait meanwhile.

        Raises:
            StoreUnavailable: the database cannot be reached, has no room for the rows a second time, or is being read.
        """
        doing = "rewriting tables"
        if self._log is None:
            with self._served(doing), self._engine.connect() as connection:
                connection.execution_options(isolation_level="AUTOCOMMIT")
                connection.exec_driver_sql(f"VACUUM (FULL) {', '.join(tables)}")
            return
        with self._served(doing), self._in_turn(doing), self.outside_transactions(doing) as connection:
            # In memory, as other temporary data of ours, would be the whole file.
            connection.exec_driver_sql("PRAGMA temp_store = FILE")
            connection.exec_driver_sql("VACUUM")
            connection.exec_driver_sql("PRAGMA temp_store = MEMORY")
            if not self._log.empty(cast("sqlite3.Connection", connection.connection.driver_connection)):
                raise StoreUnavailable(
                    f"{doing}: {self.place}: a reader keeps the log from being written into the file", reason="locked"
                )

    def close(self) -> None:
        """Close the pool's connections."""
        self._engine.dispose()

    @contextmanager
    def _begun(self, level: postgresql.Level, doing: str, *, sqlite: str = "BEGIN") -> Iterator[Connection]:
        """Yield a connection in a transaction; what was not committed at the end is rolled back."""
        if self._beginning is not None:
            connection = self._beginning.begun(level, f"{doing}: {self.place}")
        else:
            connection = self._engine.connect().execution_options(**{sqlite_file.BEGIN: sqlite})
        with connection:
            if self._file is not None:
                self._file.require_in_place()
                connection.begin()
            yield connection

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
            path = None if self._file is None else self._file.path
            raise unavailable(error, f"{doing}: {self.place}", file=path) from None
