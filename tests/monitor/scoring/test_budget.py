"""What was spent on a day, whatever day the clock says it is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.model.judgements import Spend
from monitor.scoring.budget import Ledger
from monitor.settings.tree import BudgetSettings
from monitor.store.sql_store import SqlStore, open_store

DAY = timedelta(days=1)
FIRST = datetime(2026, 3, 1, tzinfo=UTC)
NOON, NEXT = FIRST + timedelta(hours=12), FIRST + timedelta(hours=30)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    """A store."""
    store = open_store(f"sqlite:///{tmp_path / 'monitor.db'}")
    yield store
    store.close()


class Rig:
    """A ledger whose clock is set, and what its process has spent by then."""

    def __init__(self, store: SqlStore, *, worker: str = "one") -> None:
        self.now = NOON
        self.spent = Spend()
        self._store = store
        self._ledger = Ledger(
            store,
            worker=worker,
            spent=lambda: self.spent,
            conversations=lambda: self.spent.calls,
            at_once=1,
            budget=BudgetSettings(daily_usd=10),
            clock=lambda: self.now,
        )

    async def spend(self, usd: float, *, at: datetime) -> tuple[float, float]:
        """Spend at that moment; return what is in the books of the first day and of the one after it."""
        self.now = at
        await self._ledger.write()
        self.spent += Spend(usd=usd, calls=1)
        await self._ledger.write()
        first, second = (self._store.spend(since=day, until=day + DAY).usd for day in (FIRST, FIRST + DAY))
        return first, second


async def test_a_clock_that_is_set_back_over_midnight(store: SqlStore) -> None:
    """What was spent on a day stays in its books when the day comes again; what is spent then is added."""
    rig = Rig(store)
    assert [(1, 0), (3, 0)] == [await rig.spend(1, at=NOON), await rig.spend(2, at=NOON)]
    assert (3, 4) == await rig.spend(4, at=NEXT)
    assert (3, 4) == await rig.spend(0, at=NOON)
    assert (11, 4) == await rig.spend(8, at=NOON)


async def test_a_clock_that_is_set_ahead_and_right_again_and_again(store: SqlStore) -> None:
    """However often midnight is crossed, each dollar is in the books of one day, once."""
    rig = Rig(store)
    for number in range(1, 8):
        first, second = await rig.spend(1, at=NOON if number % 2 else NEXT)
        assert (number, (number + 1) // 2) == (first + second, first)


async def test_two_processes_of_which_one_has_a_clock_ahead(store: SqlStore) -> None:
    """The books of one day are the sum over both."""
    one, other = Rig(store), Rig(store, worker="other")
    await one.spend(1, at=NOON)
    await other.spend(2, at=NEXT)
    assert (3, 2) == await other.spend(2, at=NOON)
