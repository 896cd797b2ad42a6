"""SQLite's write-ahead log does not grow without end."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from monitor.store.wal import WriteAheadLog

KILOBYTE = 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with one table that logs ahead."""
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x)")
    return path


@pytest.fixture
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that writes, and never checkpoints by itself."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=3)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        yield connection


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Somebody is in the middle of reading."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM t").fetchone()
        yield
        connection.execute("COMMIT")


def write(connection: sqlite3.Connection, kilobytes: int) -> None:
    """Add that much to the log."""
    connection.execute("INSERT INTO t VALUES (zeroblob(?))", (kilobytes * KILOBYTE,))


def log_size(path: Path) -> int:
    """Kilobytes in the log."""
    return path.with_name("store.db-wal").stat().st_size // KILOBYTE


def test_below_the_limit(path: Path, writer: sqlite3.Connection) -> None:
    """A log below its limit is left alone."""
    log = WriteAheadLog(path, limit=500 * KILOBYTE)
    write(writer, 300)
    before = log_size(path)
    log.bound(writer)
    assert before == log_size(path) > 0


def test_above_the_limit(path: Path, writer: sqlite3.Connection) -> None:
    """A log above its limit is started over, and what is in it is in the database."""
    log = WriteAheadLog(path, limit=500 * KILOBYTE)
    write(writer, 600)
    log.bound(writer)
    assert log_size(path) == 0
    assert writer.execute("SELECT count(*) FROM t").fetchone() == (1,)


def test_reader_in_the_way(path: Path, writer: sqlite3.Connection) -> None:
    """A reader that does not finish is waited for once per limit that the log grows by, and not at every commit."""
    log = WriteAheadLog(path, limit=500 * KILOBYTE)
    asked: list[str] = []
    with reading(path):
        write(writer, 600)
        writer.set_trace_callback(asked.append)
        for _ in range(5):
            log.bound(writer)
        assert 1 == sum("wal_checkpoint" in statement for statement in asked)
        assert log_size(path) > 500
    write(writer, 600)
    log.bound(writer)
    assert log_size(path) == 0


def test_patience_is_restored(path: Path, writer: sqlite3.Connection) -> None:
    """The connection waits for locks as long afterwards as before."""
    write(writer, 100)
    WriteAheadLog(path, limit=1).bound(writer)
    assert writer.execute("PRAGMA busy_timeout").fetchone() == (3000,)


def test_no_log(tmp_path: Path, writer: sqlite3.Connection) -> None:
    """A database without a log has none to bound."""
    WriteAheadLog(tmp_path / "other.db").bound(writer)
