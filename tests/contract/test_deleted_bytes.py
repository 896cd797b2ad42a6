"""What is deleted is gone from the bytes on the disk, not only from what queries see."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

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
        # Segments of the log are used again by their room, not emptied; here they are removed instead.
        server.execute("ALTER SYSTEM SET wal_recycle = off")
        server.execute("SELECT pg_reload_conf()")
        for _ in range(2):
            server.execute("SELECT pg_switch_wal()")
            server.execute("CHECKPOINT")
        server.execute("ALTER SYSTEM RESET wal_recycle")
        server.execute("SELECT pg_reload_conf()")
        assert [] == files_with_canary(Path(folder))
        assert kept == store.turn(kept.turn_id)
