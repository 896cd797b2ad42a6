"""Which databases are taken, and how they are opened."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.errors import ConfigError, StoreUnavailable
from monitor.store.database import Database
from monitor.store.sql_store import open_store

PATIENCE = timedelta(seconds=5)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """An empty SQLite file."""
    database = Database(f"sqlite:///{tmp_path / 'store.db'}", patience=PATIENCE)
    yield database
    database.close()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true"])
def test_in_memory(url: str) -> None:
    """SQLite in memory is refused: it would lose what was acknowledged."""
    with pytest.raises(ConfigError, match="in memory would lose what was acknowledged; allowed: sqlite:///path"):
        open_store(url)


@pytest.mark.parametrize(
    "url", ["nonsense", "", "mysql://u:hunter2@h/d", "acme://u:hunter2@h/d", "sqlite+aiosqlite:///x"]
)
def test_other_databases(url: str) -> None:
    """Any other URL is refused with what is allowed, and without the password in it."""
    with pytest.raises(ConfigError, match=r"store\.url: .*allowed: sqlite:///path") as caught:
        open_store(url)
    assert "hunter2" not in str(caught.value)


def test_no_folder(tmp_path: Path) -> None:
    """A file in a folder that does not exist is a wrong setting, not something to wait for."""
    with pytest.raises(ConfigError, match=r"no folder '.*nowhere' to keep 'store\.db' in"):
        open_store(f"sqlite:///{tmp_path / 'nowhere' / 'store.db'}")


def test_no_server() -> None:
    """A server that is not there is `unreachable`, and the message has no password."""
    with pytest.raises(StoreUnavailable) as caught:
        open_store("postgresql://user:hunter2@127.0.0.1:1/database")
    assert caught.value.reason == "unreachable"
    assert "127.0.0.1/database" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_no_database(tmp_path: Path) -> None:
    """A file that is no database is told, not overwritten."""
    path = tmp_path / "store.db"
    path.write_bytes(b"notes " * 1000)
    with pytest.raises(StoreUnavailable, match="SQLITE_NOTADB"):
        open_store(f"sqlite:///{path}")
    assert path.read_bytes() == b"notes " * 1000


def test_pragmas(database: Database) -> None:
    """Every connection syncs at each commit, waits for locks and keeps foreign keys."""
    with database.reading("looking") as one, database.reading("looking") as other:
        for connection in (one, other):
            pragmas = [
                connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("synchronous", "busy_timeout", "foreign_keys")
            ]
            assert [2, 5000, 1] == pragmas


def test_writing(database: Database) -> None:
    """What is written is kept at the end, and nothing of it after an exception."""
    with database.writing("making") as connection:
        connection.exec_driver_sql("CREATE TABLE t (x)")
    with suppress(KeyError), database.writing("failing") as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
        {}["missing"]
    with database.reading("counting") as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM t").scalar() == 0


def test_reading(database: Database) -> None:
    """A reader sees one moment, however much is written meanwhile, and keeps no writer waiting."""
    with database.writing("making") as connection:
        connection.exec_driver_sql("PRAGMA user_version")
        connection.exec_driver_sql("CREATE TABLE t (x)")
    with database.outside_transactions("setting up") as connection:
        connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    with database.reading("counting") as reader:
        counts = [reader.exec_driver_sql("SELECT count(*) FROM t").scalar()]
        with database.writing("adding") as writer:
            writer.exec_driver_sql("INSERT INTO t VALUES (1)")
        counts.append(reader.exec_driver_sql("SELECT count(*) FROM t").scalar())
    assert [0, 0] == counts


def test_writers_queue(database: Database) -> None:
    """Threads that write at once all get their turn, without polling for it."""
    with database.writing("making") as connection:
        connection.exec_driver_sql("CREATE TABLE t (x)")

    def add(number: int) -> None:
        with database.writing("adding") as connection:
            connection.exec_driver_sql("INSERT INTO t VALUES (?)", (number,))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(add, range(200)))
    with database.reading("counting") as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM t").scalar() == 200


def test_writer_in_the_way(tmp_path: Path) -> None:
    """A thread that waits for another of this process longer than its patience is told so."""
    with closing(Database(f"sqlite:///{tmp_path / 'store.db'}", patience=timedelta(milliseconds=100))) as database:
        with database.writing("one"), ThreadPoolExecutor(1) as pool:
            began = time.monotonic()
            with pytest.raises(StoreUnavailable, match=r"two: .*locked by this process for 0.1 s") as caught:
                pool.submit(lambda: database.writing("two").__enter__()).result()
        assert caught.value.reason == "locked"
        assert time.monotonic() - began < PATIENCE.total_seconds()


def test_no_free_connection(tmp_path: Path) -> None:
    """Connections are not opened without end: who finds none free within their patience is told so."""
    with closing(Database(f"sqlite:///{tmp_path / 'store.db'}", patience=timedelta(milliseconds=50))) as database:
        with ExitStack() as readers:

            def read() -> None:
                for _ in range(100):
                    readers.enter_context(database.reading("reading"))

            with pytest.raises(StoreUnavailable, match=r"no free connection within 0\.05 s"):
                read()
        with database.reading("reading") as connection:
            assert connection.exec_driver_sql("SELECT 1").scalar() == 1
