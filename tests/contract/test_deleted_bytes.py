"""What is deleted is gone from the bytes on the disk, not only from what queries see."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.store.sql_store import open_store

if TYPE_CHECKING:
    from datetime import datetime

    from monitor.stores import Store
    from tests.contract.conftest import Make

CANARY = "canary-7f3c91"


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
    """Names of the files in the folder in which the canary stands."""
    return sorted(path.name for path in folder.iterdir() if CANARY.encode() in path.read_bytes())


def test_pruned_text_leaves_the_files(tmp_path: Path, make: Make) -> None:
    """After retention neither SQLite's file nor its log holds a byte of it."""
    store = open_store(f"sqlite:///{tmp_path / 'store.db'}")
    fill(store, make, 50, started_at=make.now)
    assert "store.db-wal" in files_with_canary(tmp_path)
    later = make.now + timedelta(days=1)
    assert [200, 0] == [store.kept_text.prune(text_before=later, fragments_before=later, limit=1000) for _ in range(2)]
    assert [] == files_with_canary(tmp_path)
    store.close()
