"""How many bytes of requests are in memory at once; what comes later waits unread in its connection.

Bytes are charged as they arrive, not as they are announced. A body that is here goes before those still arriving, and
while others wait for room, those whose bytes do not come give way.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from monitor.errors import Overloaded

_PATIENCE = timedelta(seconds=5)
"""Exporters give up after 10 s; until then the answer must be there."""
_STALLED = timedelta(milliseconds=250)
_PROGRESS = 4096
"""Bytes that count as progress: who sends a byte now and then makes none."""
_LATE_SECONDS = 0.05
"""A timer that is later than this says that we were busy; bytes may be here that we have not seen."""


class Share:
    """What one request holds; `Admission.share` gives it."""

    def __init__(self, admission: Admission, number: int, timer: asyncio.Timeout) -> None:
        self._admission, self._timer = admission, timer
        self.number = number
        """In the order in which requests began."""
        self.bytes = 0
        """Held now."""
        self.waits = False
        """For room; then it is not to blame that its bytes do not come."""
        self.is_whole = False
        self.gave_way = False
        self.moved_at = 0.0
        """The loop's time of the last progress."""
        self._moved_to = 0

    async def hold(self, size: int) -> None:
        """Return once `size` bytes in all are this request's.

        Raises:
            Overloaded: no room within `patience`.
        """
        if size - self._moved_to >= _PROGRESS or not self.bytes:
            self._moved_to = size
            self.moved_at = asyncio.get_running_loop().time()
        await self._admission.resize(self, size)

    async def hold_whole(self, size: int) -> None:
        """Do the same for a request whose bytes are all here: it gives way no longer, and has no time limit any more.

        Raises:
            Overloaded: no room within `patience`.
        """
        self.is_whole = True
        self._timer.reschedule(None)
        await self._admission.resize(self, size)

    def give_way(self) -> None:
        """End the request, where its bytes are awaited."""
        self.gave_way = True
        self._timer.reschedule(asyncio.get_running_loop().time())


_Waiting = tuple[Share, int, asyncio.Future[None]]
"""Who waits, for how many bytes in all, and what tells it that they are there."""


class Admission:
    """A gate measured in bytes.

    Args:
        limit: bytes of all requests; where none can go on within it, one may go over it.
        spare: bytes of these that only whole requests may take, so that halves of others do not keep them waiting.
        patience: how long a request waits for room.
        stalled: how long one may make no progress while others wait.
    """

    def __init__(
        self, limit: int, *, spare: int = 0, patience: timedelta = _PATIENCE, stalled: timedelta = _STALLED
    ) -> None:
        self._limit, self._spare = limit, spare
        self._patience, self._stalled = patience.total_seconds(), stalled.total_seconds()
        self._numbers = itertools.count()
        self._held = 0
        self._active = 0
        """Requests that hold something and do not wait for more."""
        self._arriving: OrderedDict[Share, None] = OrderedDict()
        """Of these, those that are not whole, in the order of their last progress."""
        self._whole: list[_Waiting] = []
        """First come, first served."""
        self._halves: list[_Waiting] = []
        """Who began first goes first: it is the one that may go over the limit, until it is whole."""
        self._pressing: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def share(self, *, within: timedelta) -> AsyncIterator[Share]:
        """Give a request its share, which is nothing at first; it must be whole `within` this time.

        Raises:
            TimeoutError: it was not.
            Overloaded: it gave way to others.
        """
        timer = asyncio.timeout(within.total_seconds())
        share = Share(self, next(self._numbers), timer)
        try:
            async with timer:
                yield share
        except TimeoutError:
            if share.gave_way:
                raise Overloaded("its bytes did not come, and others waited for the room") from None
            raise
        finally:
            self._set(share, 0)
            self._admit()

    def limit_to(self, limit: int) -> None:
        """Change the limit; what is held already stays."""
        if limit != self._limit:
            self._limit = limit
            self._admit()

    async def resize(self, share: Share, size: int) -> None:
        """Let `share` hold `size` bytes: at once, or when there is room.

        Raises:
            Overloaded: no room within `patience`.
        """
        queue = self._whole if share.is_whole else self._halves
        if size <= share.bytes or (self._is_next(share) and self._fits(share, size)):
            self._set(share, size)
            self._admit()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = share, size, turn
        self._set(share, share.bytes, waits=True)
        if share.is_whole:
            queue.append(waiting)
        else:
            bisect.insort(queue, waiting, key=lambda other: other[0].number)
        self._admit()
        try:
            async with asyncio.timeout(self._patience):
                await turn
        except BaseException as error:
            if waiting in queue:
                queue.remove(waiting)
            if isinstance(error, TimeoutError):
                raise Overloaded(
                    f"{self._held} bytes of requests are in memory already", retry_after=timedelta(seconds=1)
                ) from None
            raise

    def _is_next(self, share: Share) -> bool:
        if share.is_whole:
            return not self._whole
        return not self._whole and not (self._halves and self._halves[0][0].number < share.number)

    def _fits(self, share: Share, size: int) -> bool:
        room = self._limit - (0 if share.is_whole else self._spare)
        others = self._active - (share.bytes > 0 and not share.waits)
        return self._held + size - share.bytes <= room or not others

    def _set(self, share: Share, size: int, *, waits: bool = False) -> None:
        was_active, is_active = share.bytes > 0 and not share.waits, size > 0 and not waits
        has_waited = share.waits and not waits
        self._held += size - share.bytes
        self._active += is_active - was_active
        share.bytes, share.waits = size, waits
        if not is_active or share.is_whole:
            self._arriving.pop(share, None)
            return
        now = asyncio.get_running_loop().time()
        if has_waited:
            share.moved_at = now
        if share not in self._arriving or share.moved_at == now:
            self._arriving[share] = None
            self._arriving.move_to_end(share)

    def _admit(self) -> None:
        """Let in who fits, and see to it that those who hold up the others do so for a bounded time."""
        while queue := self._whole or self._halves:
            share, size, turn = queue[0]
            if not turn.done():
                if not self._fits(share, size):
                    break
                self._set(share, size)
                turn.set_result(None)
            del queue[0]
        if queue and self._arriving and self._pressing is None:
            loop = asyncio.get_running_loop()
            oldest = next(iter(self._arriving))
            due = max(oldest.moved_at + self._stalled, loop.time() + _LATE_SECONDS)
            self._pressing = loop.call_at(due, self._press, due)

    def _press(self, due: float) -> None:
        """End who makes no progress, as many as give room to who is next."""
        self._pressing = None
        now = asyncio.get_running_loop().time()
        while now - due < _LATE_SECONDS and self._arriving and (queue := self._whole or self._halves):
            oldest = next(iter(self._arriving))
            share, size, turn = queue[0]
            if now - oldest.moved_at < self._stalled or turn.done() or self._fits(share, size):
                break
            self._set(oldest, 0)
            oldest.give_way()
        self._admit()
