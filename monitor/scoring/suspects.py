"""Jobs that come back without an outcome: each is computed alone, and one that two processes died with is set aside.

Whose lease ran out may have ended its process, or only been held by it. Nothing is written down for jobs that are
claimed for the first time, nor while a judge is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from monitor.model.judgements import ChatMessage, Job
from monitor.model.turns import Turn
from monitor.ports import Metric
from monitor.scoring.outcomes import unbroken
from monitor.stores import DEATHS, UnderWayStore

T = TypeVar("T")


def suspected(job: Job) -> bool:
    """Return whether a claim of this job ended neither with an outcome nor with a failure of its own."""
    return job.attempt > job.failures + 1


async def prompt(metric: Metric, turn: Turn) -> Sequence[ChatMessage]:
    """Return what the metric asks, made in the event loop as for any turn: what freezes there is seen from outside."""
    return metric.messages(turn)


class Suspects:
    """Computes one suspect at a time, so that what dies with the process is known."""

    def __init__(self, store: UnderWayStore, *, worker: str) -> None:
        """Prepare; `worker` is this run of a process."""
        self._store = store
        self._worker = worker
        self._free = asyncio.Lock()

    async def alone(self, jobs: Sequence[Job], compute: Callable[[], Awaitable[T]]) -> T | None:
        """Return what `compute` returns, or None, without calling it, when `DEATHS` processes died while it ran.

        The jobs are of one turn. Also when it is cancelled it ends with nothing under way.

        Raises:
            StoreUnavailable: the database cannot be read or written.
        """
        async with self._free:
            return await unbroken(self._compute(jobs, compute))

    async def _compute(self, jobs: Sequence[Job], compute: Callable[[], Awaitable[T]]) -> T | None:
        # A turn whose content changes is another subject.
        subjects = [f"{job.turn_id} {job.rubric_id} {job.content_hash}" for job in jobs]
        if not await asyncio.to_thread(self._begin, subjects):
            return None
        try:
            return await compute()
        finally:
            await asyncio.to_thread(self._store.end, "job", subjects)

    def _begin(self, subjects: Sequence[str]) -> bool:
        """Write that these are being computed, and return True, unless they are set aside."""
        died = self._store.deaths("job", subjects, worker=self._worker)
        if max(died.values(), default=0) >= DEATHS:
            return False
        self._store.begin("job", subjects, worker=self._worker, alone=True)
        return True
