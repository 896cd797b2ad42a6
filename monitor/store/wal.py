"""Keeps SQLite's write-ahead log from growing without end, and deleted text from staying in it.

SQLite starts its log over only in a moment in which nobody reads from it. With readers that overlap all the time no
such moment comes (https://www.sqlite.org/wal.html section 6): three of them made a log of 534 MB out of 400 MB written.
So above a limit the next writer waits for the readers of that moment to finish, which new ones do not prolong.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

LIMIT = 128 * 1024 * 1024
"""Bytes of the log above which it is started over."""

_PATIENCE = timedelta(seconds=1)


class WriteAheadLog:
    """The log beside one database file. Its owner calls `bound` from one thread at a time."""

    def __init__(self, database: Path, *, limit: int = LIMIT) -> None:
        self._path = database.with_name(f"{database.name}-wal")
        self._limit = limit
        self._tried_at = 0

    def bound(self, connection: sqlite3.Connection) -> None:
        """Start the log over if it outgrew its limit; `connection` must not be in a transaction.

        A reader that does not finish within a second is left in peace until the log has grown by its limit again.
        """
        size = self._size()
        if size < self._limit:
            self._tried_at = 0
            return
        if size < self._tried_at + self._limit:
            return
        self.empty(connection)
        self._tried_at = self._size()

    def empty(self, connection: sqlite3.Connection) -> bool:
        """Write the log into the file and cut it to nothing; return False when a reader kept it for a second.

        `connection` must not be in a transaction. What was committed stays committed whatever becomes of this.
        """
        patience = connection.execute("PRAGMA busy_timeout").fetchone()[0]
        connection.execute(f"PRAGMA busy_timeout = {_PATIENCE // timedelta(milliseconds=1)}")
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        connection.execute(f"PRAGMA busy_timeout = {patience}")
        return self._size() == 0

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0
