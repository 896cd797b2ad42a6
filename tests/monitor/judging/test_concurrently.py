"""Several calls at once."""

import asyncio

import pytest

from monitor.judging.concurrently import concurrently


async def test_order() -> None:
    """Results come in the order of the work, and never more run at once than allowed."""
    running = most = 0

    async def call(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01 * (5 - number % 5))
        running -= 1
        return number

    assert tuple(range(12)) == await concurrently(map(call, range(12)), at_once=3)
    assert 3 == most


async def test_failure() -> None:
    """The first failure is raised as it is, what runs is cancelled, and what has not begun never does."""
    started: list[int] = []
    cancelled: list[int] = []

    async def call(number: int) -> None:
        started.append(number)
        if number == 1:
            raise KeyError(number)
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    with pytest.raises(KeyError):
        await concurrently(map(call, range(9)), at_once=2)
    assert ([0, 1], [0]) == (started[:2], cancelled[:1])
    assert 9 > len(started)
