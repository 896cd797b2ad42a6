"""How many bytes of requests are in memory at once; who comes later waits unread in its connection."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from monitor.errors import Overloaded

_PATIENCE = timedelta(seconds=5)
"""Exporters give up after 10 s; until then the answer must be there."""


class Admission:
    """A first come, first served gate measured in bytes."""

    def __init__(self, limit: int, *, patience: timedelta = _PATIENCE) -> None:
        self._limit = limit
        self._patience = patience
        self._reserved = 0
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def reserve(self, size: int) -> AsyncIterator[Callable[[int], None]]:
        """Enter when `size` bytes fit, or when nothing else is reserved; yields what to call with the real size.

        Raises:
            Overloaded: no room within `patience`.
        """
        await self._enter(size)
        reserved = size

        def resize(actual: int) -> None:
            nonlocal reserved
            self._reserved += actual - reserved
            reserved = actual
            self._admit()

        try:
            yield resize
        finally:
            self._reserved -= reserved
            self._admit()

    async def _enter(self, size: int) -> None:
        if not self._queue and self._fits(size):
            self._reserved += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((size, turn))
        try:
            async with asyncio.timeout(self._patience.total_seconds()):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._reserved -= size
            else:
                with suppress(ValueError):
                    self._queue.remove((size, turn))
            self._admit()
            if isinstance(error, TimeoutError):
                raise Overloaded(
                    f"{self._reserved} bytes of requests are in memory already", retry_after=timedelta(seconds=1)
                ) from None
            raise

    def _fits(self, size: int) -> bool:
        return not self._reserved or self._reserved + size <= self._limit

    def _admit(self) -> None:
        while self._queue and self._fits(self._queue[0][0]):
            size, turn = self._queue.popleft()
            if turn.cancelled():
                continue
            self._reserved += size
            turn.set_result(None)
