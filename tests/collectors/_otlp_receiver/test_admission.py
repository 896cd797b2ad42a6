"""The gate that keeps requests waiting in their connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from collectors._otlp_receiver.admission import Admission
from monitor.errors import Overloaded


class Visitors:
    """Tasks that reserve bytes until they may leave."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._leave: dict[str, asyncio.Event] = {}
        self.inside: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str, size: int) -> None:
        """Let one more ask for entrance."""
        self._leave[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._visit(name, size))
        await _settled()

    async def go(self, name: str) -> None:
        """Let one leave."""
        self._leave[name].set()
        await _settled()

    async def cancel(self, name: str) -> None:
        """Cancel one, inside or waiting."""
        self.tasks[name].cancel()
        await _settled()

    async def _visit(self, name: str, size: int) -> None:
        async with self._admission.reserve(size):
            self.inside.append(name)
            await self._leave[name].wait()


async def _settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@asynccontextmanager
async def gate(*, patience: float = 20) -> AsyncIterator[Visitors]:
    """A gate of 100 bytes; who is still there in the end is sent away."""
    visitors = Visitors(Admission(100, patience=timedelta(seconds=patience)))
    try:
        yield visitors
    finally:
        for task in visitors.tasks.values():
            task.cancel()
        await asyncio.gather(*visitors.tasks.values(), return_exceptions=True)


async def test_first_come_first_served() -> None:
    """Who fits enters; nobody overtakes the one at the head of the queue, however small."""
    async with gate() as visitors:
        for name, size in (("a", 60), ("b", 40), ("c", 50), ("d", 1)):
            await visitors.come(name, size)
        assert ["a", "b"] == visitors.inside
        await visitors.go("b")
        assert ["a", "b"] == visitors.inside
        await visitors.go("a")
        assert ["a", "b", "c", "d"] == visitors.inside


async def test_larger_than_the_gate() -> None:
    """What is larger than the whole limit enters alone."""
    async with gate() as visitors:
        await visitors.come("a", 10)
        await visitors.come("huge", 1000)
        await visitors.come("b", 10)
        assert ["a"] == visitors.inside
        await visitors.go("a")
        assert ["a", "huge"] == visitors.inside
        await visitors.go("huge")
        assert ["a", "huge", "b"] == visitors.inside


async def test_cancelled_while_waiting() -> None:
    """One that goes away from the queue lets those behind it in."""
    async with gate() as visitors:
        for name, size in (("a", 60), ("b", 90), ("c", 40)):
            await visitors.come(name, size)
        await visitors.cancel("b")
        assert ["a", "c"] == visitors.inside


async def test_cancelled_at_the_door() -> None:
    """One that is cancelled in the moment it is let in takes no room with it."""
    async with gate() as visitors:
        await visitors.come("a", 100)
        await visitors.come("b", 100)
        visitors._leave["a"].set()  # noqa: SLF001 -- the order of these two steps is the test
        visitors.tasks["b"].cancel()
        await _settled()
        await visitors.come("c", 100)
        assert ["a", "c"] == visitors.inside


async def test_patience_ends() -> None:
    """One that waited too long is told to come back, and leaves the queue."""
    async with gate(patience=0.05) as visitors:
        await visitors.come("a", 100)
        await visitors.come("b", 100)
        with pytest.raises(Overloaded) as caught:
            await visitors.tasks["b"]
        assert timedelta(seconds=1) == caught.value.retry_after
        await visitors.go("a")
        await visitors.come("c", 100)
        assert ["a", "c"] == visitors.inside


async def test_size_that_becomes_known() -> None:
    """Room that a request turns out not to need is others' at once, and all of it is free in the end."""
    admission = Admission(100, patience=timedelta(seconds=20))
    entered: list[str] = []

    async def enter(name: str, size: int) -> None:
        async with admission.reserve(size):
            entered.append(name)

    async with admission.reserve(100) as resize:
        second = asyncio.create_task(enter("second", 60))
        await _settled()
        assert [] == entered
        resize(40)
        await second
        assert ["second"] == entered
        resize(120)
        third = asyncio.create_task(enter("third", 100))
        await _settled()
        assert ["second"] == entered
    await third
    assert ["second", "third"] == entered
