"""Jobs become outcomes: claim, judge, finish; and whatever goes wrong is an outcome too, with its reason.

Metrics computed in code are worked off in large batches and need no judge. Those that ask one run `concurrency` at a
time; when its endpoint asks for a pause or is in trouble, all of them rest and keep their jobs. A job is counted out
only by failures of its own while others are answered, and by its age. A turn of equal content gets the verdict that is
there already; when the budget is spent, only such turns are scored.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Protocol

from monitor.errors import ConfigError, Paused, RateLimited, Retryable, StoreUnavailable, TimedOut, Unusable, place
from monitor.judging.dialogue import MOST_CALLS
from monitor.judging.endpoint.pacing import PATIENCE
from monitor.judging.judges import Judges
from monitor.model.judgements import Job, Reason, Spend, Verdict
from monitor.model.turns import Turn
from monitor.ports import Clock, Metric
from monitor.scoring.budget import Ledger
from monitor.scoring.claims import Claims
from monitor.scoring.computed import compute
from monitor.scoring.in_flight import CallsInFlight
from monitor.scoring.inputs import Inputs, read
from monitor.scoring.outcomes import Outcomes, pause, unbroken
from monitor.scoring.second_opinions import SecondOpinions
from monitor.scoring.suspects import Suspects, suspected
from monitor.settings.tree import BudgetSettings, ScoreSettings, SecondOpinionSettings
from monitor.stores import JobStore, LeaseStore, SecondOpinionStore, SpendStore, TurnStore, UnderWayStore
from monitor.telemetry import Gauge

COUNTERS: Mapping[str, str] = MappingProxyType(
    {
        "jobs_finished_total": "Jobs that became an outcome, by metric and outcome (scored, or the reason why not)",
        "jobs_released_total": "Jobs given back to be tried again, by metric and cause",
        "jobs_failed_total": "Faults of ours while judging, by metric and exception",
        "judge_calls_total": "Replies of the judge that jobs were finished with, by metric",
        "judge_tokens_total": "Tokens of all replies and their prompts, by direction",
        "judge_cost_usd_total": "What all replies cost, by the configured prices",
        "judge_estimated_replies_total": "Replies without usage, whose tokens and cost are estimated from the texts",
        "judge_pauses_total": "Pauses the judge's endpoint asked for",
        "judge_changes_total": "Times that another model, never met before, answered behind the judge's name",
    }
)
"""What `Scorer.counters` reports, without the `rag_monitor_` prefix."""

BUDGET_GAUGES: Mapping[str, str] = MappingProxyType(
    {
        "judge_budget_usd": "What all processes may spend on judges, by period",
        "judge_budget_spent_usd": "What all processes have spent of it, what other processes have under way included",
    }
)
"""What `Scorer.gauges` reports, without the `rag_monitor_` prefix."""

_BATCH = 256
_IDLE = timedelta(seconds=1)
_GRACE = timedelta(seconds=20)
_SLACK = timedelta(seconds=30)
_AHEAD = 4
_RETIRE_EVERY = timedelta(minutes=1)

logger = logging.getLogger(__name__)


class ScoredStore(UnderWayStore, TurnStore, JobStore, SpendStore, SecondOpinionStore, LeaseStore, Protocol):
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
        worker: str,
        budget: BudgetSettings,
        second_opinions: SecondOpinionSettings,
    ) -> None:
        """Prepare.

        Args:
            store: turns, jobs and what was spent.
            metrics: what is measured.
            judge: who is asked; None when every metric is computed in code.
            settings: how jobs are worked off.
            judge_timeout: bounds one call of the judge.
            clock: tells the time.
            worker: names this process and run of it, for what it spends.
            budget: what all processes may spend.
            second_opinions: how much is asked again, to know how far the judge agrees with itself.

        Raises:
            ConfigError: a metric asks a judge and there is none.
        """
        self._store = store
        self._metrics = {metric.rubric.rubric_id: metric for metric in metrics}
        self._call_of = {m.rubric.rubric_id: m.call or m.rubric.rubric_id for m in metrics if m.max_output_tokens}
        self._computed = tuple(m.rubric.rubric_id for m in metrics if not m.max_output_tokens)
        self._judge = _judge_for(metrics, judge)
        self._settings = settings
        self._clock = clock
        # A lease that ends while its job is still being judged would have another worker pay for it again.
        lease = judge_timeout * max(2 * MOST_CALLS, settings.attempts) + 2 * PATIENCE + _SLACK
        self._in_flight = CallsInFlight()
        # Some jobs are claimed ahead, so that an answer is followed by the next question and not by a transaction.
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._claimed_at_once = settings.concurrency + settings.concurrency // _AHEAD
        self._conversations = 0
        self._ledger = self._open_ledger(worker, budget)
        self._outcomes = Outcomes(store, settings, clock=clock, before=self._ledger.keep_up)
        self._claims = Claims(store, self._outcomes, lease=lease, clock=clock)
        self._suspects = Suspects(store, worker=worker)
        self._second_opinions = self._ask_second_opinions(worker, second_opinions)

    def _open_ledger(self, worker: str, budget: BudgetSettings) -> Ledger:
        return Ledger(
            self._store,
            worker=worker,
            spent=self._spent,
            conversations=lambda: self._conversations,
            at_once=self._claimed_at_once,
            budget=budget,
            clock=self._clock,
        )

    def _ask_second_opinions(self, worker: str, settings: SecondOpinionSettings) -> SecondOpinions | None:
        if self._judge is None:
            return None
        return SecondOpinions(
            self._store,
            self._judge,
            {rubric_id: self._metrics[rubric_id] for rubric_id in self._call_of},
            settings=settings,
            clock=self._clock,
            allowed=self._may_spend,
            suspects=self._suspects,
            worker=worker,
        )

    async def run(self, stop: asyncio.Event, *, left: Callable[[], timedelta] = lambda: _GRACE) -> None:
        """Work until `stop` is set, then finish what was begun in the time that is `left` and give the rest back.

        Cancelling gives back at once. Returns or raises only when no job is held any more.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_working(self._compute, stop))
            group.create_task(self._keep_working(partial(self._ask, left=left), stop))
            if self._second_opinions:
                group.create_task(self._second_opinions.watch(stop))

    async def drain(self) -> int:
        """Work off everything that is due now, also what becomes due meanwhile; return the number of jobs handled.

        Jobs given back for later stay; so do all that ask the judge when its endpoint wants a long pause.

        Raises:
            StoreUnavailable: the database cannot serve us.
        """
        never = asyncio.Event()
        handled = await self._compute(never) + await self._ask(never, left=timedelta)
        await self._retire()
        return handled

    def health(self) -> Mapping[str, str]:
        """Return what keeps the judge from judging, free of user text; empty when all is well."""
        problems = dict(self._judge.health()) if self._judge else {}
        return problems | {"budget": self._ledger.exhausted} if self._ledger.exhausted else problems

    def counters(self) -> tuple[Gauge, ...]:
        """Return the totals named in `COUNTERS`."""
        spent = self._spent()
        return (
            *self._outcomes.counters(),
            Gauge(name="judge_tokens_total", value=spent.input_tokens, labels={"direction": "input"}),
            Gauge(name="judge_tokens_total", value=spent.output_tokens, labels={"direction": "output"}),
            Gauge(name="judge_cost_usd_total", value=spent.usd),
            Gauge(name="judge_estimated_replies_total", value=self._judge.estimates if self._judge else 0),
            Gauge(name="judge_pauses_total", value=self._judge.pauses if self._judge else 0),
            *(self._second_opinions.counters() if self._second_opinions else ()),
        )

    def gauges(self) -> tuple[Gauge, ...]:
        """Return the numbers named in `BUDGET_GAUGES`, as of the last claim."""
        return self._ledger.gauges()

    def _may_spend(self) -> bool:
        return self._judge is not None and not self._judge.troubled and not self._ledger.exhausted

    def _spent(self) -> Spend:
        return self._judge.spent if self._judge else Spend()

    async def _keep_working(self, work: Callable[[asyncio.Event], Awaitable[int]], stop: asyncio.Event) -> None:
        retired_at = time.monotonic()
        while not stop.is_set():
            try:
                handled = await work(stop)
                if not handled and time.monotonic() - retired_at > _RETIRE_EVERY.total_seconds():
                    retired_at = time.monotonic()
                    await self._retire()
            except StoreUnavailable as error:
                logger.warning("scoring waits for the database: %s", error)
                handled = 0
            except Exception as error:  # noqa: BLE001 -- a fault must not end scoring for the life of the process
                logger.error("scoring goes on after a fault of ours: %s", place(error))  # noqa: TRY400 -- free of user text
                handled = 0
            if not handled:
                await pause(stop, _IDLE)

    async def _compute(self, stop: asyncio.Event) -> int:
        """Work off what is computed in code until nothing is due or `stop` is set; return the number of jobs."""
        handled = 0
        claim = partial(self._claims.claim, _BATCH, rubric_ids=self._computed)
        while self._computed and not stop.is_set() and (jobs := await claim()):
            await unbroken(self._compute_batch(jobs))
            handled += len(jobs)
        return handled

    async def _compute_batch(self, jobs: Sequence[Job]) -> None:
        """Finish the jobs: suspects after all others, one by one."""
        work = partial(compute, self._store, self._outcomes, self._metrics)
        await self._outcomes.finish(await work([job for job in jobs if not suspected(job)]))
        for job in filter(suspected, jobs):
            done = await self._suspects.alone([job], partial(work, [job]))
            await self._outcomes.finish(self._outcomes.set_aside([job]) if done is None else done)

    async def _ask(self, stop: asyncio.Event, *, left: Callable[[], timedelta]) -> int:
        """Judge what is due, `concurrency` calls at a time, until nothing is or `stop` is set; return how many.

        Ends early when the endpoint rests for long, and with the first fault of the store once all others are done.
        While the endpoint is in trouble one call at a time tries.
        """
        judge = self._judge
        if judge is None:
            return 0
        handled = 0
        try:
            while not stop.is_set() and judge.resting <= (timedelta(0) if judge.troubled else PATIENCE):
                await pause(stop, judge.resting)
                free = (1 if judge.troubled else self._claimed_at_once) - len(self._in_flight)
                if free > 0 and await self._ledger.look():
                    handled += await self._forgo(stop)
                    break
                jobs = await self._claims.claim(free, call_of=self._call_of) if free > 0 else ()
                await self._begin(jobs, judge)
                handled += len(jobs)
                if not self._in_flight and not jobs:
                    break
                await self._in_flight.some_end()
            await self._in_flight.all_end(within=left() if stop.is_set() else None)
        finally:
            await self._in_flight.abandon()
        if handled:
            await self._ledger.reconcile()
        return handled

    async def _forgo(self, stop: asyncio.Event) -> int:
        """End what is due without asking, for the budget is spent; return how many jobs."""
        handled = 0
        while not stop.is_set() and (jobs := await self._claims.claim(_BATCH, call_of=self._call_of)):
            inputs = await self._read(jobs)
            detail = self._ledger.exhausted or ""
            await self._outcomes.finish(
                [
                    self._outcomes.copied(job, inputs.verdicts[job])
                    if job in inputs.verdicts
                    else self._outcomes.unscored(job, Reason.BUDGET, detail=detail)
                    for job in jobs
                ]
            )
            handled += len(jobs)
        return handled

    async def _read(self, jobs: Sequence[Job]) -> Inputs:
        """Return what judging needs: of suspects turn by turn, after all others."""
        unsuspected = [job for job in jobs if not suspected(job)]
        inputs = await asyncio.to_thread(read, self._store, self._outcomes, unsuspected)
        of_turns: dict[str, list[Job]] = {}
        for job in filter(suspected, jobs):
            of_turns.setdefault(job.turn_id, []).append(job)
        for of_turn in of_turns.values():
            reading = partial(asyncio.to_thread, read, self._store, self._outcomes, of_turn)
            done = await self._suspects.alone(of_turn, reading)
            if done is None:
                done = Inputs(faults=dict(zip(of_turn, self._outcomes.set_aside(of_turn), strict=True)))
            inputs = inputs.joined(done)
        return inputs

    async def _begin(self, jobs: Sequence[Job], judge: Judges) -> None:
        """Begin to judge claimed jobs, call by call; what needs no judge is finished first."""
        if not jobs:
            return
        try:
            inputs = await self._read(jobs)
            turns = inputs.turns
            ended = {job: self._outcomes.copied(job, verdict) for job, verdict in inputs.verdicts.items()} | {
                job: end for job in jobs if (end := self._outcomes.expired(job, turns.get(job.turn_id)))
            }
            ended |= inputs.faults
            open_jobs = [job for job in jobs if job not in ended]
            if open_jobs:
                await self._ledger.reserve()
        except BaseException:
            await unbroken(self._outcomes.release(jobs, after=timedelta(0), cause="stopped"))
            raise
        calls: dict[tuple[str, str], list[Job]] = {}
        for job in open_jobs:
            calls.setdefault((job.turn_id, self._call_of[job.rubric_id]), []).append(job)
        for (turn_id, _), of_call in calls.items():
            self._in_flight.begin(self._handle(of_call, turns[turn_id], judge))
        await unbroken(self._outcomes.finish(tuple(ended.values())))

    async def _handle(self, jobs: Sequence[Job], turn: Turn, judge: Judges) -> None:
        try:
            await self._judge_call(jobs, turn, judge)
        except asyncio.CancelledError:
            await unbroken(self._outcomes.release(jobs, after=timedelta(0), cause="stopped"))
            raise

    async def _judge_call(self, jobs: Sequence[Job], turn: Turn, judge: Judges) -> None:
        """Judge the jobs of one turn and call: each gets its own outcome, and all are written at once."""
        try:
            async with self._slots:
                if self._ledger.exhausted:
                    await self._outcomes.release(jobs, after=timedelta(0), cause="budget")
                    return
                metrics = [self._metrics[job.rubric_id] for job in jobs]
                if any(map(suspected, jobs)):
                    judged = await self._suspects.judged(jobs, judge, metrics, turn)
                    if judged is None:
                        await unbroken(self._outcomes.finish(self._outcomes.set_aside(jobs)))
                        return
                    answers = judged
                else:
                    answers = await judge.judge(metrics, turn)
            self._conversations += 1
            done = [self._outcomes.judged(job, answer) for job, answer in zip(jobs, answers, strict=True)]
        except (RateLimited, Paused, Unusable) as error:
            # Not the jobs' fault, so they are never counted out; those that grow too old end as expired.
            cause = "rate_limited" if isinstance(error, RateLimited) else "judge_in_trouble"
            await self._outcomes.release(jobs, after=error.retry_after or self._settings.backoff, cause=cause)
        except StoreUnavailable:
            raise
        except Retryable as error:
            reason = Reason.TIMEOUT if isinstance(error, TimedOut) else Reason.UNAVAILABLE
            failures = [self._outcomes.unscored(job, reason, detail=str(error)) for job in jobs]
            await self._outcomes.retry(failures, after=error.retry_after)
        except Exception as error:  # noqa: BLE001 -- the one around a worker's jobs; it is counted
            await self._outcomes.retry([self._outcomes.fault(job, error) for job in jobs], after=None)
        else:
            await unbroken(self._outcomes.finish(done))
            if self._second_opinions:
                async with self._slots:
                    await self._second_opinions.repeat([o for o in done if isinstance(o, Verdict)], turn)

    async def _retire(self) -> None:
        """End jobs of rubrics that are not configured here, once their turns are too old for anybody to judge.

        Until then they wait, untouched: a process with other settings, or of another version, may know them.
        """
        detail = "it waited too long for a process that knows its rubric"
        ended: tuple[Job, ...] = ()
        while True:
            now = self._clock()
            old = now - self._settings.max_job_age
            jobs = await asyncio.to_thread(
                self._store.orphans, tuple(self._metrics), started_before=old, now=now, limit=_BATCH
            )
            if not jobs or jobs == ended:
                return
            await self._outcomes.finish([self._outcomes.unscored(job, Reason.EXPIRED, detail=detail) for job in jobs])
            ended = jobs


def _judge_for(metrics: Sequence[Metric], judge: Judges | None) -> Judges | None:
    """Return who is asked about these metrics; None when nobody needs to be."""
    asking = [metric.rubric.metric for metric in metrics if metric.max_output_tokens]
    if asking and judge is None:
        raise ConfigError(f"{asking[0]} asks a judge model, but judge.kind is none", where="metrics")
    return judge if asking else None
