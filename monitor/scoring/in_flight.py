"""Calls of the judge under way: begun one by one, followed up in groups, and none left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta

_LONGEST_WAIT_SECONDS = 1.0
_GATHER_SECONDS = 0.02


class CallsInFlight:
    """The calls that run right now."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self._fault: BaseException | None = None

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._tasks)

    def begin(self, work: Coroutine[None, None, None]) -> None:
        """Run `work` beside the others."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._note_end)

    async def some_end(self) -> None:
        """Return when some have ended, a moment later, so that those ending together are followed up together.

        Raises:
            StoreUnavailable: of one of them, when the others have ended too.
        """
        if self._tasks:
            try:
                await asyncio.wait_for(self._ended.wait(), _LONGEST_WAIT_SECONDS)
            except TimeoutError:
                return
        if self._tasks:
            await asyncio.sleep(_GATHER_SECONDS)
        self._ended.clear()
        if self._fault:
            await self.all_end(within=None)

    async def all_end(self, *, within: timedelta | None) -> None:
        """Wait for all of them; raise what the store made of one of them."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within.total_seconds() if within is not None else None)
        if fault := self._fault:
            self._fault = None
            raise fault

    async def abandon(self) -> None:
        """Cancel what still runs; each has tidied up after itself before this returns."""
        running = tuple(self._tasks)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._fault = None

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._fault = self._fault or error
        self._ended.set()
