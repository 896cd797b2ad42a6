"""What callers are told when the database cannot serve them, and that it passes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.pool import Pool

from monitor.errors import StoreUnavailable
from monitor.store.sql_store import open_store
from monitor.stores import Store

if TYPE_CHECKING:
    from postgres_service import PostgresServer

    from tests.contract.conftest import Make

SHORT = timedelta(milliseconds=200)


@contextmanager
def held(url: str) -> Iterator[None]:
    """Somebody else is in the middle of writing."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")
    else:
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text("LOCK TABLE spans, turns IN EXCLUSIVE MODE"))
            yield
        engine.dispose()


def test_locked(migrated_url: str, make: Make) -> None:
    """A lock held for longer than our patience is `locked`, nothing is kept, and it passes with the lock."""
    fragments = [make.fragment(), make.fragment()]
    with closing(open_store(migrated_url, patience=SHORT)) as store:
        with held(migrated_url):
            with pytest.raises(StoreUnavailable) as caught:
                store.append(fragments)
            assert ("locked", timedelta(seconds=1)) == (caught.value.reason, caught.value.retry_after)
            assert store.turn("0" * 32) is None
        assert store.append(fragments) == 2


def test_waiting_for_a_lock(store: Store, migrated_url: str, make: Make) -> None:
    """A lock that is released within our patience is waited for."""
    began = time.monotonic()
    done: list[int] = []
    with held(migrated_url):
        writer = threading.Thread(target=lambda: done.append(store.append([make.fragment()])))
        writer.start()
        writer.join(0.3)
        assert writer.is_alive()
    writer.join(10)
    assert [1] == done
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_full_disk(migrated_url: str, make: Make) -> None:
    """A full disk is `storage_full`, keeps nothing half-done, lets reads through, and passes once there is room."""
    pages = [1_000_000]

    def limit(connection: sqlite3.Connection, *_: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages[0]}")

    event.listen(Pool, "checkout", limit)
    try:
        with closing(open_store(migrated_url)) as store:
            kept = make.fragment()
            store.append([kept])
            pages[0] = 1
            with pytest.raises(StoreUnavailable) as caught:
                store.append([make.fragment(payload=b"x" * 10_000_000)])
            assert caught.value.reason == "storage_full"
            assert store.backlog().fragments == 1
            pages[0] = 1_000_000
            assert store.append([make.fragment()]) == 1
    finally:
        event.remove(Pool, "checkout", limit)
    with closing(sqlite3.connect(migrated_url.removeprefix("sqlite:///"))) as file:
        assert [("ok",)] == file.execute("PRAGMA integrity_check").fetchall()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"], indirect=True)
def test_read_only(store: Store, migrated_url: str, make: Make) -> None:
    """A database that takes no writes is `read_only`, and can be read."""
    turn = make.turn()
    make.assembled(store, turn)
    if migrated_url.startswith("sqlite"):
        url = f"sqlite:///file:{migrated_url.removeprefix('sqlite:///')}?mode=ro&uri=true"
    else:
        url = f"{migrated_url}?options=-c%20default_transaction_read_only%3Don"
    with closing(open_store(url)) as reader:
        assert turn == reader.turn(turn.turn_id)
        reader.check()
        with pytest.raises(StoreUnavailable) as caught:
            reader.append([make.fragment()])
    assert caught.value.reason == "read_only"


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_server_restarts(store: Store, postgres_server: PostgresServer, make: Make) -> None:
    """A server that is gone is `unreachable`; the same store works again as soon as it is back."""
    store.append([make.fragment()])
    postgres_server.stop()
    with pytest.raises(StoreUnavailable) as caught:
        store.append([make.fragment()])
    assert caught.value.reason == "unreachable"
    with pytest.raises(StoreUnavailable):
        store.check()
    postgres_server.start()
    assert store.append([make.fragment()]) == 1
    assert store.backlog().fragments == 2


@pytest.mark.parametrize("kind", ["postgresql", "pooled"], indirect=True)
def test_server_restarts_unnoticed(store: Store, postgres_server: PostgresServer, make: Make) -> None:
    """A restart between two calls costs nobody anything."""
    store.append([make.fragment()])
    postgres_server.restart()
    assert store.append([make.fragment()]) == 1


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_crash_of_the_server(store: Store, postgres_server: PostgresServer, make: Make) -> None:
    """What was acknowledged survives a crash of the server."""
    for _ in range(20):
        store.append([make.fragment()])
    postgres_server.kill()
    postgres_server.start()
    assert store.backlog().fragments == 20


def test_killed_writer(store: Store, migrated_url: str) -> None:
    """What was acknowledged to a process that is killed in the middle of its work is all there."""
    program = """
import sys
from datetime import UTC, datetime
from hashlib import blake2b
from monitor.model.spans import Fragment
from monitor.store.sql_store import open_store

store, number = open_store(sys.argv[1]), 0
while True:
    number += 1
    payloads = [f"{number} {part}".encode() * 500 for part in range(3)]
    store.append([
        Fragment(trace_id=f"{number:032x}", signal="traces", payload=payload, count=1, received_at=datetime.now(UTC),
                 digest=blake2b(payload, digest_size=16).digest())
        for payload in payloads
    ])
    print(number, flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program, migrated_url], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    for line in process.stdout:
        if int(line) >= 40:
            break
    process.kill()
    acknowledged = 40 + len(process.communicate(timeout=10)[0].splitlines())
    stored = store.fragments([f"{number:032x}" for number in range(1, acknowledged + 2)])
    counts = [len(of_trace) for of_trace in stored.values()]
    assert [3] * acknowledged == counts[:-1]
    assert counts[-1] in {0, 3}


def test_nothing_of_the_row_is_told(store: Store, make: Make) -> None:
    """An error says what was being done and with which statement, and nothing of what the row held."""
    turn = make.turn()
    (job,) = make.sampled(store, turn)
    impossible = make.verdict(make.job(turn, "relevance", probability=float("nan")))
    with pytest.raises(StoreUnavailable) as caught:
        store.finish([impossible, make.verdict(job)])
    printed = "".join(traceback.format_exception(caught.value))
    assert "finishing jobs" in printed
    assert "judge-2026-01" not in printed
    assert turn.turn_id not in printed
    assert store.outcomes(turn.turn_id) == ()


def test_schema_is_missing(store_url: str) -> None:
    """A store opened without migrating says what is missing and how to make it."""
    with closing(open_store(store_url, migrate=False)) as store:
        with pytest.raises(StoreUnavailable, match=r"schema missing, needed .*rag-monitor migrate"):
            store.check()
        with pytest.raises(StoreUnavailable):
            store.backlog()
