"""Memory that was freed goes back to the system, instead of staying ours for as long as the process lives.

glibc keeps what is freed between pieces still in use, in a heap for each thread. Under full load, with bodies of
megabytes beside rows of ten kilobytes, that came to 30 to 70 MB. Asking for it takes a few milliseconds a second,
outside of Python's lock.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

_EVERY = timedelta(seconds=1)
_ARENA_MAX, _ARENAS = -8, 2
"""`M_ARENA_MAX` of malloc.h, and how many heaps a dozen threads share."""


@asynccontextmanager
async def giving_back(*, every: timedelta = _EVERY) -> AsyncIterator[None]:
    """Give freed memory back now and then while entered; with other C libraries than glibc this does nothing.

    Entered before the first thread starts, it also keeps the threads from having a heap each.
    """
    try:
        library = ctypes.CDLL(None)
        trim, limit = library.malloc_trim, library.mallopt
    except (AttributeError, OSError, TypeError):
        yield
        return
    limit(_ARENA_MAX, _ARENAS)

    async def keep_giving() -> None:
        while True:
            await asyncio.sleep(every.total_seconds())
            await asyncio.to_thread(trim, 0)

    giving = asyncio.create_task(keep_giving(), name="memory")
    try:
        yield
    finally:
        giving.cancel()
        with suppress(asyncio.CancelledError):
            await giving
