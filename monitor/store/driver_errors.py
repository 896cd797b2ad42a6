"""What a driver's error means to the store's callers: one of the reasons of `StoreUnavailable`, and nothing of the row.

Drivers quote rows in their messages ("Failing row contains ..."), which hold user text. Only an error's class, its code
and our own statement are passed on.
"""

from __future__ import annotations

import os
import re
import sqlite3
from datetime import timedelta
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from monitor.errors import StoreUnavailable

_SQLITE_REASONS = {
    sqlite3.SQLITE_BUSY: "locked",
    sqlite3.SQLITE_LOCKED: "locked",
    sqlite3.SQLITE_PROTOCOL: "locked",
    sqlite3.SQLITE_FULL: "storage_full",
    sqlite3.SQLITE_READONLY: "read_only",
    sqlite3.SQLITE_PERM: "read_only",
    sqlite3.SQLITE_CANTOPEN: "unreachable",
    sqlite3.SQLITE_IOERR: "unreachable",
}

# PostgreSQL documentation, appendix A: error codes. A class is the code's first two characters.
_POSTGRESQL_REASONS = {
    "08": "unreachable",  # connection exception
    "28": "unreachable",  # invalid authorization
    "3D": "unreachable",  # no such database
    "53100": "storage_full",
    "53300": "unreachable",  # too many connections
    "53": "storage_full",  # other resources
    "57P": "unreachable",  # shut down, crashed, starting up
    "57014": "locked",  # statement timeout
    "58": "unreachable",  # I/O error
    "25006": "read_only",
    "25P03": "unreachable",  # idle in transaction for too long
    "40": "locked",  # serialization failure, deadlock
    "55P03": "locked",
}

_NO_DATABASE = re.compile(r'database "[^"]*+" does not exist')
_REFUSED_LOGIN = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "is not permitted to log in",
    "permission denied for database",
    "pg_hba.conf rejects",
)

_RETRY_AFTER = {"locked": 1, "unreachable": 2, "read_only": 10, "storage_full": 10, "other": 5}


def unavailable(error: Exception, doing: str, *, file: Path | None = None) -> StoreUnavailable:
    """Return what to raise for an error of the driver, or of SQLAlchemy around one, met while `doing`.

    `file` is SQLite's: what it calls an I/O error may be a disk that is full or was remounted read-only.
    """
    original = error.orig if isinstance(error, DBAPIError) else error
    code, reason = _classify(original)
    if reason == "unreachable" and file is not None:
        reason = of_disk(file) or reason
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        reason = "unreachable"
    message = f"{doing}: {reason} ({type(original).__name__}{f', {code}' if code else ''})"
    if reason == "unreachable" and not isinstance(original, sqlite3.Error):
        message = f"{message}: {_what_to_do(original, code)}"
    if reason == "other" and isinstance(error, DBAPIError) and error.statement:
        message = f"{message} in: {' '.join(error.statement.split())[:300]}"
    return StoreUnavailable(message, reason=reason, retry_after=timedelta(seconds=_RETRY_AFTER[reason]))


def _what_to_do(original: BaseException | None, code: str) -> str:
    """Return why PostgreSQL does not serve us and what helps, as far as its class of errors, or its words, tell.

    Of a connection that it refuses only words reach us. They name user and database, are searched and not passed on.
    """
    words = str(original).lower()
    if code.startswith("3D") or _NO_DATABASE.search(words):
        return "there is no such database; create it, with ENCODING 'UTF8', or correct store.url"
    if code.startswith("28") or any(refused in words for refused in _REFUSED_LOGIN):
        return "the login is refused; correct user and password in store.url, or pg_hba.conf on the server"
    if code or "fatal" in words:
        return "the server refuses the connection; its log says why"
    return "nobody answers there; is the server up, and are host and port in store.url those that it listens on?"


def of_disk(file: Path) -> str | None:
    """Return why a file on this disk cannot be written, as far as the disk tells: `read_only`, `storage_full` or None.

    Root may write whatever permissions say, but not to a disk that is mounted read-only.
    """
    try:
        disk = os.statvfs(file.parent)
    except OSError:
        return None
    if not os.access(file.parent, os.W_OK) or (file.exists() and not os.access(file, os.W_OK)):
        return "read_only"
    inodes_gone = disk.f_files > 0 and disk.f_favail == 0
    return "storage_full" if disk.f_bavail == 0 or inodes_gone else None


def _classify(original: BaseException | None) -> tuple[str, str]:
    if isinstance(original, sqlite3.Error):
        # Errors that the Python module makes up itself carry no code.
        number = getattr(original, "sqlite_errorcode", 0)
        return getattr(original, "sqlite_errorname", ""), _SQLITE_REASONS.get(number & 0xFF, "other")
    state = getattr(original, "sqlstate", None)
    if state:
        reasons = (_POSTGRESQL_REASONS[state[:size]] for size in (5, 3, 2) if state[:size] in _POSTGRESQL_REASONS)
        return state, next(reasons, "other")
    # psycopg reports a failed or lost connection without a code.
    return "", "unreachable" if type(original).__name__ in {"OperationalError", "ConnectionTimeout"} else "other"
