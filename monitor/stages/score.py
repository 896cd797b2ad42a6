"""Jobs become outcomes: claim, judge, finish; and whatever goes wrong is an outcome too, with its reason.

Metrics computed in code are worked off in large batches and need no judge. Those that ask one run `concurrency` at a
time; when its endpoint asks for a pause or is in trouble, all of them rest and keep their jobs. A job is counted out
only by failures of its own while others are answered, and by its age.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Protocol, TypeVar

from monitor.errors import ConfigError, Paused, RateLimited, Retryable, StoreUnavailable, TimedOut, Unusable
from monitor.judging.dialogue import MOST_CALLS, Answer
from monitor.judging.judges import Judges
from monitor.judging.pacing import PATIENCE
from monitor.model import Exchange, Finding, Job, Outcome, Reason, Turn, Unscored, Verdict
from monitor.ports import Clock, JobStore, Metric, TurnStore
from monitor.settings import ScoreSettings
from monitor.telemetry import Gauge

T = TypeVar("T")

COUNTERS: Mapping[str, str] = MappingProxyType(
    {
        "jobs_finished_total": "Jobs that became an outcome, by metric and outcome (scored, or the reason why not)",
        "jobs_released_total": "Jobs given back to be tried again, by metric and cause",
        "jobs_failed_total": "Faults of ours while judging, by metric and exception",
        "judge_calls_total": "Replies of the judge that jobs were finished with, by metric",
        "judge_tokens_total": "Tokens of these replies and their prompts, by direction",
        "judge_cost_usd_total": "What they cost, by the configured prices",
        "judge_pauses_total": "Pauses the judge's endpoint asked for",
    }
)
"""What `Scorer.counters` reports, without the `rag_monitor_` prefix."""

_BATCH = 256
_IDLE = timedelta(seconds=1)
_GRACE = timedelta(seconds=20)
_LONGEST_BACKOFF = timedelta(minutes=15)
_SLACK = timedelta(seconds=30)
_INSIST_FOR = timedelta(seconds=30)
_RETIRE_EVERY = timedelta(minutes=1)
_ORPHAN_RESTS = timedelta(hours=1)

logger = logging.getLogger(__name__)


class ScoredStore(TurnStore, JobStore, Protocol):
    """What this stage needs of the store."""


class Scorer:
    """Works jobs off: with `run` for as long as the process lives, or with `drain` until nothing is due."""

    def __init__(
        self,
        store: ScoredStore,
        metrics: Sequence[Metric],
        *,
        judge: Judges | None,
        settings: ScoreSettings,
        judge_timeout: timedelta,
        clock: Clock,
    ) -> None:
        """Prepare; `judge_timeout` bounds one call of the judge.

        Raises:
            ConfigError: a metric asks a judge and there is none.
        """
        self._store = store
        self._metrics = {metric.rubric.rubric_id: metric for metric in metrics}
        asking = [metric.rubric for metric in metrics if metric.max_output_tokens]
        if asking and judge is None:
            raise ConfigError(f"metrics: {asking[0].metric} asks a judge model; judge.kind: offline has none")
        self._asking = tuple(rubric.rubric_id for rubric in asking)
        self._computed = tuple(m.rubric.rubric_id for m in metrics if not m.max_output_tokens)
        self._judge = judge if asking else None
        self._settings = settings
        self._clock = clock
        # A lease that ends while its job is still being judged would have another worker pay for it again.
        self._lease = judge_timeout * max(2 * MOST_CALLS, settings.attempts) + 2 * PATIENCE + _SLACK
        self._asked: set[asyncio.Task[None]] = set()
        self._counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self._cost_usd = 0.0

    async def run(self, stop: asyncio.Event, *, grace: timedelta = _GRACE) -> None:
        """Work until `stop` is set, then finish what was begun within `grace` and give the rest back.

        Cancelling gives back at once. Returns or raises only when no job is held any more.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_working(self._compute, stop, grace))
            group.create_task(self._keep_working(self._ask, stop, grace))

    async def drain(self) -> int:
        """Work off everything that is due now, also what becomes due meanwhile; return the number of jobs handled.

        Jobs given back for later stay; so do all that ask the judge when its endpoint wants a long pause.

        Raises:
            StoreUnavailable: the database cannot serve us.
        """
        never = asyncio.Event()
        handled = await self._compute(never, _GRACE) + await self._ask(never, _GRACE)
        if self._quiet():
            await self._retire(rest=None)
        return handled

    def health(self) -> Mapping[str, str]:
        """Return what is wrong with the judge's endpoints, free of user text; empty when all is well."""
        return self._judge.health() if self._judge else {}

    def counters(self) -> tuple[Gauge, ...]:
        """Return the totals named in `COUNTERS`."""
        pauses = self._judge.pauses if self._judge else 0
        return (
            *(Gauge(name=name, value=count, labels=dict(labels)) for (name, labels), count in self._counts.items()),
            Gauge(name="judge_cost_usd_total", value=self._cost_usd),
            Gauge(name="judge_pauses_total", value=pauses),
        )

    async def _keep_working(
        self, work: Callable[[asyncio.Event, timedelta], Awaitable[int]], stop: asyncio.Event, grace: timedelta
    ) -> None:
        retired_at = time.monotonic()
        while not stop.is_set():
            try:
                handled = await work(stop, grace)
                if not handled and self._quiet() and time.monotonic() - retired_at > _RETIRE_EVERY.total_seconds():
                    retired_at = time.monotonic()
                    await self._retire(rest=_ORPHAN_RESTS)
            except StoreUnavailable as error:
                logger.warning("scoring waits for the database: %s", error)
                handled = 0
            if not handled:
                await _pause(stop, _IDLE)

    def _quiet(self) -> bool:
        """Return whether no job waits for the judge, as far as one can tell without asking the store."""
        return not self._asked and (self._judge is None or not self._judge.resting)

    async def _compute(self, stop: asyncio.Event, grace: timedelta) -> int:  # noqa: ARG002 -- a batch is short
        """Work off what is computed in code until nothing is due or `stop` is set; return the number of jobs."""
        handled = 0
        while self._computed and not stop.is_set() and (jobs := await self._claim(_BATCH, self._computed)):
            await _unbroken(self._compute_batch(jobs))
            handled += len(jobs)
        return handled

    async def _compute_batch(self, jobs: Sequence[Job]) -> None:
        await self._finish(await asyncio.to_thread(lambda: [self._computed_outcome(job) for job in jobs]))

    def _computed_outcome(self, job: Job) -> Outcome:
        turn = self._store.turn(job.turn_id)
        if (over := self._over(job, turn)) or turn is None:
            return over or self._unscored(job, Reason.EXPIRED)
        try:
            result = self._metrics[job.rubric_id].read(turn, None)
        except Exception as error:  # noqa: BLE001 -- the one around a worker's job; it is counted
            return self._internal(job, error)
        return self._outcome(job, Answer(result=result, exchange=Exchange()))

    async def _ask(self, stop: asyncio.Event, grace: timedelta) -> int:
        """Judge what is due, `concurrency` jobs at a time, until nothing is or `stop` is set; return how many.

        Ends early when the endpoint rests for long, and with the first fault of the store once all others are done.
        While the endpoint is in trouble one job at a time tries.
        """
        judge = self._judge
        if judge is None:
            return 0
        handled = 0
        try:
            while not stop.is_set() and judge.resting <= (timedelta(0) if judge.troubled else PATIENCE):
                await _pause(stop, judge.resting)
                free = (1 if judge.troubled else self._settings.concurrency) - len(self._asked)
                jobs = await self._claim(free, self._asking) if free > 0 else ()
                self._asked |= {asyncio.create_task(self._handle(job, judge)) for job in jobs}
                handled += len(jobs)
                if not self._asked:
                    break
                await self._settle(asyncio.FIRST_COMPLETED, within=_IDLE)
            await self._settle(asyncio.ALL_COMPLETED, within=grace if stop.is_set() else None)
        finally:
            await self._abandon()
        return handled

    async def _settle(self, when: str, *, within: timedelta | None) -> None:
        """Wait for jobs being judged; raise what the store made of a done one after the others are done too."""
        if not self._asked:
            return
        seconds = within.total_seconds() if within is not None else None
        done, self._asked = await asyncio.wait(self._asked, timeout=seconds, return_when=when)
        if failure := next((error for task in done if (error := task.exception())), None):
            if self._asked:
                done, self._asked = await asyncio.wait(self._asked)
            raise failure

    async def _abandon(self) -> None:
        """Cancel what is still being judged; each job is given back before this returns."""
        for task in self._asked:
            task.cancel()
        await asyncio.gather(*self._asked, return_exceptions=True)
        self._asked = set()

    async def _handle(self, job: Job, judge: Judges) -> None:
        try:
            await self._judge_job(job, judge)
        except asyncio.CancelledError:
            await _unbroken(self._release([job], after=timedelta(0), cause="stopped"))
            raise

    async def _judge_job(self, job: Job, judge: Judges) -> None:
        turn = await asyncio.to_thread(self._store.turn, job.turn_id)
        if (over := self._over(job, turn)) or turn is None:
            await self._finish([over] if over else [])
            return
        try:
            answer = await judge.judge(self._metrics[job.rubric_id], turn)
        except (RateLimited, Paused, Unusable) as error:
            # Not the job's fault, so it is never counted out; one that grows too old ends as expired.
            cause = "rate_limited" if isinstance(error, RateLimited) else "judge_in_trouble"
            await self._release([job], after=error.retry_after or self._settings.backoff, cause=cause)
        except Retryable as error:
            reason = Reason.TIMEOUT if isinstance(error, TimedOut) else Reason.UNAVAILABLE
            await self._again(job, self._unscored(job, reason, detail=str(error)), after=error.retry_after)
        except Exception as error:  # noqa: BLE001 -- the one around a worker's job; it is counted
            await self._again(job, self._internal(job, error), after=None)
        else:
            await _unbroken(self._finish([self._outcome(job, answer)]))

    async def _again(self, job: Job, failure: Unscored, *, after: timedelta | None) -> None:
        """Give the job back for another attempt, or finish it with `failure` when that was the last."""
        failures = job.failures + 1
        if failures >= self._settings.attempts:
            await self._finish([failure])
            return
        backoff = min(self._settings.backoff * 2 ** (failures - 1), _LONGEST_BACKOFF)
        rest = max(after or timedelta(0), backoff)
        await self._release([replace(job, failures=failures)], after=rest, cause=failure.reason)

    async def _retire(self, *, rest: timedelta | None) -> None:
        """Expire jobs of rubrics that are not configured here: the old ones, or all when `rest` is None.

        The others rest: while a new version is rolled out, another process may know them.
        """
        jobs = await self._claim(_BATCH, None)
        known = [job for job in jobs if job.rubric_id in self._metrics]
        await self._release(known, after=timedelta(0), cause="not_due")
        resting: list[Job] = []
        for job in jobs:
            if job in known:
                continue
            turn = await asyncio.to_thread(self._store.turn, job.turn_id)
            if rest and turn and turn.started_at >= self._clock() - self._settings.max_job_age:
                resting.append(job)
            else:
                await self._finish([self._unscored(job, Reason.EXPIRED, detail="its rubric is not configured")])
        await self._release(resting, after=rest or timedelta(0), cause="unknown_rubric")

    def _over(self, job: Job, turn: Turn | None) -> Unscored | None:
        """Return the outcome of a job that is not worth judging any more."""
        if turn is None or turn.content_hash() != job.content_hash:
            return self._unscored(job, Reason.EXPIRED, detail="the turn's text is gone")
        if turn.started_at < self._clock() - self._settings.max_job_age:
            return self._unscored(job, Reason.EXPIRED, detail=f"the turn is older than {self._settings.max_job_age}")
        return None

    def _outcome(self, job: Job, answer: Answer) -> Outcome:
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

    def _unscored(self, job: Job, reason: Reason, *, detail: str = "") -> Unscored:
        return Unscored(job=job, reason=reason, detail=detail, judged_at=self._clock())

    def _internal(self, job: Job, error: Exception) -> Unscored:
        """Log a fault of ours without its message, which may quote the turn; return the outcome it becomes."""
        frame = traceback.extract_tb(error.__traceback__)[-1]
        name = type(error).__name__
        logger.error("judging %s of turn %s: %s at %s:%s", job.metric, job.turn_id, name, frame.filename, frame.lineno)
        self._count("jobs_failed_total", 1, metric=job.metric, reason=name)
        return self._unscored(job, Reason.INTERNAL, detail=name)

    async def _claim(self, limit: int, rubric_ids: Sequence[str] | None) -> tuple[Job, ...]:
        now = self._clock()
        claim = asyncio.ensure_future(
            asyncio.to_thread(self._store.claim, now=now, lease=self._lease, limit=limit, rubric_ids=rubric_ids)
        )
        try:
            return await asyncio.shield(claim)
        except asyncio.CancelledError:
            await asyncio.wait([claim])
            if claim.exception() is None:
                await self._release(claim.result(), after=timedelta(0), cause="stopped")
            raise

    async def _finish(self, outcomes: Sequence[Outcome]) -> None:
        if not outcomes:
            return
        await _insist(lambda: self._store.finish(outcomes))
        for outcome in outcomes:
            word = "scored" if isinstance(outcome, Verdict) else outcome.reason.value
            self._count("jobs_finished_total", 1, metric=outcome.job.metric, outcome=word)
            exchange = outcome.exchange
            if exchange.calls:
                self._count("judge_calls_total", exchange.calls, metric=outcome.job.metric)
                self._count("judge_tokens_total", exchange.input_tokens, direction="input")
                self._count("judge_tokens_total", exchange.output_tokens, direction="output")
                self._cost_usd += exchange.cost_usd

    async def _release(self, jobs: Sequence[Job], *, after: timedelta, cause: str) -> None:
        if jobs:
            not_before = self._clock() + after
            await _insist(lambda: self._store.release(jobs, not_before=not_before))
        for job in jobs:
            self._count("jobs_released_total", 1, metric=job.metric, cause=cause)

    def _count(self, name: str, by: int, **labels: str) -> None:
        self._counts[name, tuple(sorted(labels.items()))] += by


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


async def _pause(stop: asyncio.Event, wait: timedelta) -> None:
    """Return after `wait`, or at once when `stop` is set."""
    if wait:
        try:
            await asyncio.wait_for(stop.wait(), wait.total_seconds())
        except TimeoutError:
            return


async def _unbroken(work: Coroutine[None, None, T]) -> T:
    """Return the result of `work`, which runs to its end even when the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
