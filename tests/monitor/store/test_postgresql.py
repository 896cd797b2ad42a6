"""Transactions on PostgreSQL hold through a pooler that lends another connection for each, and through its troubles."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

import psycopg
import pytest
from deadline import wait_until
from pgbouncer_service import POOL_SIZE
from sqlalchemy import text

from monitor.errors import ConfigError, StoreUnavailable
from monitor.model.spans import Fragment
from monitor.store.database import Database
from monitor.store.sql_store import SqlStore, open_store

if TYPE_CHECKING:
    from postgres_service import PostgresServer

PATIENCE = timedelta(seconds=5)
SHORT = timedelta(milliseconds=300)
OURS = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout", "jit", "synchronous_commit")


def fragment(number: int) -> Fragment:
    """A fragment that no other number has."""
    payload = f"payload {number}".encode()
    digest = hashlib.blake2b(payload, digest_size=16).digest()
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    return Fragment(
        trace_id=f"{number:032x}", signal="traces", payload=payload, count=1, received_at=now, digest=digest
    )


def stored(store: SqlStore, numbers: Sequence[int]) -> set[int]:
    """The numbers of the fragments that are there."""
    return {
        int(trace_id, 16) for trace_id, of_trace in store.fragments([f"{n:032x}" for n in numbers]).items() if of_trace
    }


def raw(url: str) -> psycopg.Connection[tuple[object, ...]]:
    """A client that is not ours."""
    return psycopg.connect(url.replace("+psycopg", ""), autocommit=True)


def shown(execute: object, names: Sequence[str] = OURS) -> dict[str, object]:
    """What a connection's settings are."""
    return {name: execute(f"SHOW {name}") for name in names}  # type: ignore[operator] -- a lambda each


@pytest.fixture(params=["postgresql", "pooled"])
def address(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database, straight and through the pooler."""
    url: str = request.getfixturevalue("postgres_url" if request.param == "postgresql" else "pooled_url")
    return url


@pytest.fixture
def opened(address: str) -> Iterator[SqlStore]:
    """A store that gives up soon."""
    store = open_store(address, patience=timedelta(seconds=3))
    yield store
    store.close()


def test_load_through_a_pooler(pooled_url: str) -> None:
    """Eight writers that store sixty times each through five connections are refused nothing."""
    with closing(open_store(pooled_url)) as store, ThreadPoolExecutor(8) as writers:

        def store_sixty(writer: int) -> list[int]:
            return [store.append([fragment(60 * writer + n)]) for n in range(60)]

        assert [[1] * 60] * 8 == list(writers.map(store_sixty, range(8)))
        assert len(stored(store, range(480))) == 480


def test_settings_of_a_transaction(address: str) -> None:
    """Whatever connection serves it, each transaction has our limits, and never acknowledges before the disk has it."""
    with raw(address) as other:
        name = psycopg.sql.Identifier(other.info.dbname)
        other.execute(psycopg.sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(name))
    with closing(Database(address, patience=PATIENCE)) as database, ExitStack() as held:
        expected = dict(zip(OURS, ("5s", "2min", "2min", "off", "on"), strict=True))
        for _ in range(POOL_SIZE - 1):
            connection = held.enter_context(database.writing("looking"))
            assert expected == shown(lambda what, at=connection: at.execute(text(what)).scalar_one())
        reader = held.enter_context(database.reading("looking"))
        assert reader.execute(text("SHOW transaction_isolation")).scalar_one() == "repeatable read"


def test_nothing_is_left_in_the_pool(pooled_url: str) -> None:
    """Other clients of the pooler meet none of our settings and no statement that we prepared."""
    with raw(pooled_url) as other:
        before = shown(lambda what: other.execute(what).fetchone()[0])
    with closing(open_store(pooled_url)) as store, ThreadPoolExecutor(POOL_SIZE) as writers:
        list(writers.map(lambda number: store.append([fragment(number)]), range(100)))
    with ExitStack() as held:
        for _ in range(POOL_SIZE):
            other = held.enter_context(raw(pooled_url))
            held.enter_context(other.transaction())
            assert before == shown(lambda what, at=other: at.execute(what).fetchone()[0])
            assert other.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)


def test_acknowledged_is_on_disk(address: str, postgres_server: PostgresServer) -> None:
    """What was acknowledged survives a crash of the server, though the database is set not to wait for its disk."""
    with raw(address) as other:
        name = psycopg.sql.Identifier(other.info.dbname)
        other.execute(psycopg.sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(name))
        other.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        other.execute("SELECT pg_reload_conf()")
    # What the pooler opens from here on has the database's setting.
    kill_backends(address, postgres_server)
    with closing(open_store(address)) as store:
        for number in range(20):
            store.append([fragment(number)])
        postgres_server.kill()
        postgres_server.start()
        found = len(eventually(lambda: stored(store, range(20))))
    with raw(postgres_server.url("postgres")) as other:
        other.execute("ALTER SYSTEM RESET wal_writer_delay")
        other.execute("SELECT pg_reload_conf()")
    assert found == 20


def eventually(call: object) -> set[int]:
    """What the call returns once the store is reached again."""
    for _ in range(20):
        try:
            return call()  # type: ignore[operator, no-any-return] -- a lambda
        except StoreUnavailable as error:
            assert error.reason == "unreachable"  # noqa: PT017 -- each failure on the way is this one
    raise AssertionError("the store was not reached again")


def test_idle_connections_are_killed(opened: SqlStore, address: str, postgres_server: PostgresServer) -> None:
    """Connections that the server ends while nobody uses them cost nobody anything."""
    with ThreadPoolExecutor(4) as writers:
        list(writers.map(lambda number: opened.append([fragment(number)]), range(20)))
    for number in range(20, 23):
        kill_backends(address, postgres_server)
        assert opened.append([fragment(number)]) == 1


def test_backends_are_killed_under_load(opened: SqlStore, address: str, postgres_server: PostgresServer) -> None:
    """A connection that is lost at work is `unreachable`, what was acknowledged is there, and the work goes on."""
    numbers, acknowledged, reasons = count(), set[int](), set[str]()
    is_over = threading.Event()

    def write() -> None:
        while not is_over.is_set():
            number = next(numbers)
            try:
                opened.append([fragment(number)])
            except StoreUnavailable as error:
                reasons.add(error.reason)
            else:
                acknowledged.add(number)

    with ThreadPoolExecutor(6) as writers:
        writing = [writers.submit(write) for _ in range(6)]
        for round_ in range(1, 11):
            while len(acknowledged) < 30 * round_ and not any(one.done() for one in writing):
                is_over.wait(0.01)
            kill_backends(address, postgres_server)
        is_over.set()
        for one in writing:
            one.result()
    assert reasons <= {"unreachable"}
    assert acknowledged <= stored(opened, sorted(acknowledged))


def test_backend_is_killed_at_work(
    address: str, postgres_server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A connection that is lost while a statement runs is dropped without a rollback, of whose failure the log says."""
    waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
    name = address.rpartition("/")[2]

    def kill_who_waits(other: psycopg.Connection[tuple[object, ...]]) -> None:
        wait_until(lambda: other.execute(waits, (name,)).fetchone() == (1,), "a session that waits", seconds=20)
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'",
            (name,),
        )

    def wait(database: Database) -> None:
        with database.writing("waiting") as connection:
            connection.execute(text("CREATE TEMPORARY TABLE numbers (number bigint) ON COMMIT DROP"))
            insert = text("INSERT INTO numbers SELECT :number FROM pg_advisory_xact_lock(1)")
            connection.execute(insert, [{"number": 1}, {"number": 2}])

    with (
        closing(Database(address, patience=PATIENCE)) as database,
        raw(postgres_server.url(name)) as other,
        ThreadPoolExecutor(1) as killer,
    ):
        other.execute("SELECT pg_advisory_lock(1)")
        killing = killer.submit(kill_who_waits, other)
        with pytest.raises(StoreUnavailable) as caught:
            wait(database)
        killing.result()
    assert "unreachable" == caught.value.reason
    assert [] == [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


def kill_backends(address: str, postgres_server: PostgresServer) -> None:
    """End every connection of the server to this database."""
    with raw(postgres_server.url("postgres")) as other:
        name = address.rpartition("/")[2]
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))


