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
        self._held = 0
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[Callable[[int], None]]:
        """Enter when `size` bytes fit, or when nothing else is held; call what is yielded once the size is known.

        Raises:
            Overloaded: no room within `patience`.
        """
        await self._enter(size)
        held = size

        def known(actual: int) -> None:
            nonlocal held
            self._held += actual - held
            held = actual
            self._admit()

        try:
            yield known
        finally:
            self._held -= held
            self._admit()

    async def _enter(self, size: int) -> None:
        if not self._queue and self._fits(size):
            self._held += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((size, turn))
        try:
            async with asyncio.timeout(self._patience.total_seconds()):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._held -= size
            else:
                with suppress(ValueError):
                    self._queue.remove((size, turn))
            self._admit()
            if isinstance(error, TimeoutError):
                raise Overloaded(
                    f"{self._held} bytes of requests are in work already", retry_after=timedelta(seconds=1)
                ) from None
            raise

    def _fits(self, size: int) -> bool:
        return not self._held or self._held + size <= self._limit

    def _admit(self) -> None:
        while self._queue and self._fits(self._queue[0][0]):
            size, turn = self._queue.popleft()
            if turn.cancelled():
                continue
            self._held += size
            turn.set_result(None)
