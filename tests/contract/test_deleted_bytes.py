"""What is deleted is gone from the bytes on the disk, not only from what queries see."""

from __future__ import annotations

import secrets
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import make_url

from monitor.errors import StoreUnavailable
from monitor.runtime.rewriting import rewrite_when_due
from monitor.store.sql_store import open_store

if TYPE_CHECKING:
    from datetime import datetime

    from monitor.stores import Store
    from tests.contract.conftest import Make

CANARY = "canary-7f3c91"
SEGMENT = 24
"""Characters of the name of a segment of PostgreSQL's log; those of tables are shorter."""


def fill(store: Store, make: Make, count: int, *, started_at: datetime) -> None:
    """Store judged turns with the canary in each of their texts, short and longer than a page."""
    for number in range(count):
        words = f"{CANARY} {number} " * (2 if number % 3 else 1500)
        turn = replace(make.turn(started_at=started_at), query=words, response=words)
        store.append([make.fragment(turn.trace_id, words.encode())])
        (job,) = make.sampled(store, turn)
        verdict = make.verdict(job)
        store.finish([replace(verdict, exchange=replace(verdict.exchange, prompt=words, reply=words))])


def files_with_canary(folder: Path) -> list[str]:
    """Names of the files in the folder, and in those within, in which the canary stands."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes())


def test_pruned_text_leaves_the_files(tmp_path: Path, make: Make) -> None:
    """After retention neither SQLite's file nor its log holds a byte of it."""
    store = open_store(f"sqlite:///{tmp_path / 'store.db'}")
    fill(store, make, 50, started_at=make.now)
    assert "store.db-wal" in files_with_canary(tmp_path)
    later = make.now + timedelta(days=1)
    assert [200, 0] == [store.kept_text.prune(text_before=later, fragments_before=later, limit=1000) for _ in range(2)]
    assert [] == files_with_canary(tmp_path)
    store.close()


def test_erased_text_leaves_the_files_of_sqlite(tmp_path: Path, make: Make) -> None:
    """After erasing all sessions but one, the file and its log hold no byte of them, and the other one is there."""
    with closing(open_store(f"sqlite:///{tmp_path / 'store.db'}")) as store:
        fill(store, make, 50, started_at=make.now)
        kept = replace(make.turn(), query="another's question")
        make.assembled(store, kept)
        traces = [turn.trace_id for turn in store.turns() if turn.trace_id != kept.trace_id]
        assert 50 == store.kept_text.erase(traces).turns
        assert store.kept_text.rewrite()
        assert [] == files_with_canary(tmp_path)
        assert kept == store.turn(kept.turn_id)


def test_erased_text_leaves_the_files_of_postgresql(postgres_url: str, make: Make) -> None:
    """After erasing all sessions but one and two checkpoints, neither tables nor log hold a byte of them."""
    with (
        closing(open_store(postgres_url)) as store,
        psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as server,
    ):
        (folder,) = server.execute("SHOW data_directory").fetchone() or ("",)
        fill(store, make, 50, started_at=make.now)
        kept = replace(make.turn(), query="another's question")
        make.assembled(store, kept)
        server.execute("CHECKPOINT")
        before = files_with_canary(Path(folder))
        assert any(len(name) == SEGMENT for name in before)
        assert any(len(name) < SEGMENT for name in before)
        traces = [turn.trace_id for turn in store.turns() if turn.trace_id != kept.trace_id]
        assert 50 == store.kept_text.erase(traces).turns
        assert store.kept_text.rewrite()
        remove_log(server)
        assert [] == files_with_canary(Path(folder))
        assert kept == store.turn(kept.turn_id)


def remove_log(server: psycopg.Connection) -> None:
    """Make the segments of PostgreSQL's log that it needs no more go.

    They are used again by their room, not emptied; here they are removed instead.
    """
    server.execute("ALTER SYSTEM SET wal_recycle = off")
    server.execute("SELECT pg_reload_conf()")
    for _ in range(2):
        server.execute("SELECT pg_switch_wal()")
        server.execute("CHECKPOINT")
    server.execute("ALTER SYSTEM RESET wal_recycle")
    server.execute("SELECT pg_reload_conf()")


def test_pruned_text_leaves_the_files_of_postgresql(postgres_url: str, make: Make) -> None:
    """After retention the bytes stay in the tables' pages, until the tables are written anew."""
    with (
        closing(open_store(postgres_url)) as store,
        psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as server,
    ):
        (folder,) = server.execute("SHOW data_directory").fetchone() or ("",)
        fill(store, make, 50, started_at=make.now)
        later = make.now + timedelta(days=1)
        kept = replace(make.turn(started_at=later), query="a younger question")
        make.assembled(store, kept)
        while store.kept_text.prune(text_before=later, fragments_before=later, limit=1000):
            pass
        remove_log(server)
        assert files_with_canary(Path(folder))
        assert rewrite_when_due(store, every=timedelta(days=7))
        assert not rewrite_when_due(store, every=timedelta(days=7))
        remove_log(server)
        assert [] == files_with_canary(Path(folder))
        assert kept == store.turn(kept.turn_id)


def test_rewriting_that_failed_is_tried_within_the_hour(tmp_path: Path, make: Make) -> None:
    """While somebody reads, it fails and is put off, for an hour instead of the days between two."""
    path = tmp_path / "store.db"
    with closing(open_store(f"sqlite:///{path}", patience=timedelta(seconds=1))) as store:
        fill(store, make, 3, started_at=make.now)
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM turns").fetchone()
            with pytest.raises(StoreUnavailable, match="a reader keeps the log"):
                rewrite_when_due(store, every=timedelta(days=7))
        left = store.lease_left("rewrite")
        assert left is not None
        assert left <= timedelta(hours=1)


def test_file_that_is_being_read_is_not_called_rewritten(tmp_path: Path, make: Make) -> None:
    """While somebody reads the old file, rewriting it fails and says why; when they are done it works."""
    path = tmp_path / "store.db"
    with closing(open_store(f"sqlite:///{path}", patience=timedelta(seconds=1))) as store:
        fill(store, make, 3, started_at=make.now)
        store.kept_text.erase([turn.trace_id for turn in store.turns()])
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM turns").fetchone()
            with pytest.raises(StoreUnavailable, match="a reader keeps the log"):
                store.kept_text.rewrite()
        assert store.kept_text.rewrite()
        assert [] == files_with_canary(tmp_path)


def test_tables_of_another_role_are_left_to_it(postgres_url: str, make: Make) -> None:
    """A role that may write the tables and does not own them erases, and cannot write them anew."""
    with (
        closing(open_store(postgres_url)) as owner,
        psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as server,
    ):
        fill(owner, make, 1, started_at=make.now)
        role = f"clerk_{secrets.token_hex(4)}"
        server.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'clerk'")
        server.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")
        url = make_url(postgres_url).set(username=role, password="clerk").render_as_string(hide_password=False)
        with closing(open_store(url, migrate=False)) as store:
            assert 1 == store.kept_text.erase([turn.trace_id for turn in store.turns()]).turns
            assert not store.kept_text.rewrite()
        server.execute(f"DROP OWNED BY {role}")
        server.execute(f"DROP ROLE {role}")
