"""How a job ends or goes back to wait: written insistently, since it may have been paid for, and counted once."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

from monitor.errors import MonitorError, StoreUnavailable, place
from monitor.judging.dialogue import Answer
from monitor.model.judgements import Finding, Job, Outcome, Reason, Unscored, Verdict
from monitor.model.spans import PROCESS_DIED
from monitor.model.turns import Turn
from monitor.ports import Clock
from monitor.retry import backoff
from monitor.settings.tree import ScoreSettings
from monitor.stores import DEATHS, JobStore
from monitor.telemetry import Gauge

T = TypeVar("T")

CACHED = "cached"
"""Flag: the verdict is that on a turn of equal content, and cost nothing."""

_LONGEST_BACKOFF = timedelta(minutes=15)
_SHORTEST_WAIT, _INSIST_FOR = timedelta(seconds=0.1), timedelta(seconds=30)

logger = logging.getLogger(__name__)


class Outcomes:
    """Ends jobs and gives them back."""

    def __init__(
        self, store: JobStore, settings: ScoreSettings, *, clock: Clock, before: Callable[[], Awaitable[None]]
    ) -> None:
        """Prepare; `before` is awaited before outcomes are written."""
        self._store = store
        self._before = before
        self._settings = settings
        self._clock = clock
        self._counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self._waiting: list[tuple[Sequence[Outcome], asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None
        self._said_expired = False
        self._said_faults: set[tuple[str, str]] = set()

    def counters(self) -> tuple[Gauge, ...]:
        """Return the totals of jobs and of the replies they were finished with, as `score.COUNTERS` names them."""
        return tuple(
            Gauge(name=name, value=count, labels=dict(labels)) for (name, labels), count in self._counts.items()
        )

    async def finish(self, outcomes: Sequence[Outcome]) -> None:
        """Replace jobs by their outcomes; those that end while others are being written go with the next transaction.

        An outcome that cannot be written, though others can, ends its job as `internal`.

        Raises:
            StoreUnavailable: the database did not take them within half a minute.
        """
        if not outcomes:
            return
        try:
            await self._finish(outcomes)
        except Exception as error:
            if not _may_be_of_a_row(error):
                raise
            for outcome in outcomes:
                await self._finish_alone(outcome)

    async def _finish_alone(self, outcome: Outcome) -> None:
        try:
            await self._finish([outcome])
        except Exception as error:
            if not _may_be_of_a_row(error):
                raise
            await self._finish([self.fault(outcome.job, error)])

    async def _finish(self, outcomes: Sequence[Outcome]) -> None:
        written = asyncio.get_running_loop().create_future()
        self._waiting.append((outcomes, written))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        await written
        for outcome in outcomes:
            word = "scored" if isinstance(outcome, Verdict) else outcome.reason.value
            self._count("jobs_finished_total", 1, metric=outcome.job.metric, outcome=word)
            exchange = outcome.exchange
            if exchange.calls:
                self._count("judge_calls_total", exchange.calls, metric=outcome.job.metric)

    async def _write(self) -> None:
        """Write until nothing waits; every failure is raised where those wait whose outcomes it concerns."""
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                await self._write_batch(batch)
            except Exception as error:  # noqa: BLE001 -- raised where each of them waits
                for _, written in batch:
                    if not written.done():
                        written.set_exception(error)
        self._writer = None

    async def _write_batch(self, batch: Sequence[tuple[Sequence[Outcome], asyncio.Future[None]]]) -> None:
        with suppress(StoreUnavailable):
            await self._before()
        try:
            await _insist(lambda: self._store.finish([outcome for outcomes, _ in batch for outcome in outcomes]))
        except Exception as error:
            if not _may_be_of_a_row(error) or len(batch) == 1:
                raise
            # One that the database refuses must not keep the others from being written.
            for outcomes, written in batch:
                await self._write_alone(outcomes, written)
            return
        for _, written in batch:
            if not written.done():
                written.set_result(None)

    async def _write_alone(self, outcomes: Sequence[Outcome], written: asyncio.Future[None]) -> None:
        try:
            await _insist(lambda: self._store.finish(outcomes))
        except Exception as error:  # noqa: BLE001 -- raised where it waits
            written.set_exception(error)
        else:
            written.set_result(None)

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

    async def retry(self, failures: Sequence[Unscored], *, after: timedelta | None) -> None:
        """Give jobs back for another attempt, each longer after the last, or finish those that had their last one."""
        last = [failure for failure in failures if failure.job.failures + 1 >= self._settings.attempts]
        await self.finish(last)
        for failure in failures:
            if failure in last:
                continue
            job = replace(failure.job, failures=failure.job.failures + 1)
            wait = backoff(job.failures, first=self._settings.backoff, longest=_LONGEST_BACKOFF, at_least=after)
            await self.release([job], after=wait, cause=failure.reason)

    def unscored(self, job: Job, reason: Reason, *, detail: str = "") -> Unscored:
        """Return the outcome of a job that nobody was asked about."""
        return Unscored(job=job, reason=reason, detail=detail, judged_at=self._clock())

    def judged(self, job: Job, answer: Answer) -> Outcome:
        """Return what became of a job that was judged, or computed."""
        now, exchange = self._clock(), answer.exchange
        if isinstance(answer.result, Finding):
            return Verdict(job=job, finding=answer.result, exchange=exchange, judged_at=now)
        return Unscored(
            job=job,
            reason=answer.result,
            detail=answer.detail,
            severity=answer.severities.get(job.metric),
            exchange=exchange,
            judged_at=now,
        )

    def copied(self, job: Job, verdict: Verdict) -> Verdict:
        """Return a verdict on equal content as the job's own, flagged and free."""
        free = replace(verdict.exchange, calls=0, input_tokens=0, output_tokens=0, cost_usd=0.0, latency=timedelta(0))
        finding = replace(verdict.finding, flags=verdict.finding.flags | {CACHED})
        return Verdict(job=job, finding=finding, exchange=free, judged_at=self._clock())

    def expired(self, job: Job, turn: Turn | None) -> Unscored | None:
        """Return the outcome of a job that is not worth judging any more; None when it is."""
        if turn is None or turn.content_hash() != job.content_hash:
            return self.unscored(job, Reason.EXPIRED, detail="the turn's text is gone")
        if (job.requested_at or turn.started_at) < self._clock() - self._settings.max_job_age:
            self._say_expired()
            return self.unscored(job, Reason.EXPIRED, detail=f"the turn is older than {self._settings.max_job_age}")
        return None

    def _say_expired(self) -> None:
        if not self._said_expired:
            self._said_expired = True
            logger.warning(
                "turns older than score.max_job_age (%s) are not judged and end as expired; "
                "`rag-monitor trends` counts them, `rag-monitor score` has them judged after all",
                self._settings.max_job_age,
            )

    def set_aside(self, jobs: Sequence[Job]) -> list[Unscored]:
        """Log that jobs of one turn are not computed, for processes died of it; return the outcomes they become."""
        metrics = ", ".join(job.metric for job in jobs)
        logger.error("%s of turn %s set aside: %d processes died while computing it", metrics, jobs[0].turn_id, DEATHS)
        return [self.unscored(job, Reason.INTERNAL, detail=PROCESS_DIED) for job in jobs]

    def fault(self, job: Job, error: Exception) -> Unscored:
        """Log a fault, once of its place, and return the outcome it becomes.

        The message of a foreign error may quote the turn; only its type and place are told.
        """
        name = type(error).__name__
        fault = str(error) if isinstance(error, MonitorError) else place(error)
        if (job.metric, fault) not in self._said_faults:
            self._said_faults.add((job.metric, fault))
            logger.error("judging %s of turn %s: %s; more of it is only counted", job.metric, job.turn_id, fault)
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


def _may_be_of_a_row(error: Exception) -> bool:
    """Return whether what is written may be at fault, and not the database."""
    return not isinstance(error, StoreUnavailable) or error.reason == "other"


async def _insist(write: Callable[[], None]) -> None:
    """Write in a thread, again for a while when the database is busy: what is written has been paid for."""
    end = time.monotonic() + _INSIST_FOR.total_seconds()
    for attempt in itertools.count(1):
        try:
            await asyncio.to_thread(write)
        except StoreUnavailable:
            wait = backoff(attempt, first=_SHORTEST_WAIT, longest=_INSIST_FOR).total_seconds()
            if time.monotonic() + wait > end:
                raise
            await asyncio.sleep(wait)
        else:
            return
