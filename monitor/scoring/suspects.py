"""Jobs that come back without an outcome: each is computed alone, and one that two processes died with is set aside.

Whose lease ran out may have ended its process, or only been held by it. Nothing is written down for jobs that are
claimed for the first time, nor while a judge is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from monitor.judging.dialogue import Answer
from monitor.judging.judges import Judges
from monitor.model.judgements import ChatRequest, Job, Reply
from monitor.model.turns import Turn
from monitor.ports import Judge, Metric
from monitor.scoring.outcomes import unbroken
from monitor.stores import DEATHS, UnderWayStore

T = TypeVar("T")


def suspected(job: Job) -> bool:
    """Return whether a claim of this job ended neither with an outcome nor with a failure of its own."""
    return job.attempt > job.failures + 1


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
        return await unbroken(self._compute(jobs, compute))

    async def judged(
        self, jobs: Sequence[Job], judges: Judges, metrics: Sequence[Metric], turn: Turn
    ) -> tuple[Answer, ...] | None:
        """Return the answers of `judges`, or None, without asking, when `DEATHS` processes died at it.

        What is written down is the making of prompts and the reading of replies, not the wait for a judge: whoever
        kills processes at random would hit innocents there. It runs in the event loop as for any turn, so that what
        freezes there is seen from outside.

        Raises:
            Retryable: as `Judges.judge`.
            StoreUnavailable: the database cannot be read or written.
        """
        stretch = _Stretch(self._store, self._free, [job.subject for job in jobs], worker=self._worker)
        try:
            if not await stretch.begin():
                return None
            return await judges.judge(metrics, turn, around=lambda judge: _WatchedJudge(judge, stretch))
        finally:
            await unbroken(stretch.end())

    async def _compute(self, jobs: Sequence[Job], compute: Callable[[], Awaitable[T]]) -> T | None:
        stretch = _Stretch(self._store, self._free, [job.subject for job in jobs], worker=self._worker)
        try:
            return await compute() if await stretch.begin() else None
        finally:
            await stretch.end()


class _Stretch:
    """Work on the jobs of one turn that may end the process: begun and ended as often as somebody is waited for."""

    def __init__(self, store: UnderWayStore, free: asyncio.Lock, subjects: Sequence[str], *, worker: str) -> None:
        self._store = store
        self._free = free
        self._subjects = subjects
        self._worker = worker
        self._changing = asyncio.Lock()
        self._under_way = False

    async def begin(self) -> bool:
        """Write that these are being computed, and return True, unless they are set aside; may be begun already."""
        async with self._changing:
            if not self._under_way:
                await self._free.acquire()
                self._under_way = True
                return await unbroken(asyncio.to_thread(self._note))
        return True

    async def end(self) -> None:
        """Write that nothing is being computed; may be ended already."""
        async with self._changing:
            if self._under_way:
                try:
                    await asyncio.to_thread(self._store.end, "job", self._subjects)
                finally:
                    self._under_way = False
                    self._free.release()

    def _note(self) -> bool:
        died = self._store.deaths("job", self._subjects, worker=self._worker)
        if max(died.values(), default=0) >= DEATHS:
            return False
        self._store.begin("job", self._subjects, worker=self._worker, alone=True)
        return True


class _WatchedJudge:
    """A judge; while it is waited for nothing is under way."""

    def __init__(self, judge: Judge, stretch: _Stretch) -> None:
        self._judge = judge
        self._stretch = stretch

    @property
    def name(self) -> str:
        """The judge's."""
        return self._judge.name

    @property
    def max_prompt_tokens(self) -> int | None:
        """The judge's."""
        return self._judge.max_prompt_tokens

    async def ask(self, request: ChatRequest) -> Reply:
        """As `Judge.ask`."""
        await unbroken(self._stretch.end())
        try:
            reply = await self._judge.ask(request)
        except Exception:
            await self._stretch.begin()
            raise
        await self._stretch.begin()
        return reply
