"""What a driver's error means to the store's callers."""

import sqlite3

import psycopg
import pytest
from psycopg import errors
from sqlalchemy.exc import OperationalError

from monitor.errors import StoreUnavailable
from monitor.store.driver_errors import unavailable


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errors.DiskFull(), "storage_full"),
        (errors.OutOfMemory(), "storage_full"),
        (errors.TooManyConnections(), "unreachable"),
        (errors.AdminShutdown(), "unreachable"),
        (errors.CannotConnectNow(), "unreachable"),
        (errors.InvalidPassword(), "unreachable"),
        (errors.InvalidCatalogName(), "unreachable"),
        (errors.ConnectionFailure(), "unreachable"),
        (psycopg.OperationalError("connection refused"), "unreachable"),
        (errors.ConnectionTimeout(), "unreachable"),
        (errors.ReadOnlySqlTransaction(), "read_only"),
        (errors.InsufficientPrivilege(), "read_only"),
        (errors.LockNotAvailable(), "locked"),
        (errors.QueryCanceled(), "locked"),
        (errors.DeadlockDetected(), "locked"),
        (errors.SerializationFailure(), "locked"),
        (errors.UndefinedTable(), "other"),
        (errors.NotNullViolation(), "other"),
    ],
)
def test_postgresql(error: psycopg.Error, reason: str) -> None:
    """Each kind of PostgreSQL error is one of our reasons, bare or wrapped by SQLAlchemy."""
    wrapped = OperationalError("SELECT 1", None, error)
    assert [reason, reason] == [unavailable(e, "reading").reason for e in (error, wrapped)]


def coded(name: str) -> sqlite3.OperationalError:
    """An error of SQLite by name."""
    error = sqlite3.OperationalError("secret")
    error.sqlite_errorcode, error.sqlite_errorname = getattr(sqlite3, name), name
    return error


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("SQLITE_BUSY", "locked"),
        ("SQLITE_BUSY_SNAPSHOT", "locked"),
        ("SQLITE_LOCKED", "locked"),
        ("SQLITE_FULL", "storage_full"),
        ("SQLITE_READONLY", "read_only"),
        ("SQLITE_READONLY_DBMOVED", "read_only"),
        ("SQLITE_CANTOPEN", "unreachable"),
        ("SQLITE_IOERR_WRITE", "unreachable"),
        ("SQLITE_CORRUPT", "other"),
    ],
)
def test_sqlite(name: str, reason: str) -> None:
    """Each kind of SQLite error is one of our reasons, the extended codes included, and is told by its name."""
    error = unavailable(coded(name), "writing to it")
    assert reason == error.reason
    assert f"writing to it: {reason} (OperationalError, {name})" == str(error)


def test_reasons() -> None:
    """Every reason that can be told is one that `StoreUnavailable` promises, and says when to come back."""
    errors_ = [unavailable(coded(name), "") for name in dir(sqlite3) if name.startswith("SQLITE_BUSY")]
    errors_ += [unavailable(error(), "") for error in vars(errors).values() if _is_error(error)]
    assert {t.reason for t in errors_} == set(StoreUnavailable.REASONS)
    assert all(t.retry_after for t in errors_)


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, psycopg.Error) and bool(value.sqlstate)


def test_statement_of_other() -> None:
    """An error that fits nothing names our statement, cut short, without its parameters."""
    error = OperationalError("INSERT\n  INTO turns VALUES (?)" + " " * 9 + "x" * 999, ("secret",), errors.DataError())
    message = str(unavailable(error, "writing"))
    assert "in: INSERT INTO turns VALUES (?) xxx" in message
    assert "secret" not in message
    assert len(message) < 400
