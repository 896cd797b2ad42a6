"""What the calls of one address may hold."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta

from collectors.otlp_grpc.peers import Peers

LONG = timedelta(seconds=20)


class Callers:
    """Calls that hold bytes until they are told to end."""

    def __init__(self) -> None:
        self.now = 100.0
        self.peers = Peers(160, left=40, stalled=LONG, clock=lambda: self.now)
        self.inside: list[str] = []
        self._end: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def call(self, name: str, peer: str, size: int) -> None:
        """Begin one."""
        self._end[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._hold(name, peer, size))
        await settled()

    async def end(self, name: str) -> None:
        """Let one end."""
        self._end[name].set()
        await self._tasks[name]
        self.inside.remove(name)
        await settled()

    async def aclose(self) -> None:
        """Let all end."""
        for event in self._end.values():
            event.set()
        await asyncio.gather(*self._tasks.values())

    async def _hold(self, name: str, peer: str, size: int) -> None:
        with self.peers.gate_of(peer) as gate:
            async with gate.share(within=LONG) as share:
                await share.hold_whole(size)
                self.inside.append(name)
                await self._end[name].wait()


async def settled() -> None:
    """Let all tasks go as far as they can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_address_alone_has_everything() -> None:
    """A fleet behind a proxy, or a collector, is one address: while nobody else calls, nothing is kept from it."""
    async with AsyncExitStack() as stack:
        callers = Callers()
        stack.push_async_callback(callers.aclose)
        for name in "abcde":
            await callers.call(name, "proxy", 40)
        assert ["a", "b", "c", "d"] == callers.inside


async def test_others_find_room() -> None:
    """From when another one calls, room for one is left to others, and stays so between their calls."""
    async with AsyncExitStack() as stack:
        callers = Callers()
        stack.push_async_callback(callers.aclose)
        for name in "abcd":
            await callers.call(name, "proxy", 40)
        await callers.call("other", "app", 40)
        await callers.call("e", "proxy", 40)
        await callers.end("a")
        await callers.end("other")
        assert ["b", "c", "d"] == callers.inside
        await callers.end("b")
        assert ["c", "d", "e"] == callers.inside


async def test_others_that_are_gone() -> None:
    """Ten seconds after the last call of another one, the room that was left to it is taken again."""
    async with AsyncExitStack() as stack:
        callers = Callers()
        stack.push_async_callback(callers.aclose)
        await callers.call("other", "app", 40)
        await callers.end("other")
        for name in "abcd":
            await callers.call(name, "proxy", 40)
        assert ["a", "b", "c"] == callers.inside
        callers.now += 11
        await callers.call("e", "proxy", 40)
        assert ["a", "b", "c", "d"] == callers.inside
