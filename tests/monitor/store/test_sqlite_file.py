"""A SQLite file is its owner's alone, and nothing is acknowledged into one that was taken away."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from monitor.errors import ConfigError, StoreUnavailable
from monitor.model.spans import Fragment
from monitor.store.sql_store import SqlStore, open_store


def append(store: SqlStore, text: str) -> int:
    """Store one fragment; how many were new."""
    payload = text.encode()
    digest = hashlib.blake2b(payload, digest_size=16).digest()
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    made = Fragment(trace_id=digest.hex(), signal="traces", payload=payload, count=1, received_at=now, digest=digest)
    return store.append([made])


def count(path: Path) -> int:
    """How many fragments are in the file, for whoever opens it."""
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM spans").fetchone()[0])


@pytest.mark.parametrize("name", ["store.db", "file:{}?uri=true"])
def test_rights(name: str, tmp_path: Path) -> None:
    """The file and what SQLite lays beside it can be read by their owner alone, whatever the process' mask is."""
    path = tmp_path / "store.db"
    before = os.umask(0o022)
    try:
        with closing(open_store(f"sqlite:///{name.format(path) if '{' in name else path}")) as store:
            append(store, "a")
            assert {"store.db": "600", "store.db-shm": "600", "store.db-wal": "600"} == {
                entry.name: f"{entry.stat().st_mode & 0o777:o}" for entry in tmp_path.iterdir()
            }
    finally:
        os.umask(before)


def test_rights_that_were_given(store_path: Path) -> None:
    """A file that is there already keeps the rights that its owner gave it."""
    open_store(f"sqlite:///{store_path}").close()
    store_path.chmod(0o640)
    with closing(open_store(f"sqlite:///{store_path}")) as store:
        append(store, "a")
        assert {0o640} == {entry.stat().st_mode & 0o777 for entry in store_path.parent.iterdir()}


def test_removed(store: SqlStore, store_path: Path, tmp_path: Path) -> None:
    """Into a file that was removed nothing is acknowledged, none is made in its place, and it may come back."""
    append(store, "a")
    kept = tmp_path / "kept"
    kept.mkdir()
    for entry in tmp_path.glob("store.db*"):
        entry.rename(kept / entry.name)
    for call in (lambda: append(store, "b"), store.check, store.backlog):
        with pytest.raises(StoreUnavailable, match=r"store\.db: removed while it was open") as caught:
            call()
        assert caught.value.reason == "unreachable"
    with ThreadPoolExecutor(12) as pool:
        assert all(isinstance(e, StoreUnavailable) for e in pool.map(lambda _: failure(store), range(48)))
    assert not list(tmp_path.glob("store.db*"))
    for entry in kept.iterdir():
        entry.rename(tmp_path / entry.name)
    assert append(store, "b") == 1
    assert count(store_path) == 2


def failure(store: SqlStore) -> Exception | None:
    """What reading from the store ends with."""
    try:
        store.backlog()
    except StoreUnavailable as error:
        return error
    return None


def test_replaced(store: SqlStore, store_path: Path, tmp_path: Path) -> None:
    """Into a file that another took the place of nothing is acknowledged; a restart takes what is there now."""
    append(store, "a")
    with closing(sqlite3.connect(store_path)) as source, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        source.backup(copy)
    (tmp_path / "copy.db").rename(store_path)
    with pytest.raises(StoreUnavailable, match=r"replaced by another file .*restart the monitor to use what is there"):
        append(store, "b")
    with closing(open_store(f"sqlite:///{store_path}")) as restarted:
        assert append(restarted, "b") == 1
    assert count(store_path) == 2


def test_log_removed(store: SqlStore, store_path: Path) -> None:
    """Without the file that is written ahead nothing is acknowledged; what was before is in the database at the end."""
    append(store, "a")
    append(store, "b")
    store_path.with_name("store.db-wal").unlink()
    with pytest.raises(StoreUnavailable, match=r"store\.db-wal: removed while it was open.*SIGTERM") as caught:
        append(store, "c")
    assert caught.value.reason == "unreachable"
    store.close()
    assert count(store_path) == 2


def test_read_only_address(tmp_path: Path) -> None:
    """An address that says to read only makes no file."""
    url = f"sqlite:///file:{tmp_path / 'none.db'}?mode=ro&uri=true"
    with closing(open_store(url, migrate=False)) as store, pytest.raises(StoreUnavailable):
        store.check()
    assert not list(tmp_path.iterdir())


def test_identified(store: SqlStore, store_path: Path) -> None:
    """The file says in its header whose it is, which `file` and other tools show."""
    store.close()
    assert store_path.read_bytes()[68:72] == b"ragm"


@pytest.mark.parametrize("statement", ["PRAGMA application_id = 252006673", "CREATE TABLE places (x)"])
def test_of_another_program(statement: str, store_path: Path) -> None:
    """A database of another program, by its header or its tables, is refused and left as it is."""
    with closing(sqlite3.connect(store_path)) as other:
        other.execute(statement)
    before = store_path.read_bytes()
    with pytest.raises(ConfigError, match=r"store\.url: .*store\.db.* another program"):
        open_store(f"sqlite:///{store_path}")
    assert before == store_path.read_bytes()
