"""Many threads and processes at once: nothing is done twice, nothing is lost, nobody sees an error."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from threading import Barrier
from typing import TYPE_CHECKING

import pytest
from deadline import wait_until
from sqlalchemy import Connection, create_engine, text

from monitor.model.spans import Assembly
from monitor.store import migration, spans, turns
from monitor.store.sql_store import open_store
from monitor.stores import Store

if TYPE_CHECKING:
    from tests.contract.conftest import Make

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def at_once(threads: int, call: Callable[[int], object]) -> list:
    """The results of `call(n)` by threads that start together."""
    barrier = Barrier(threads)

    def run(number: int) -> object:
        barrier.wait()
        return call(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))


def test_calls_are_never_split(store: Store, make: Make) -> None:
    """Eight workers claiming calls at once get every call whole, and none of them twice."""
    call_of = {"q1": "answer", "q2": "answer", "q3": "answer"}
    turns = [make.turn() for _ in range(60)]
    make.assembled(store, *turns)
    store.record_samplings(
        [make.sampling(turn, *(make.job(turn, f"m{rubric_id}", rubric_id) for rubric_id in call_of)) for turn in turns]
    )

    def claim_all(_: int) -> list[list[str]]:
        calls: list[list[str]] = []
        while store.backlog().jobs and len(calls) < 200:
            got = store.claim(now=make.now, lease=MINUTE, limit=1, call_of=call_of)
            calls.append([job.turn_id for job in got])
            if not got and len(calls) > 20 and not any(calls[-20:]):
                break
        return [call for call in calls if call]

    claimed = [call for got in at_once(8, claim_all) for call in got]
    assert {3} == {len(call) for call in claimed}
    assert Counter(turn.turn_id for turn in turns) == Counter(call[0] for call in claimed)


def test_claims_never_overlap(store: Store, make: Make) -> None:
    """Eight workers claiming at once get every job, and none of them twice."""
    turns = [make.turn() for _ in range(120)]
    jobs = make.sampled(store, *turns)

    def claim_all(number: int) -> list[str]:
        claimed: list[str] = []
        rubric_ids = ("g1",) if number % 2 else None
        while got := store.claim(now=make.now, lease=MINUTE, limit=5, rubric_ids=rubric_ids):
            assert len(got) <= 5
            claimed += [job.turn_id for job in got]
        return claimed

    claimed = Counter(turn_id for got in at_once(8, claim_all) for turn_id in got)
    assert Counter(job.turn_id for job in jobs) == claimed


def test_one_verdict(store: Store, make: Make) -> None:
    """Sixteen threads that write the same verdict leave one row, and none of them sees an error."""
    turn = make.turn()
    (job,) = make.sampled(store, turn)
    verdict = make.verdict(job)
    at_once(16, lambda _: store.finish([verdict]))
    assert (verdict,) == store.outcomes(turn.turn_id)
    store.roll_up(store.changed_windows(10), rubrics=[make.rubric], length=HOUR)
    assert [(1, 1)] == [(rollup.sums.turns, rollup.sums.n) for rollup in store.rollups()]


def test_same_fragments(store: Store, make: Make) -> None:
    """Fragments sent by eight threads at once, in different orders, are stored once each."""
    fragments = [make.fragment() for _ in range(40)]
    new = at_once(8, lambda number: store.append(fragments[number * 5 :] + fragments[: number * 5]))
    assert len(fragments) == sum(new)
    stored = store.fragments([fragment.trace_id for fragment in fragments])
    assert [1] * len(fragments) == [len(of_trace) for of_trace in stored.values()]


def test_same_turns(store: Store, make: Make) -> None:
    """The same traces assembled by several threads at once, while others decide and judge, end up whole."""
    turns = [make.turn() for _ in range(20)]
    make.assembled(store, *turns)
    through = store.fragments([turn.trace_id for turn in turns])
    assemblies = [
        Assembly(trace_id=turn.trace_id, through=through[turn.trace_id][-1].position, turns=(turn,)) for turn in turns
    ]

    def work(number: int) -> None:
        some = assemblies[number:] + assemblies[:number]
        store.replace_turns(some, now=make.now)
        store.record_samplings([make.sampling(turn, make.job(turn)) for turn in turns[number:] + turns[:number]])
        store.finish([make.verdict(make.job(turn)) for turn in reversed(turns)])

    at_once(8, work)
    assert sorted(turns, key=lambda t: t.turn_id) == list(store.turns())
    assert [1] * len(turns) == [len(store.outcomes(turn.turn_id)) for turn in turns]
    assert (0, 0) == (store.backlog().jobs, store.backlog().turns)


def test_rollups_while_judging(store: Store, make: Make) -> None:
    """Windows rolled up by two threads while verdicts arrive are right once all is quiet."""
    turns = [make.turn() for _ in range(60)]
    jobs = make.sampled(store, *turns)

    def work(number: int) -> None:
        if number < 2:
            for _ in range(20):
                store.roll_up(store.changed_windows(10), rubrics=[make.rubric], length=HOUR)
        else:
            for job in jobs[number - 2 :: 4]:
                store.finish([make.verdict(job)])

    at_once(6, work)
    store.roll_up(store.changed_windows(10), rubrics=[make.rubric], length=HOUR)
    assert [(60, 60, 0)] == [(r.sums.turns, r.sums.n, r.sums.pending) for r in store.rollups()]
    assert store.changed_windows(10) == ()


def test_one_lease(store: Store) -> None:
    """Of sixteen that reach for a lease at once, one gets it."""
    assert [True] == [got for got in at_once(16, lambda n: store.take_lease("tick", f"{n}", ttl=HOUR)) if got]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_fragment_on_its_way(store: Store, migrated_url: str, make: Make) -> None:
    """A fragment that got its position before another, and is committed after it, is never assembled unread.

    Only PostgreSQL has several writers at a time and so can commit positions out of order.
    """
    trace_id = make.trace_id()
    slow, fast = make.fragment(trace_id), make.fragment(trace_id)
    engine = create_engine(migrated_url)
    with ThreadPoolExecutor(1) as pool, engine.connect() as connection, engine.connect() as watching:
        assert spans.append(connection, [slow]) == 1
        store.append([fast])
        reading = pool.submit(store.fragments, [trace_id])
        wait_until(lambda: advisory_waits(watching), "the reader to wait for the writer", seconds=10)
        connection.commit()
        stored = reading.result(10)[trace_id]
    engine.dispose()
    assert [slow, fast] == [s.fragment for s in stored]


@pytest.mark.parametrize("first", ["waiter", "linked"])
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_link_while_both_traces_are_written(store: Store, migrated_url: str, make: Make, first: str) -> None:
    """Of two transactions at a time the later one sees the other: a turn that links to what comes is read again.

    Only PostgreSQL has several writers at a time; neither saw what the other had not yet committed.
    """
    ids = {"waiter": make.trace_id(), "linked": make.trace_id()}
    store.append([make.fragment(trace_id) for trace_id in ids.values()])
    through = {trace_id: of_trace[-1].position for trace_id, of_trace in store.fragments(tuple(ids.values())).items()}
    awaited = {"waiter": {ids["linked"]: 0}, "linked": {}}
    assemblies = {
        name: Assembly(trace_id=ids[name], through=through[ids[name]], turns=(), awaited=awaited[name]) for name in ids
    }
    engine = create_engine(migrated_url)
    with ThreadPoolExecutor(1) as pool, engine.connect() as connection, engine.connect() as watching:
        turns.replace(connection, [assemblies.pop(first)], now=make.now, length=HOUR, limits=None)
        other = pool.submit(store.replace_turns, list(assemblies.values()), now=make.now)
        wait_until(lambda: other.done() or advisory_waits(watching), "the other to write or to wait", seconds=10)
        connection.commit()
        other.result(10)
    engine.dispose()
    assert (ids["waiter"],) == store.due(quiet_since=make.now + HOUR, open_since=make.now, limit=9)


def test_processes_on_an_empty_database(store_url: str) -> None:
    """Processes that start at once on an empty database all come up, over and over."""
    program = (
        "import sys; from monitor.store.sql_store import open_store; s = open_store(sys.argv[1]); s.check(); s.close()"
    )
    for number in range(3):
        url = f"{store_url}.{number}" if store_url.startswith("sqlite") else store_url
        running = [
            subprocess.Popen([sys.executable, "-W", "error", "-c", program, url], stderr=subprocess.PIPE)
            for _ in range(3)
        ]
        errors = [process.communicate(timeout=60)[1] for process in running]
        assert [(0, b"")] * 3 == [(process.returncode, said) for process, said in zip(running, errors, strict=True)]
        if url == store_url:
            empty(url)


def test_migration_is_killed(store_url: str) -> None:
    """A migration that dies midway leaves neither half a schema nor its lock."""
    with closing(open_store(store_url, migrate=False)) as store:
        if store_url.startswith("sqlite"):
            with closing(sqlite3.connect(store_url.removeprefix("sqlite:///"), isolation_level=None)) as dying:
                dying.execute("BEGIN IMMEDIATE")
                dying.execute("CREATE TABLE spans (half)")
        else:
            engine = create_engine(store_url)
            with engine.connect() as dying, engine.connect() as killer:
                dying.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": migration.LOCK})
                dying.execute(text("CREATE TABLE spans (half int)"))
                pid = dying.execute(text("SELECT pg_backend_pid()")).scalar()
                with ThreadPoolExecutor(1) as pool:
                    waiting = pool.submit(migration.migrate, store_url)
                    wait_until(lambda: advisory_waits(killer), "the other to wait for the lock", seconds=10)
                    killer.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
                    waiting.result(30)
                dying.invalidate()
            engine.dispose()
        migration.migrate(store_url)
        store.check()


def advisory_waits(connection: Connection) -> int:
    """How many wait for an advisory lock of PostgreSQL right now."""
    waits = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    return int(connection.execute(waits).scalar_one())


def empty(url: str) -> None:
    """Drop everything in a PostgreSQL database."""
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
