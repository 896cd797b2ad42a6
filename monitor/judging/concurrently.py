"""Several calls at once, where one that fails ends them all and is raised as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import TypeVar

T = TypeVar("T")


async def concurrently(calls: Iterable[Coroutine[None, None, T]], *, at_once: int) -> tuple[T, ...]:
    """Return the results in order, `at_once` at a time; at the first failure the others are cancelled."""
    gate = asyncio.Semaphore(at_once)

    async def limited(call: Coroutine[None, None, T]) -> T:
        async with gate:
            return await call

    started = list(calls)
    tasks = [asyncio.create_task(limited(call)) for call in started]
    try:
        return tuple(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for call in started:
            call.close()
