"""Group commit in front of a real SQLite store."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path

import pytest

from monitor.errors import Overloaded, StoreUnavailable
from monitor.model.spans import Fragment, StoredFragment
from monitor.runtime.intake import Intake
from monitor.settings.tree import IntakeSettings
from monitor.store.sql_store import SqlStore, open_store

NOW = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
DEADLINE_SECONDS = 20


class Gated:
    """The real store behind a gate; it notes the size of every transaction, and refuses when told to."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.due = store.due
        self.gate = threading.Event()
        self.gate.set()
        self.refuse: Exception | None = None
        self.batches: list[int] = []

    def append(self, fragments: Sequence[Fragment]) -> int:
        """Wait for the gate, then store or refuse."""
        assert self.gate.wait(DEADLINE_SECONDS)
        if self.refuse:
            raise self.refuse
        self.batches.append(len(fragments))
        return self._store.append(fragments)

    def fragments(self, trace_ids: Sequence[str]) -> Mapping[str, tuple[StoredFragment, ...]]:
        """Read from the real store."""
        return self._store.fragments(trace_ids)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the database is."""
    return tmp_path / "spans.db"


@pytest.fixture
def store(path: Path) -> Iterator[Gated]:
    """A gated store; what waits at the gate at the end is let through."""
    opened = open_store(f"sqlite:///{path}", patience=timedelta(milliseconds=300))
    gated = Gated(opened)
    yield gated
    gated.gate.set()
    opened.close()


def fragment(number: int, *, size: int = 100, count: int = 3) -> Fragment:
    """Return a fragment of `size` bytes of trace `number`."""
    payload = number.to_bytes(4) + bytes(size - 4)
    return Fragment(
        trace_id=f"{number:032x}",
        signal="traces",
        payload=payload,
        count=count,
        received_at=NOW,
        digest=blake2b(payload, digest_size=16).digest(),
    )


def stored(store: Gated) -> list[int]:
    """Return the numbers of the stored fragments, sorted."""
    future = datetime(2100, 1, 1, tzinfo=UTC)
    traces = store.due(quiet_since=future, open_since=future, limit=10_000)
    return sorted(int(trace, 16) for trace, found in store.fragments(traces).items() for _ in found)


@asynccontextmanager
async def opened(store: Gated, **settings: int) -> AsyncIterator[Intake]:
    """Give an open intake, within a deadline."""
    async with asyncio.timeout(DEADLINE_SECONDS), Intake(store, IntakeSettings(**settings)) as intake:
        yield intake


async def until(condition: Callable[[], object]) -> None:
    """Return once `condition` holds; the deadline of `opened` bounds the wait."""
    while not condition():  # noqa: ASYNC110 -- what it waits for has no event
        await asyncio.sleep(0.005)


async def test_put_returns_when_it_is_on_disk(store: Gated, path: Path) -> None:
    """What `put` returned from is seen by another connection to the file."""
    async with opened(store) as intake:
        await intake.put((fragment(1), fragment(2)))
        with closing(sqlite3.connect(path)) as other:
            assert 2 == other.execute("SELECT count(*) FROM spans").fetchone()[0]


async def test_nothing_to_put(store: Gated) -> None:
    """No fragments need no transaction."""
    async with opened(store) as intake:
        await intake.put(())
    assert [] == store.batches


async def test_batches_gather_while_one_is_written(store: Gated) -> None:
    """What arrives during a transaction shares the next one."""
    async with opened(store) as intake:
        store.gate.clear()
        async with asyncio.TaskGroup() as puts:
            puts.create_task(intake.put((fragment(0),)))
            await until(lambda: intake.stats().pending_bytes)
            for number in range(1, 21):
                puts.create_task(intake.put((fragment(number),)))
            await until(lambda: intake.stats().pending_bytes == 2100)
            store.gate.set()
    assert [1, 20] == store.batches
    assert list(range(21)) == stored(store)


async def test_largest_batch(store: Gated) -> None:
    """A transaction holds at most `max_batch` bytes, but never less than one call's fragments."""
    async with opened(store, max_batch=250) as intake:
        store.gate.clear()
        async with asyncio.TaskGroup() as puts:
            puts.create_task(intake.put((fragment(0),)))
            await until(lambda: intake.stats().pending_bytes)
            for number in range(1, 5):
                puts.create_task(intake.put((fragment(number),)))
            puts.create_task(intake.put((fragment(5, size=900), fragment(6))))
            await until(lambda: intake.stats().pending_bytes == 1500)
            store.gate.set()
    assert [1, 2, 2, 2] == store.batches


