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


@pytest.mark.parametrize(("jump", "said"), [(DAY, "1 day, 0:00:00 ahead"), (-DAY, "1 day, 0:00:00 back")])
def test_clock_that_is_set_and_set_right_again(caplog: pytest.LogCaptureFixture, jump: timedelta, said: str) -> None:
    """Time goes on as if nothing had been, and the log says both."""
    database = Database()
    clock = SharedClock(database.read, seconds=lambda: database.seconds)
    with caplog.at_level(logging.WARNING):
        for seconds in range(0, 540, 5):
            database.seconds, database.now = 100.0 + seconds, NOW + jump + seconds * SECOND
            clock.look()
            assert NOW + seconds * SECOND == clock()
        database.now = NOW + 540 * SECOND
        clock.look()
    assert NOW + 540 * SECOND == clock()
    assert [
        f"the clock was set {said}: time goes on without that until it stays so for 0:10:00",
        "the clock is right again",
    ] == [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_clock_that_stays_as_it_was_set(caplog: pytest.LogCaptureFixture, jump: timedelta) -> None:
    """After ten minutes it is taken for right."""
    database = Database()
    clock = SharedClock(database.read, seconds=lambda: database.seconds)
    with caplog.at_level(logging.WARNING):
        for seconds in range(0, 605, 5):
            database.seconds, database.now = 100.0 + seconds, NOW + jump + seconds * SECOND
            clock.look()
    assert NOW + jump + 600 * SECOND == clock()
    assert caplog.records[-1].getMessage().endswith(": it is followed from now on")


def test_clock_that_is_set_again_and_again() -> None:
    """Each time it is doubted anew."""
    database = Database()
    clock = SharedClock(database.read, seconds=lambda: database.seconds)
    for number in range(5):
        for seconds in range(number * 500, number * 500 + 500, 5):
            database.seconds, database.now = 100.0 + seconds, NOW + (number + 1) * DAY + seconds * SECOND
            clock.look()
    assert NOW + 2495 * SECOND == clock()
