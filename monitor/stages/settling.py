"""How a job ends or goes back to wait: written insistently, since it may have been paid for, and counted once."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

from monitor.errors import StoreUnavailable
from monitor.model import Job, Outcome, Reason, Turn, Unscored, Verdict
from monitor.ports import Clock, JobStore
from monitor.settings import ScoreSettings
from monitor.telemetry import Gauge

T = TypeVar("T")

_LONGEST_BACKOFF = timedelta(minutes=15)
_INSIST_FOR = timedelta(seconds=30)

logger = logging.getLogger(__name__)


class Settler:
    """Ends jobs and gives them back."""

    def __init__(self, store: JobStore, settings: ScoreSettings, *, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()

    def counters(self) -> tuple[Gauge, ...]:
        """Return the totals of jobs and of the replies they were finished with, as `score.COUNTERS` names them."""
        return tuple(
            Gauge(name=name, value=count, labels=dict(labels)) for (name, labels), count in self._counts.items()
        )

    async def finish(self, outcomes: Sequence[Outcome]) -> None:
        """Replace jobs by their outcomes.

        Raises:
            StoreUnavailable: the database did not take them within half a minute.
        """
        if not outcomes:
            return
        await _insist(lambda: self._store.finish(outcomes))
        for outcome in outcomes:
            word = "scored" if isinstance(outcome, Verdict) else outcome.reason.value
            self._count("jobs_finished_total", 1, metric=outcome.job.metric, outcome=word)
            exchange = outcome.exchange
            if exchange.calls:
                self._count("judge_calls_total", exchange.calls, metric=outcome.job.metric)

    async def release(self, jobs: Sequence[Job], *, after: timedelta, cause: str) -> None:
        """Give jobs back, to be claimed `after` a while.

        Raises:
            StoreUnavailable: the database did not take them within half a minute.
        """
        if jobs:
            not_before = self._clock() + after
            await _insist(lambda: self._store.release(jobs, not_before=not_before))
        for job in jobs:
            self._count("jobs_released_total", 1, metric=job.metric, cause=cause)

    async def again(self, failures: Sequence[Unscored], *, after: timedelta | None) -> None:
        """Give jobs back for another attempt, each longer after the last, or finish those that had their last one."""
        last = [failure for failure in failures if failure.job.failures + 1 >= self._settings.attempts]
        await self.finish(last)
        for failure in failures:
            if failure in last:
                continue
            job = replace(failure.job, failures=failure.job.failures + 1)
            backoff = min(self._settings.backoff * 2 ** (job.failures - 1), _LONGEST_BACKOFF)
            await self.release([job], after=max(after or timedelta(0), backoff), cause=failure.reason)

    def unscored(self, job: Job, reason: Reason, *, detail: str = "") -> Unscored:
        """Return the outcome of a job that nobody was asked about."""
        return Unscored(job=job, reason=reason, detail=detail, judged_at=self._clock())

    def over(self, job: Job, turn: Turn | None) -> Unscored | None:
        """Return the outcome of a job that is not worth judging any more; None when it is."""
        if turn is None or turn.content_hash() != job.content_hash:
            return self.unscored(job, Reason.EXPIRED, detail="the turn's text is gone")
        if turn.started_at < self._clock() - self._settings.max_job_age:
            return self.unscored(job, Reason.EXPIRED, detail=f"the turn is older than {self._settings.max_job_age}")
        return None

    def internal(self, job: Job, error: Exception) -> Unscored:
        """Log a fault of ours without its message, which may quote the turn; return the outcome it becomes."""
        frame = traceback.extract_tb(error.__traceback__)[-1]
        name = type(error).__name__
        logger.error("judging %s of turn %s: %s at %s:%s", job.metric, job.turn_id, name, frame.filename, frame.lineno)
        self._count("jobs_failed_total", 1, metric=job.metric, reason=name)
        return self.unscored(job, Reason.INTERNAL, detail=name)

    def _count(self, name: str, by: int, **labels: str) -> None:
        self._counts[name, tuple(sorted(labels.items()))] += by


async def pause(stop: asyncio.Event, wait: timedelta) -> None:
    """Return after `wait`, or at once when `stop` is set."""
    if wait:
        try:
            await asyncio.wait_for(stop.wait(), wait.total_seconds())
        except TimeoutError:
            return


async def unbroken(work: Coroutine[None, None, T]) -> T:
    """Return the result of `work`, which runs to its end even when the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def _insist(write: Callable[[], None]) -> None:
    """Write in a thread, again for a while when the database is busy: what is written has been paid for."""
    end = time.monotonic() + _INSIST_FOR.total_seconds()
    wait = 0.1
    while True:
        try:
            await asyncio.to_thread(write)
        except StoreUnavailable:
            if time.monotonic() + wait > end:
                raise
            await asyncio.sleep(wait)
            wait *= 2
        else:
            return