async def test_too_much_waits(store: Gated) -> None:
    """Beyond `max_pending` bytes `put` is refused at once and keeps nothing; what waited before is kept."""
    async with opened(store, max_pending=1000) as intake:
        store.gate.clear()
        waiting = asyncio.create_task(intake.put((fragment(1, size=600),)))
        await until(lambda: intake.stats().pending_bytes)
        with pytest.raises(Overloaded) as caught:
            await intake.put((fragment(2, size=600),))
        assert caught.value.retry_after is not None
        assert timedelta(seconds=1) <= caught.value.retry_after <= timedelta(seconds=30)
        await_small = asyncio.create_task(intake.put((fragment(3),)))
        await until(lambda: intake.stats().pending_bytes == 700)
        store.gate.set()
        await waiting
        await await_small
        assert (1, 0) == (intake.stats().refused, intake.stats().pending_bytes)
        await intake.put((fragment(4, size=5000),))
    assert [1, 3, 4] == stored(store)


async def test_store_that_refuses(store: Gated) -> None:
    """Everyone in a failed batch learns it, with a time to come back; the next batch is written as if nothing was."""
    async with opened(store) as intake:
        store.refuse = StoreUnavailable("storing fragments", reason="storage_full", retry_after=timedelta(seconds=10))
        results = await asyncio.gather(
            *(intake.put((fragment(number),)) for number in range(3)), return_exceptions=True
        )
        assert [("storage_full", timedelta(seconds=10))] * 3 == [
            (error.reason, error.retry_after) for error in results if isinstance(error, StoreUnavailable)
        ]
        assert {"intake": "storage_full"} == intake.health()
        assert {"storage_full": 1} == intake.stats().failed_batches
        assert 0 == intake.stats().pending_bytes
        store.refuse = None
        await intake.put((fragment(9),))
        assert {} == intake.health()
    assert [9] == stored(store)


async def test_fault_in_the_store(store: Gated, caplog: pytest.LogCaptureFixture) -> None:
    """A fault that no store should raise does not end the intake, and its text, which may quote rows, is not shown."""
    async with opened(store) as intake:
        store.refuse = RuntimeError("secret words")
        with pytest.raises(StoreUnavailable) as caught:
            await intake.put((fragment(1),))
        assert "secret" not in str(caught.value)
        store.refuse = None
        await intake.put((fragment(2),))
    assert [2] == stored(store)
    assert "RuntimeError" in caplog.text
    assert "secret" not in caplog.text


async def test_locked_database(store: Gated, path: Path) -> None:
    """While another process holds the write lock for too long, `put` fails with reason `locked` and keeps nothing."""
    async with opened(store) as intake:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable) as caught:
                await intake.put((fragment(1),))
            assert "locked" == caught.value.reason
            assert {"intake": "locked"} == intake.health()
        await intake.put((fragment(1),))
    assert [1] == stored(store)


async def test_exit_writes_what_waits(store: Gated) -> None:
    """Closing the intake answers every `put` that was waiting; later ones are refused."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        store.gate.clear()
        async with Intake(store, IntakeSettings()) as intake:
            puts = [asyncio.create_task(intake.put((fragment(number),))) for number in range(5)]
            await until(lambda: intake.stats().pending_bytes == 500)
            store.gate.set()
        await asyncio.gather(*puts)
        with pytest.raises(Overloaded):
            await intake.put((fragment(9),))
    assert list(range(5)) == stored(store)


async def test_caller_that_gives_up(store: Gated) -> None:
    """A cancelled `put` frees its bytes and takes nobody with it."""
    async with opened(store) as intake:
        store.gate.clear()
        first = asyncio.create_task(intake.put((fragment(0),)))
        await until(lambda: intake.stats().pending_bytes)
        second = asyncio.create_task(intake.put((fragment(1),)))
        third = asyncio.create_task(intake.put((fragment(2),)))
        await until(lambda: intake.stats().pending_bytes == 300)
        second.cancel()
        first.cancel()
        store.gate.set()
        await third
        assert 0 == intake.stats().pending_bytes
    assert [0, 2] == stored(store)


async def test_stats(store: Gated) -> None:
    """Records are counted at each delivery, and fragments that the store had already as duplicates."""
    async with opened(store) as intake:
        await intake.put((fragment(1, count=3), fragment(2, count=4)))
        await intake.put((fragment(1, count=3),))
        stats = intake.stats()
        assert (10, 3, 1, 2) == (stats.spans, stats.fragments, stats.duplicates, stats.batches)
        assert stats.last_commit > timedelta(0)
