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
    "42501": "read_only",  # this role may not
    "25P03": "unreachable",  # idle in transaction for too long
    "40": "locked",  # serialization failure, deadlock
    "55P03": "locked",
}

_CREATE = "there is no such database; create it, with ENCODING 'UTF8', or correct store.url"
_FEWER = "all its connections are taken; lower store.max_connections, or put a pooler before it (docs/postgresql.md)"
_LOGIN = "the login is refused; correct user and password in store.url, or pg_hba.conf on the server"
_ADVICE = (
    (
        re.compile(r'database "[^"]*+" does not exist|no such database'),
        _CREATE,
    ),
    (
        re.compile(r"certificate verify failed|certificate verification failed"),
        "its certificate is not of an authority in sslrootcert (of store.url's query), or has expired",
    ),
    (
        re.compile(r"does not match host name"),
        "its certificate is for another host than store.url names",
    ),
    (
        re.compile(r'root certificate file "[^"]*+" does not exist|could not read root certificate'),
        "the authorities in sslrootcert cannot be read",
    ),
    (
        re.compile(r"does not support ssl|ssl (?:connection is|off)|no encryption"),
        "server and address do not agree on TLS; correct sslmode in store.url's query, or pg_hba.conf on the server",
    ),
    (
        re.compile(r"too many (?:clients|connections)|connection slots are reserved|no more connections allowed"),
        _FEWER,
    ),
    (
        re.compile(r"unsupported startup parameter"),
        "the pooler takes no `options` in store.url's query; set them for the role (ALTER ROLE ... SET)",
    ),
    (
        re.compile(
            r"authentication failed|no password supplied|no pg_hba\.conf entry|is not permitted to log in|"
            r'permission denied for database|pg_hba\.conf rejects|no such user|role "[^"]*+" does not exist'
        ),
        _LOGIN,
    ),
    (
        re.compile(r"failed to resolve host|could not translate host name"),
        "no such host is known; is the host in store.url right, and does its name server answer?",
    ),
    (
        re.compile(r"timeout expired"),
        "nothing answers there in time; is a firewall between, or the host down?",
    ),
)
"""What stands in libpq's and PgBouncer's words, in lower case, and what to do about it; the first that fits counts."""

_ADVICE_OF_CODES = {"3D": _CREATE, "28": _LOGIN, "53300": _FEWER}

_NO_RIGHT = "42501"
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
    if code == _NO_RIGHT:
        message = f"{message}: this role may not; migrate as the owner, and grant what docs/postgresql.md says"
    if reason == "other" and isinstance(error, DBAPIError) and error.statement:
        message = f"{message} in: {' '.join(error.statement.split())[:300]}"
    return StoreUnavailable(message, reason=reason, retry_after=timedelta(seconds=_RETRY_AFTER[reason]))


def _what_to_do(original: BaseException | None, code: str) -> str:
    """Return why PostgreSQL does not serve us and what helps, as far as its class of errors, or its words, tell.

    Of a connection that it refuses only words reach us. They name user and database, are searched and not passed on.
    """
    words = str(original).lower()
    if advice := next((advice for pattern, advice in _ADVICE if pattern.search(words)), None):
        return advice
    if advice := _ADVICE_OF_CODES.get(code) or _ADVICE_OF_CODES.get(code[:2]):
        return advice
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
