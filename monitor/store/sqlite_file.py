"""The file of a SQLite database: made for its owner alone, and missed when it is taken away.

On Unix a file that is removed or replaced lives on, without a name, for those that have it open: what they write there
is gone with them. So each transaction asks whether the name still leads to the file that it is written to.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote

from sqlalchemy import URL, Connection
from sqlalchemy.engine.interfaces import DBAPIConnection

from monitor.errors import StoreUnavailable
from monitor.store.wal import LIMIT

BEGIN = "sqlite_begin"
"""Execution option: the statement that begins a connection's transaction; "" for none."""

_MODE = 0o600


class SqliteFile:
    """One database file, from the first connection to it on."""

    def __init__(self, url: URL) -> None:
        name = url.database or ""
        is_uri = name.startswith("file:")
        self.path = Path(unquote(name.removeprefix("file:"))) if is_uri else Path(name)
        self._is_made = not is_uri or url.query.get("mode", "rwc") == "rwc"
        self._log = self.path.with_name(f"{self.path.name}-wal")
        self._identity: tuple[int, int] | None = None
        self._logs_ahead = False

    def before_connecting(self) -> None:
        """Make the file, if it is to be made; SQLite gives its `-wal` and `-shm` the rights that it finds on it.

        Raises:
            StoreUnavailable: connections to a file of that name were made before, and it is there no more.
        """
        if self._identity is None and self._is_made:
            # What cannot be made here, SQLite cannot make either, and says why.
            with suppress(OSError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _MODE))
        self.require_in_place()

    def note(self) -> None:
        """Remember which file it is, once the first connection is there."""
        # Not before: in a container, opening a file of the image to write makes it another one.
        self._identity = self._identity or _identity(self.path)

    def require_in_place(self) -> None:
        """Return when the file's name still leads to the file that was opened.

        Raises:
            StoreUnavailable: it was removed or replaced: what is written would be gone with this process.
        """
        if self._identity is None:
            return
        found = _identity(self.path)
        if found != self._identity:
            what = "removed" if found is None else "replaced by another file"
            raise _misplaced(
                f"{self.path}: {what} while it was open, so nothing that is stored would last; put the file back "
                "that was there, or restart the monitor to use what is there now"
            )

    def require_log_in_place(self) -> None:
        """As `require_in_place`, in a transaction that writes, of the file that is written ahead.

        Raises:
            StoreUnavailable: it was removed.
        """
        self.require_in_place()
        is_there = self._log.exists()
        if self._logs_ahead and not is_there:
            raise _misplaced(
                f"{self._log}: removed while it was open, so nothing that is stored would last; stop the monitor with "
                "SIGTERM, which writes what that file held into the database, and start it again"
            )
        self._logs_ahead = is_there


def arguments(patience: timedelta) -> dict[str, object]:
    """Return what a connection is opened with."""
    return {"timeout": patience.total_seconds(), "check_same_thread": False}


def prepare(connection: DBAPIConnection) -> None:
    """Set a new connection up."""
    # The driver's own transaction handling starts transactions late and never as IMMEDIATE; `begin` does it.
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


def begin(connection: Connection) -> None:
    """Begin a transaction as the connection's execution options say."""
    if statement := connection.get_execution_options().get(BEGIN, "BEGIN"):
        connection.exec_driver_sql(statement)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _misplaced(message: str) -> StoreUnavailable:
    return StoreUnavailable(message, reason="unreachable", retry_after=timedelta(seconds=10))