def test_restart_behind_the_pooler(pooled_url: str, postgres_server: PostgresServer) -> None:
    """A server that restarts, or is replaced by another at its address, is found again by the same store."""
    with closing(open_store(pooled_url, patience=timedelta(seconds=3))) as store:
        store.append([fragment(1)])
        postgres_server.stop()
        with pytest.raises(StoreUnavailable) as caught:
            store.append([fragment(2)])
        assert caught.value.reason == "unreachable"
        postgres_server.start()
        assert {1} == eventually(lambda: stored(store, [1, 2]))
        assert store.append([fragment(2)]) == 1


def test_pooler_without_a_free_connection(pooled_url: str) -> None:
    """Whoever waits for a connection that a pooler does not lend is told so after their patience; it passes with it."""
    with closing(open_store(pooled_url, patience=SHORT)) as store:
        with ExitStack() as held:
            for _ in range(POOL_SIZE):
                held.enter_context(held.enter_context(raw(pooled_url)).transaction()).connection.execute("SELECT 1")
            with pytest.raises(StoreUnavailable, match=r"no answer within 0\.3 s.*default_pool_size") as caught:
                store.append([fragment(1)])
            assert caught.value.reason == "unreachable"
        assert store.append([fragment(1)]) == 1


@pytest.mark.parametrize("value", ["none", "None", "", "5"])
def test_prepare_threshold(postgres_url: str, value: str) -> None:
    """Statements are prepared on the server only when the URL asks for it."""
    with closing(Database(f"{postgres_url}?prepare_threshold={value}", patience=PATIENCE)) as database:
        for _ in range(7):
            # psycopg forgets what it prepared when a transaction is rolled back, as each is that only reads.
            with database.writing("looking") as connection:
                connection.execute(text("SELECT 7"))
        with database.reading("looking") as connection:
            prepared = connection.execute(text("SELECT count(*) FROM pg_prepared_statements")).scalar_one()
    assert (1 if value == "5" else 0) == prepared


def test_prepare_threshold_that_is_none() -> None:
    """Anything else there is refused, with what is allowed."""
    with pytest.raises(ConfigError, match=r"store\.url: prepare_threshold .*`none`, or after how many executions"):
        Database("postgresql://h/d?prepare_threshold=soon", patience=PATIENCE)
