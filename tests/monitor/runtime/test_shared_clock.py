"""The database's time, steady between looks, whatever clock is set."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

import pytest

from monitor.errors import StoreUnavailable
from monitor.runtime.shared_clock import SharedClock

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)


class Database:
    """What a database says, and a stopwatch."""

    def __init__(self) -> None:
        self.now: datetime | None = NOW
        self.seconds = 100.0

    def read(self) -> datetime:
        """Tell, or be gone."""
        if self.now is None:
            raise StoreUnavailable("gone", reason="unreachable")
        return self.now


def test_time_goes_on_between_looks() -> None:
    """The clock is steady, and a look brings it to the database's time."""
    database = Database()
    clock = SharedClock(database.read, seconds=lambda: database.seconds)
    database.seconds += 3
    assert NOW + 3 * SECOND == clock()
    database.now = NOW + 2 * SECOND
    clock.look()
    assert NOW + 2 * SECOND == clock()


def test_database_that_is_gone() -> None:
    """Without a database time goes on as before."""
    database = Database()
    clock = SharedClock(database.read, seconds=lambda: database.seconds)
    database.seconds += 60
    database.now = None
    with pytest.raises(StoreUnavailable):
        clock.look()
    assert NOW + 60 * SECOND == clock()


@pytest.mark.parametrize(("jump", "said"), [(DAY, "ahead by 1 day, 0:00:00"), (-DAY, "back by 1 day, 0:00:00")])
def test_clock_that_is_set(caplog: pytest.LogCaptureFixture, jump: timedelta, said: str) -> None:
    """Where the clock was set the log says so once, and time goes on from there."""
    database = Database()
    clock = SharedClock(database.read, seconds=lambda: database.seconds)
    with caplog.at_level(logging.WARNING):
        database.now = NOW + jump
        clock.look()
        clock.look()
    assert NOW + jump == clock()
    assert [f"the clock was set {said}"] == [record.getMessage() for record in caplog.records]
