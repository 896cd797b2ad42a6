"""The gate that keeps requests waiting in their connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from collectors._otlp_receiver.admission import Admission
from monitor.errors import Overloaded

LONG = timedelta(seconds=20)


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
        async with self._admission.share(within=LONG) as share:
            await share.hold_whole(size)
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
    admission = Admission(100, patience=LONG)
    entered: list[str] = []

    async def enter(name: str, size: int) -> None:
        async with admission.share(within=LONG) as share:
            await share.hold_whole(size)
            entered.append(name)

    async with admission.share(within=LONG) as share:
        await share.hold(100)
        second = asyncio.create_task(enter("second", 60))
        await _settled()
        assert [] == entered
        await share.hold_whole(40)
        await second
        assert ["second"] == entered
        await share.hold_whole(100)
        third = asyncio.create_task(enter("third", 100))
        await _settled()
        assert ["second"] == entered
    await third
    assert ["second", "third"] == entered


class Arriving:
    """Requests whose bytes come when the test says so."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._wanted: dict[str, asyncio.Queue[int]] = {}
        self.held: dict[str, int] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def grow(self, name: str, size: int) -> None:
        """Let one have `size` bytes in all; 0 ends it."""
        if name not in self.tasks:
            self._wanted[name] = asyncio.Queue()
            self.tasks[name] = asyncio.create_task(self._arrive(name))
        self._wanted[name].put_nowait(size)
        await _settled()

    async def _arrive(self, name: str) -> None:
        async with self._admission.share(within=LONG) as share:
            while size := await self._wanted[name].get():
                await share.hold(size)
                self.held[name] = size
        del self.held[name]


@asynccontextmanager
async def arriving(admission: Admission) -> AsyncIterator[Arriving]:
    """Requests at a gate; who is still there in the end is sent away."""
    requests = Arriving(admission)
    try:
        yield requests
    finally:
        for task in requests.tasks.values():
            task.cancel()
        await asyncio.gather(*requests.tasks.values(), return_exceptions=True)


async def test_oldest_half_goes_over_the_limit() -> None:
    """Where all wait for more, the one that began first may go on, and alone, until it is done."""
    async with arriving(Admission(100, patience=LONG)) as requests:
        for name in "abc":
            await requests.grow(name, 30)
        for name in "cba":
            await requests.grow(name, 60)
        assert {"a": 60, "b": 30, "c": 30} == requests.held
        await requests.grow("a", 90)
        assert {"a": 90, "b": 30, "c": 30} == requests.held
        await requests.grow("a", 0)
        assert {"b": 60, "c": 30} == requests.held


async def test_half_that_does_not_go_on_gives_way() -> None:
    """Whose bytes do not come, or one now and then, gives way when others wait; who makes progress stays."""
    admission = Admission(100_000, patience=LONG, stalled=timedelta(milliseconds=200))
    async with arriving(admission) as requests:
        for name in ("stalled", "slow", "good"):
            await requests.grow(name, 30_000)
        await requests.grow("next", 60_000)
        size = 30_000
        async with asyncio.timeout(20):
            while "next" not in requests.held:
                size += 1
                await requests.grow("slow", size)
                await requests.grow("good", 30_000 if requests.held["good"] > 30_000 else 34_096)
                await asyncio.sleep(0.01)
        for name in ("stalled", "slow"):
            with pytest.raises(Overloaded, match="others waited"):
                await requests.tasks[name]
        assert not requests.tasks["good"].done()


async def test_nobody_gives_way_while_nobody_waits() -> None:
    """A slow sender may take its time as long as there is room."""
    async with arriving(Admission(100, patience=LONG, stalled=timedelta(milliseconds=20))) as requests:
        await requests.grow("slow", 50)
        await requests.grow("large", 60)
        await requests.grow("large", 0)
        await asyncio.sleep(0.2)
        assert {"slow": 50} == requests.held


async def test_halves_leave_room_for_the_whole() -> None:
    """No number of halves keeps one out that is here, for which a part of the room is spared."""
    admission = Admission(100, spare=25, patience=LONG, stalled=LONG)
    async with arriving(admission) as requests:
        for name in "abcd":
            await requests.grow(name, 25)
        assert {"a": 25, "b": 25, "c": 25} == requests.held
        for _ in range(3):
            async with admission.share(within=LONG) as share:
                await asyncio.wait_for(share.hold_whole(25), 20)
        assert {"a": 25, "b": 25, "c": 25} == requests.held


async def test_time_is_over() -> None:
    """A request that is not whole in time ends with what says so; once it is whole, its time does not end."""
    admission = Admission(100, patience=LONG)

    async def stall() -> None:
        async with admission.share(within=timedelta(milliseconds=10)) as share:
            await share.hold(10)
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await stall()
    async with admission.share(within=timedelta(milliseconds=10)) as share:
        await share.hold_whole(10)
        await asyncio.sleep(0.1)
