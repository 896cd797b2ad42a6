"""`LeaseStore`: one holder at a time, by a clock that no process brings along."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from deadline import wait_until
from sqlalchemy import create_engine, insert

from monitor.store.tables import leases
from monitor.stores import Store

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


def test_lease(store: Store) -> None:
    """One holder at a time has the lease; it can extend it, and another gets it once it ran out."""
    assert store.take_lease("tick", "a", ttl=MINUTE)
    assert not store.take_lease("tick", "b", ttl=MINUTE)
    assert store.take_lease("tick", "a", ttl=timedelta(milliseconds=200))
    wait_until(lambda: store.take_lease("tick", "b", ttl=MINUTE), "the lease to run out", seconds=20)
    assert not store.take_lease("tick", "a", ttl=MINUTE)


def test_leases_by_name(store: Store) -> None:
    """Leases of different names have nothing to do with each other."""
    assert store.take_lease("rollup", "a", ttl=MINUTE)
    assert store.take_lease("detect", "b", ttl=MINUTE)


def test_lease_given_back(store: Store) -> None:
    """Its holder can end it at once; nobody else can, who held it before."""
    assert store.take_lease("tick", "a", ttl=MINUTE)
    store.give_lease_back("tick", "a")
    assert store.take_lease("tick", "b", ttl=MINUTE)
    store.give_lease_back("tick", "a")
    assert not store.take_lease("tick", "a", ttl=MINUTE)


def test_lease_from_a_clock_that_was_ahead(store: Store, migrated_url: str) -> None:
    """A lease that ends later than any is given for keeps nobody out: its holder's clock was a day ahead."""
    engine = create_engine(migrated_url)
    with engine.begin() as connection:
        ends = datetime.now(UTC) + DAY
        connection.execute(insert(leases).values(name="tick", holder="dead", expires_at=ends))
    engine.dispose()
    assert store.take_lease("tick", "alive", ttl=MINUTE)
    assert not store.take_lease("tick", "third", ttl=MINUTE)


def test_what_is_left_of_a_lease(store: Store) -> None:
    """Nothing is known of a lease that nobody took; else it is what is left, less than nothing when it is over."""
    assert store.lease_left("tick") is None
    store.take_lease("tick", "a", ttl=MINUTE)
    left = store.lease_left("tick")
    assert left is not None
    assert timedelta(0) < left <= MINUTE
    store.give_lease_back("tick", "a")
    left = store.lease_left("tick")
    assert left is not None
    assert left <= timedelta(0)


def test_the_shared_clock(store: Store) -> None:
    """It tells an aware instant in UTC, here that of this machine."""
    before = datetime.now(UTC)
    now = store.now()
    assert before - MINUTE < now < before + MINUTE
    assert now.tzinfo is UTC
