"""Jobs become outcomes, with a real store and a judge over loopback."""

import asyncio
import json
import logging
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from deadline import wait_until
from judge_server import JudgeServer, Step, completion, kind, refusal
from judged_turn import ASKED_AT, judged_turn

from monitor.errors import ConfigError, StoreUnavailable
from monitor.judging.coded.lex5 import GroundednessProxy
from monitor.judging.dialogue import TOKENS_ESTIMATED
from monitor.judging.endpoint.breaker import Breaker
from monitor.judging.endpoint.client import OpenAIJudge
from monitor.judging.endpoint.limiter import Limiter
from monitor.judging.endpoint.pacing import PacedJudge
from monitor.judging.endpoint.prices import Price
from monitor.judging.judges import Judges
from monitor.judging.prompt_metric import load, load_all
from monitor.model.judgements import ChatMessage, Finding, Job, Outcome, Reason, Reply, Rubric, Unscored, Verdict
from monitor.model.spans import Assembly
from monitor.model.turns import Turn
from monitor.ports import Clock, Metric
from monitor.scoring.outcomes import CACHED
from monitor.settings.tree import BudgetSettings, SampleSettings, ScoreSettings, SecondOpinionSettings
from monitor.stages import sample
from monitor.stages.sample import missing, queue
from monitor.stages.score import COUNTERS, Scorer
from monitor.store.sql_store import SqlStore

NOW = ASKED_AT + timedelta(minutes=1)
RELEVANCE = load("relevance", judge_name="openai:judge-1")
GROUNDEDNESS = load("groundedness", judge_name="openai:judge-1")
PROXY = GroundednessProxy()
QUICK = ScoreSettings(concurrency=4, attempts=3, backoff=timedelta(seconds=10))
NO_BUDGET = BudgetSettings()
NO_OPINIONS = SecondOpinionSettings(share=0)


class Bench:
    """A store with turns, a judge server, and a clock that stands still until it is moved."""

    def __init__(self, store: SqlStore, server: JudgeServer) -> None:
        self.store = store
        self.server = server
        self.now = NOW

    def keep(self, *turns: Turn, metrics: Sequence[Metric] = (RELEVANCE,)) -> None:
        """Store turns and sample all of them."""
        self.store.replace_turns([Assembly(trace_id=t.trace_id, through=1, turns=(t,)) for t in turns], now=NOW)
        rubrics = [metric.rubric for metric in metrics]
        sample.tick(self.store, SampleSettings(), rubrics=rubrics, proxy=None, now=self.now, worker="1")

    def judge(self, *, timeout: timedelta = timedelta(seconds=10), limiter: Limiter | None = None) -> Judges:
        """The server as the only judge, not entered."""
        client = OpenAIJudge(
            model="judge-1",
            api_key=lambda: "k",
            base_url=self.server.url,
            timeout=timeout,
            prices={"judge-1": Price(1.0, 4.0)},
        )
        return Judges(PacedJudge(client, breaker=Breaker(first_break=0.2), limiter=limiter))

    async def drain(
        self,
        *metrics: Metric,
        settings: ScoreSettings = QUICK,
        judge_timeout: timedelta = timedelta(seconds=10),
        budget: BudgetSettings = NO_BUDGET,
    ) -> Scorer:
        """Work off what is due at the clock's time, as a process of its own."""
        async with self.judge(timeout=judge_timeout) as judge:
            scorer = self.scorer(
                *metrics or (RELEVANCE,), judge=judge, settings=settings, budget=budget, worker=secrets.token_hex(4)
            )
            await scorer.drain()
            return scorer

    def scorer(
        self,
        *metrics: Metric,
        judge: Judges | None,
        settings: ScoreSettings = QUICK,
        budget: BudgetSettings = NO_BUDGET,
        worker: str = "worker-1",
        opinions: SecondOpinionSettings = NO_OPINIONS,
        clock: Clock | None = None,
    ) -> Scorer:
        """A scorer over the store, on the bench's clock or another."""
        return Scorer(
            self.store,
            metrics,
            judge=judge,
            settings=settings,
            judge_timeout=timedelta(seconds=10),
            clock=clock or (lambda: self.now),
            worker=worker,
            budget=budget,
            second_opinions=opinions,
        )

    def outcome(self, turn_id: str = "turn-1") -> Outcome | None:
        """The one outcome of a turn, if there is one."""
        return next(iter(self.store.outcomes(turn_id)), None)

    def reason(self, turn_id: str = "turn-1") -> Reason | None:
        """Why a turn is unscored; None when it has no outcome or a score."""
        outcome = self.outcome(turn_id)
        return outcome.reason if isinstance(outcome, Unscored) else None


@pytest.fixture
def bench(store: SqlStore) -> Iterator[Bench]:
    """A bench with an empty store."""
    server = JudgeServer()
    yield Bench(store, server)
    server.close()


async def test_verdict(bench: Bench) -> None:
    """A job becomes a verdict that keeps what was asked, what was said and what it cost."""
    bench.keep(judged_turn())
    await bench.drain()
    verdict = bench.outcome()
    assert isinstance(verdict, Verdict)
    assert (5.0, False, "it answers") == (verdict.finding.score, verdict.finding.defect, verdict.finding.reason)
    assert (1, 100, 10, "judge-1") == (
        verdict.exchange.calls,
        verdict.exchange.input_tokens,
        verdict.exchange.output_tokens,
        verdict.exchange.judge_model,
    )
    assert "Refunds are paid within 14 days." in verdict.exchange.prompt
    assert '"score": 5' in verdict.exchange.reply
    assert 0 == bench.store.backlog().jobs


async def test_many_turns(bench: Bench) -> None:
    """Every turn is judged once for every metric, and every outcome is counted."""
    turns = [judged_turn(name=str(number)) for number in range(30)]
    metrics = (RELEVANCE, GROUNDEDNESS, PROXY)
    bench.keep(*turns, metrics=metrics)
    scorer = await bench.drain(*metrics)
    assert 60 == len(bench.server.asked)
    assert {3} == {len(bench.store.outcomes(turn.turn_id)) for turn in turns}
    totals = {(g.name, *g.labels.values()): g.value for g in scorer.counters()}
    assert 30 == totals["jobs_finished_total", "groundedness_proxy", "scored"]
    assert 30 == totals["judge_calls_total", "relevance"]
    assert 6000 == totals["judge_tokens_total", "input"]
    assert pytest.approx(60 * 140e-6) == totals["judge_cost_usd_total",]
    assert {gauge.name for gauge in scorer.counters()} <= COUNTERS.keys()


async def test_equal_content(bench: Bench) -> None:
    """A turn of equal content gets the verdict that is there, flagged and free; one that differs is judged."""
    bench.keep(judged_turn(), replace(judged_turn(), turn_id="again", trace_id="again"), judged_turn(name="other"))
    await bench.drain(settings=ScoreSettings(concurrency=1))
    assert 2 == len(bench.server.asked)
    first, again, other = (bench.outcome(turn_id) for turn_id in ("turn-1", "again", "turn-other"))
    assert isinstance(first, Verdict)
    assert isinstance(again, Verdict)
    assert isinstance(other, Verdict)
    (copy,) = [verdict for verdict in (first, again) if CACHED in verdict.finding.flags]
    (asked,) = [verdict for verdict in (first, again) if verdict is not copy]
    assert replace(asked.finding, flags=frozenset({CACHED})) == copy.finding
    assert (0, 0, 0, 0.0) == (
        copy.exchange.calls,
        copy.exchange.input_tokens,
        copy.exchange.output_tokens,
        copy.exchange.cost_usd,
    )
    assert (asked.exchange.prompt, asked.exchange.reply) == (copy.exchange.prompt, copy.exchange.reply)
    assert frozenset() == other.finding.flags


async def test_failure_is_not_copied(bench: Bench) -> None:
    """A turn of equal content as one that could not be judged is asked about."""
    bench.server.script(completion(None, refusal="No."))
    bench.keep(judged_turn(), replace(judged_turn(), turn_id="again", trace_id="again"))
    await bench.drain(settings=ScoreSettings(concurrency=1))
    assert 2 == len(bench.server.asked)


async def test_one_call_for_several_metrics(bench: Bench) -> None:
    """The jobs of one turn and call are claimed together and cost one call; each ends with its own outcome."""
    metrics = (*load_all("answer", judge_name="openai:judge-1"), *load_all("safety", judge_name="openai:judge-1"))
    turns = [judged_turn(name=str(number)) for number in range(6)]
    bench.keep(*turns, metrics=metrics)
    scorer = await bench.drain(*metrics)
    assert 12 == len(bench.server.asked)
    for turn in turns:
        outcomes = bench.store.outcomes(turn.turn_id)
        assert {metric.rubric.metric for metric in metrics} == {outcome.job.metric for outcome in outcomes}
        assert all(isinstance(outcome, Verdict) for outcome in outcomes)
        assert pytest.approx(2 * 140e-6) == sum(outcome.exchange.cost_usd for outcome in outcomes)
    totals = {(g.name, *g.labels.values()): g.value for g in scorer.counters()}
    assert 1200 == totals["judge_tokens_total", "input"]


async def test_metrics_by_what_a_turn_carries(bench: Bench) -> None:
    """A turn without an answer is still judged for what it retrieved, and one without documents for neither."""
    metrics = load_all("documents", judge_name="openai:judge-1")
    bench.keep(judged_turn(None), replace(judged_turn(name="2"), citations=()), metrics=metrics)
    await bench.drain(*metrics)
    found = {o.job.metric: o.reason if isinstance(o, Unscored) else None for o in bench.store.outcomes("turn-1")}
    assert (Reason.NO_RESPONSE, None) == (found["groundedness"], found["retrieval"])
    assert {Reason.NO_CONTEXT} == {
        o.reason if isinstance(o, Unscored) else None for o in bench.store.outcomes("turn-2")
    }
    assert 1 == len(bench.server.asked)


async def test_call_after_a_crash(bench: Bench) -> None:
    """Jobs of a call whose claimer died are judged together again when the lease is over, once each."""
    metrics = load_all("answer", judge_name="openai:judge-1")
    bench.keep(judged_turn(), metrics=metrics)
    call_of = {metric.rubric.rubric_id: metric.call for metric in metrics}
    lost = bench.store.claim(now=bench.now, lease=timedelta(minutes=5), limit=1, call_of=call_of)
    assert 4 == len(lost)
    await bench.drain(*metrics)
    assert [] == bench.server.asked
    bench.now += timedelta(minutes=6)
    await bench.drain(*metrics)
    assert 1 == len(bench.server.asked)
    assert 4 == len(bench.store.outcomes("turn-1"))


# A call of the server costs 140e-6 US dollars.
_FIVE_CALLS = BudgetSettings(daily_usd=5 * 140e-6)


@pytest.mark.parametrize("budget", [_FIVE_CALLS, BudgetSettings(monthly_usd=5 * 140e-6)])
async def test_budget(bench: Bench, budget: BudgetSettings) -> None:
    """When the budget is spent the jobs left become unscored for that reason, and what is spent stays within it."""
    bench.keep(*(judged_turn(name=str(number)) for number in range(20)))
    scorer = await bench.drain(settings=ScoreSettings(concurrency=1), budget=budget)
    assert 5 == len(bench.server.asked)
    reasons = [bench.reason(f"turn-{number}") for number in range(20)]
    assert (5, 15) == (reasons.count(None), reasons.count(Reason.BUDGET))
    assert "budget of $0.0007 is spent until" in scorer.health()["budget"]
    assert {0.0007} == {round(gauge.value, 7) for gauge in scorer.gauges()}


async def test_budget_without_usage(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """R05: an endpoint that reports no usage spends the budget by the texts' length, marked as an estimate."""

    def silent(_: dict[str, object]) -> Step:
        step = completion(json.dumps({"reason": "On topic.", "score": 5}))
        assert isinstance(step.body, dict)
        return replace(step, body={name: part for name, part in step.body.items() if name != "usage"})

    bench.server.answer = silent
    bench.keep(*(judged_turn(name=str(number)) for number in range(20)))
    scorer = await bench.drain(settings=ScoreSettings(concurrency=1), budget=BudgetSettings(daily_usd=0.0001))
    assert 1 == len(bench.server.asked)
    outcomes = [bench.outcome(f"turn-{number}") for number in range(20)]
    (verdict,) = [outcome for outcome in outcomes if isinstance(outcome, Verdict)]
    assert TOKENS_ESTIMATED in verdict.finding.flags
    assert 500 < verdict.exchange.input_tokens < 2000
    assert 19 == sum(bench.reason(f"turn-{number}") is Reason.BUDGET for number in range(20))
    assert 1 == {total.name: total.value for total in scorer.counters()}["judge_estimated_replies_total"]
    assert "openai:judge-1 reports no usage: tokens, cost and budget are estimated" in caplog.text


async def test_budget_of_several_workers(bench: Bench) -> None:
    """Workers with one store share the budget; it is exceeded by no more than the calls under way when it was spent."""
    bench.keep(*(judged_turn(name=str(number)) for number in range(60)))
    settings = ScoreSettings(concurrency=3)
    async with bench.judge() as one, bench.judge() as two:
        scorers = [
            bench.scorer(RELEVANCE, judge=judge, settings=settings, budget=_FIVE_CALLS, worker=name)
            for judge, name in ((one, "one"), (two, "two"))
        ]
        await asyncio.gather(*(scorer.drain() for scorer in scorers))
    assert 5 <= len(bench.server.asked) <= 5 + 2 * settings.concurrency
    day = bench.now.replace(hour=0, minute=0)
    spend = bench.store.spend(since=day, until=day + timedelta(days=1))
    assert (len(bench.server.asked), pytest.approx(len(bench.server.asked) * 140e-6)) == (spend.calls, spend.usd)


async def test_next_day(bench: Bench) -> None:
    """A day's budget is there again the next day, for the same process and after a restart."""
    settings = ScoreSettings(concurrency=1)
    bench.keep(*(judged_turn(name=str(number)) for number in range(7)))
    async with bench.judge() as judge:
        scorer = bench.scorer(RELEVANCE, judge=judge, settings=settings, budget=_FIVE_CALLS)
        await scorer.drain()
        assert 5 == len(bench.server.asked)
        bench.now += timedelta(days=1)
        await asyncio.to_thread(bench.keep, *(judged_turn(name=f"next {number}") for number in range(7)))
        await scorer.drain()
        assert 10 == len(bench.server.asked)
        assert {} != scorer.health()
    bench.keep(*(judged_turn(name=f"restarted {number}") for number in range(3)))
    await bench.drain(settings=settings, budget=_FIVE_CALLS)
    assert 10 == len(bench.server.asked)
    assert Reason.BUDGET == bench.reason("turn-restarted 0")


async def test_lost_conversations_cost(bench: Bench) -> None:
    """What was paid for a conversation that then broke off is in the books, though in no verdict."""
    bench.server.script(completion("prose"), refusal(500))
    bench.keep(judged_turn())
    await bench.drain()
    assert bench.outcome() is None
    day = bench.now.replace(hour=0, minute=0)
    assert 1 == bench.store.spend(since=day, until=day + timedelta(days=1)).calls


async def test_equal_content_is_free(bench: Bench) -> None:
    """A spent budget does not keep a verdict from a turn of equal content."""
    bench.keep(judged_turn())
    await bench.drain(budget=BudgetSettings(daily_usd=140e-6))
    bench.keep(replace(judged_turn(), turn_id="again", trace_id="again"), judged_turn(name="other"))
    await bench.drain(budget=BudgetSettings(daily_usd=140e-6))
    assert isinstance(bench.outcome("again"), Verdict)
    assert Reason.BUDGET == bench.reason("turn-other")


async def test_code_needs_no_judge(bench: Bench) -> None:
    """A metric computed in code is worked off without a judge."""
    bench.keep(*(judged_turn(name=str(number)) for number in range(300)), metrics=[PROXY])
    assert 300 == await bench.scorer(PROXY, judge=None).drain()
    verdict = bench.outcome("turn-299")
    assert isinstance(verdict, Verdict)
    assert not verdict.finding.defect


def test_no_judge_for_a_metric_that_asks_one(bench: Bench) -> None:
    """A metric that asks a judge cannot be configured without one."""
    with pytest.raises(ConfigError, match="relevance asks a judge model"):
        bench.scorer(RELEVANCE, judge=None)


async def test_turn_without_documents(bench: Bench) -> None:
    """J09: without documents groundedness is unscored and costs no call, while relevance is judged."""
    turn = replace(judged_turn(), citations=())
    bench.keep(turn, metrics=[RELEVANCE, GROUNDEDNESS])
    await bench.drain(RELEVANCE, GROUNDEDNESS)
    found = {o.job.metric: o.reason if isinstance(o, Unscored) else None for o in bench.store.outcomes("turn-1")}
    assert {"groundedness": Reason.NO_CONTEXT, "relevance": None} == found
    assert 1 == len(bench.server.asked)


async def test_pause(bench: Bench) -> None:
    """J03: after a 429 nobody asks before the pause is over, and each job still costs one call and one attempt."""
    bench.server.script(refusal(429, retry_after="0.5"))
    bench.keep(*(judged_turn(name=str(number)) for number in range(6)))
    scorer = await bench.drain(settings=ScoreSettings(concurrency=1, attempts=1))
    first, *later = [asked.at for asked in bench.server.asked]
    assert 6 == len(later)
    assert all(at - first >= 0.5 for at in later)
    assert all(isinstance(bench.outcome(f"turn-{number}"), Verdict) for number in range(6))
    assert 1 == {g.name: g.value for g in scorer.counters()}["judge_pauses_total"]


async def test_long_pause(bench: Bench) -> None:
    """A pause too long to wait for gives the job back for then, and never uses the job up."""
    bench.keep(judged_turn())
    for _ in range(QUICK.attempts + 2):
        bench.server.script(refusal(429, retry_after="300"))
        await bench.drain()
        assert bench.outcome() is None
        await bench.drain()
        bench.now += timedelta(seconds=301)
    assert QUICK.attempts + 2 == len(bench.server.asked)
    await bench.drain()
    assert isinstance(bench.outcome(), Verdict)


async def test_hanging_endpoint(bench: Bench) -> None:
    """J04: each attempt ends at the deadline, the next waits twice as long, and the last ends the job as a time-out."""
    bench.keep(judged_turn())
    bench.server.script(*[Step(hang=True)] * QUICK.attempts)
    for wait in (10, 20):
        await bench.drain(judge_timeout=timedelta(seconds=0.2))
        assert bench.outcome() is None
        asked = len(bench.server.asked)
        bench.now += timedelta(seconds=wait - 1)
        await bench.drain(judge_timeout=timedelta(seconds=0.2))
        assert asked == len(bench.server.asked)
        bench.now += timedelta(seconds=2)
    await bench.drain(judge_timeout=timedelta(seconds=0.2))
    assert Reason.TIMEOUT == bench.reason()
    assert QUICK.attempts == len(bench.server.asked)


async def test_broken_endpoint(bench: Bench) -> None:
    """An endpoint that fails on every attempt ends the job as unavailable."""
    bench.keep(judged_turn())
    bench.server.script(*[refusal(500)] * QUICK.attempts)
    for _ in range(QUICK.attempts):
        await bench.drain()
        bench.now += timedelta(minutes=5)
    assert Reason.UNAVAILABLE == bench.reason()


async def test_single_failures(bench: Bench) -> None:
    """Failures that others are answered between count against their own job only."""
    settings = ScoreSettings(concurrency=1, attempts=2, backoff=timedelta(seconds=10))
    bench.keep(*(judged_turn(name=str(number)) for number in range(8)))
    bench.server.script(*[refusal(500), completion(json.dumps({"reason": "r", "score": 5}))] * 4)
    await bench.drain(settings=settings)
    assert 4 == bench.store.backlog().jobs
    bench.now += timedelta(seconds=11)
    await bench.drain(settings=settings)
    assert all(isinstance(bench.outcome(f"turn-{number}"), Verdict) for number in range(8))


async def test_outage(bench: Bench) -> None:
    """An outage of hours costs no job: one call tries now and then, health says why, and then all are judged."""
    turns = [judged_turn(name=str(number)) for number in range(40)]
    bench.keep(*turns)
    down = True
    bench.server.answer = lambda body: refusal(503) if down else kind(body)
    async with bench.judge() as judge:
        scorer = bench.scorer(RELEVANCE, judge=judge)
        await scorer.drain()
        assert 5 <= len(bench.server.asked) <= 4 + QUICK.concurrency
        assert "asking openai:judge-1: HTTP 503; asked again in 0 s" == scorer.health()["judge"]
        assert 40 == bench.store.backlog().jobs
        before = len(bench.server.asked)
        bench.now += timedelta(hours=11)
        await asyncio.sleep(judge.resting.total_seconds())
        await scorer.drain()
        assert before + 1 == len(bench.server.asked)
        assert 40 == bench.store.backlog().jobs
        down = False
        bench.now += timedelta(minutes=1)
        await asyncio.sleep(judge.resting.total_seconds())
        await scorer.drain()
        assert {} == scorer.health()
    assert all(isinstance(bench.outcome(turn.turn_id), Verdict) for turn in turns)


async def test_catching_up(bench: Bench) -> None:
    """After an outage a process that was started meanwhile works the backlog off, and no faster than is allowed."""
    turns = [judged_turn(name=str(number)) for number in range(55)]
    bench.keep(*turns)
    bench.server.answer = lambda _: refusal(503)
    await bench.drain()
    tried = len(bench.server.asked)
    bench.server.answer = kind
    bench.now += timedelta(hours=7)
    # Ten seconds' worth at once are 40 calls, and then 4 a second.
    async with bench.judge(limiter=Limiter(requests_per_minute=240)) as judge:
        await bench.scorer(RELEVANCE, judge=judge, worker="after").drain()
    assert all(isinstance(bench.outcome(turn.turn_id), Verdict) for turn in turns)
    came = [asked.at for asked in bench.server.asked[tried:]]
    assert 55 == len(came)
    assert all(number <= 40 + 4 * (at - came[0]) + 1 for number, at in enumerate(came, start=1))


@pytest.mark.parametrize("step", [refusal(401), refusal(403), refusal(404, code="model_not_found"), refusal(402)])
async def test_wrong_settings(bench: Bench, step: Step) -> None:
    """A wrong key or model costs one call and no job, and health says why; only their age ends the jobs."""
    bench.keep(*(judged_turn(name=str(number)) for number in range(30)))
    bench.server.answer = lambda _: step
    scorer = await bench.drain(settings=ScoreSettings(concurrency=1, attempts=1))
    assert 1 == len(bench.server.asked)
    assert 30 == bench.store.backlog().jobs
    assert scorer.health()["judge"].startswith(f"asking openai:judge-1: HTTP {step.status}")
    assert {"jobs_released_total": 1.0} == {
        gauge.name: gauge.value for gauge in scorer.counters() if gauge.labels.get("cause") == "judge_in_trouble"
    }
    bench.now += timedelta(days=3)
    await bench.drain()
    assert {Reason.EXPIRED} == {bench.reason(f"turn-{number}") for number in range(30)}
    assert 1 == len(bench.server.asked)


async def test_everything_is_rejected(bench: Bench) -> None:
    """An endpoint that takes nothing of ours costs four jobs before it is found out, not all of them."""
    bench.keep(*(judged_turn(name=str(number)) for number in range(30)))
    bench.server.answer = lambda _: refusal(400, "no such parameter")
    await bench.drain(settings=ScoreSettings(concurrency=1))
    assert 26 == bench.store.backlog().jobs
    assert 4 == len([n for n in range(30) if bench.reason(f"turn-{n}") is Reason.REJECTED])


async def test_severity_of_a_content_filter(bench: Bench) -> None:
    """What the endpoint's own filter found is kept beside the reason, and is no verdict."""
    front = {"violence": {"filtered": True, "severity": "medium"}}
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": front}
    bench.server.script(Step(status=400, body={"error": {"code": "content_filter", "innererror": inner}}))
    metric = replace(RELEVANCE, rubric=replace(RELEVANCE.rubric, metric="violence"))
    bench.keep(judged_turn(), metrics=[metric])
    await bench.drain(metric)
    outcome = bench.outcome()
    assert isinstance(outcome, Unscored)
    assert (Reason.CONTENT_FILTER, 4) == (outcome.reason, outcome.severity)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (refusal(400, code="content_filter"), Reason.CONTENT_FILTER),
        (refusal(400, "PRIVATE"), Reason.REJECTED),
        (completion(None, refusal="No."), Reason.REFUSED),
    ],
)
async def test_one_turn_fails(bench: Bench, step: Step, reason: Reason) -> None:
    """J02: a turn that cannot be judged has its reason after one call, and the other turns go on."""
    bench.server.script(step)
    bench.keep(*(judged_turn(name=str(number)) for number in range(4)))
    await bench.drain(settings=ScoreSettings(concurrency=1))
    reasons = [bench.reason(f"turn-{number}") for number in range(4)]
    assert [None, None, None, reason] == sorted(reasons, key=lambda found: found is not None)
    assert 4 == len(bench.server.asked)


async def test_unreadable_reply_is_kept(bench: Bench) -> None:
    """J06: an impossible score is asked for again once, then unscored; the raw reply is kept."""
    bench.server.script(completion('{"score": 90}'), completion('{"score": 999999999999, "reason": "r"}'))
    bench.keep(judged_turn())
    await bench.drain()
    outcome = bench.outcome()
    assert isinstance(outcome, Unscored)
    assert Reason.UNREADABLE == outcome.reason
    assert "score: expected one of 1, 2, 3, 4, 5, found a larger number" in outcome.detail
    assert '{"score": 999999999999, "reason": "r"}' == outcome.exchange.reply


async def test_old_turn(bench: Bench) -> None:
    """A job of a turn that is too old expires without a call."""
    bench.keep(judged_turn(), metrics=[RELEVANCE, PROXY])
    bench.now += timedelta(days=3)
    await bench.drain(RELEVANCE, PROXY)
    assert {Reason.EXPIRED} == {o.reason for o in bench.store.outcomes("turn-1") if isinstance(o, Unscored)}
    assert [] == bench.server.asked


_FAULTY = Rubric(metric="faulty", rubric_id="faulty-1", needs=frozenset({"response"}), scale_min=1, scale_max=5)


@dataclass(frozen=True)
class FaultyMetric:
    """A metric with a bug that quotes the turn in its exception."""

    max_output_tokens: int
    rubric: Rubric = _FAULTY
    call: str = ""
    schema: Mapping[str, object] | None = None

    def messages(self, turn: Turn) -> tuple[ChatMessage, ...]:
        """Ask about nothing in particular."""
        return (ChatMessage(role="user", content=turn.turn_id),) if self.max_output_tokens else ()

    def read(self, turn: Turn, reply: Reply | None) -> Finding | Reason:
        """Fail."""
        raise KeyError(turn.response, reply)


@pytest.mark.parametrize("max_output_tokens", [0, 10])
async def test_fault_of_ours(bench: Bench, caplog: pytest.LogCaptureFixture, max_output_tokens: int) -> None:
    """A fault of ours is logged and counted without user text, and ends the job as internal."""
    metric = FaultyMetric(max_output_tokens)
    bench.keep(judged_turn("PRIVATE"), metrics=[metric])
    counted: set[str] = set()
    with caplog.at_level(logging.ERROR):
        for _ in range(QUICK.attempts):
            counted |= {gauge.name for gauge in (await bench.drain(metric)).counters()}
            bench.now += timedelta(minutes=5)
    assert Reason.INTERNAL == bench.reason()
    assert "judging faulty of turn turn-1: KeyError at" in caplog.text
    assert "PRIVATE" not in caplog.text
    assert {"jobs_failed_total", "jobs_finished_total"} <= counted


@dataclass(frozen=True)
class UnstorableMetric(FaultyMetric):
    """A metric whose finding on turn-1 no database can hold."""

    def read(self, turn: Turn, reply: Reply | None) -> Finding | Reason:  # noqa: ARG002 -- as the protocol has it
        """Return a score beyond what a float holds, or an ordinary one."""
        return Finding(score=10**400 if turn.turn_id == "turn-1" else 1.0, defect=False)


@pytest.mark.parametrize("max_output_tokens", [0, 10])
async def test_finding_that_cannot_be_stored(bench: Bench, max_output_tokens: int) -> None:
    """A verdict that the database cannot hold ends its own job as internal; the others, and the worker, go on."""
    metric = UnstorableMetric(max_output_tokens)
    bench.keep(*(judged_turn(name=str(number)) for number in range(4)), metrics=[metric])
    scorer = await bench.drain(metric)
    assert [None, Reason.INTERNAL, None, None] == [bench.reason(f"turn-{number}") for number in range(4)]
    assert 0 == bench.store.backlog().jobs
    assert [(1, "StatementError")] == [
        (total.value, total.labels["reason"]) for total in scorer.counters() if total.name == "jobs_failed_total"
    ]


@pytest.mark.parametrize("metric", [RELEVANCE, PROXY])
async def test_turn_that_cannot_be_read(bench: Bench, store_path: Path, metric: Metric) -> None:
    """A broken row ends the jobs of its own turn as internal."""
    bench.keep(*(judged_turn(name=str(number)) for number in range(4)), metrics=[metric])
    with closing(sqlite3.connect(store_path)) as database, database:
        database.execute("UPDATE turn_texts SET citations = '{' WHERE turn_id = 'turn-1'")
    await bench.drain(metric)
    assert [None, Reason.INTERNAL, None, None] == [bench.reason(f"turn-{number}") for number in range(4)]
    assert 0 == bench.store.backlog().jobs


@pytest.mark.parametrize("count", [2**63 - 1, 10**400, -1, None, "many", [1]])
async def test_impossible_token_count(bench: Bench, count: object) -> None:
    """A number of tokens that cannot be is none, whatever the budget, and scoring goes on."""

    def impossible(_: dict[str, object]) -> Step:
        step = completion(json.dumps({"reason": "r", "score": 5}))
        usage = {"prompt_tokens": count, "completion_tokens": count, "total_tokens": count}
        return replace(step, body={**step.body, "usage": usage})

    bench.server.answer = impossible
    bench.keep(judged_turn(name="1"), judged_turn(name="2"))
    await bench.drain(budget=BudgetSettings(daily_usd=1.0))
    assert [None, None] == [bench.reason("turn-1"), bench.reason("turn-2")]
    assert 0 == bench.store.backlog().jobs


async def test_fault_between_jobs(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """What goes wrong outside of any job is logged, and the worker tries again."""
    bench.keep(judged_turn())
    failures: list[Exception] = []

    def clock() -> datetime:
        if failures:
            raise failures.pop()
        return bench.now

    async with bench.judge() as judge:
        scorer = bench.scorer(RELEVANCE, judge=judge, clock=clock)
        failures.append(RuntimeError("PRIVATE"))
        stop = asyncio.Event()
        running = asyncio.create_task(scorer.run(stop))
        await asyncio.to_thread(wait_until, bench.outcome, "a verdict", seconds=30)
        stop.set()
        await running
    assert isinstance(bench.outcome(), Verdict)
    assert "scoring goes on after a fault of ours: RuntimeError at" in caplog.text
    assert "PRIVATE" not in caplog.text


async def test_rubric_of_another_process(bench: Bench) -> None:
    """A process that does not know a job's rubric leaves the job alone: one that knows it finds it as it was."""
    bench.keep(judged_turn(), metrics=[GROUNDEDNESS])
    await bench.drain(RELEVANCE)
    assert bench.outcome() is None
    await bench.drain(GROUNDEDNESS)
    outcome = bench.outcome()
    assert isinstance(outcome, Verdict)
    assert 1 == outcome.job.attempt


async def test_rubric_that_nobody_knows(bench: Bench) -> None:
    """Jobs of a replaced prompt do not wait for ever: they end with the age at which no job is judged any more."""
    bench.keep(*(judged_turn(name=str(number)) for number in range(600)), metrics=[GROUNDEDNESS])
    bench.now += QUICK.max_job_age - timedelta(minutes=2)
    await bench.drain(RELEVANCE)
    assert 600 == bench.store.backlog().jobs
    bench.now += timedelta(minutes=2)
    scorer = await bench.drain(RELEVANCE)
    outcome = bench.outcome("turn-599")
    assert isinstance(outcome, Unscored)
    assert Reason.EXPIRED == outcome.reason
    assert "it waited too long for a process that knows its rubric" == outcome.detail
    assert 0 == bench.store.backlog().jobs
    assert 600 == next(total.value for total in scorer.counters() if total.name == "jobs_finished_total")


async def test_a_job_that_was_asked_for_later(bench: Bench) -> None:
    """A turn of any age is judged when somebody asks for it; the job grows old from then on."""
    bench.keep(judged_turn(), metrics=[GROUNDEDNESS])
    bench.now += 2 * QUICK.max_job_age
    bench.server.answer = lambda _: json.dumps({"reason": "it answers", "score": 5})
    rubrics = [RELEVANCE.rubric]
    wanted = missing(bench.store, SampleSettings(), rubrics, app=None, since=NOW - timedelta(days=1), now=bench.now)
    assert 1 == queue(bench.store, SampleSettings(), [sampling for _, sampling in wanted])
    await bench.drain()
    verdicts = [outcome for outcome in bench.store.outcomes("turn-1") if isinstance(outcome, Verdict)]
    assert ["relevance"] == [verdict.job.metric for verdict in verdicts]


async def test_turns_that_are_too_old(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """They end as expired, which the log says once."""
    bench.keep(*(judged_turn(name=str(number)) for number in range(3)))
    bench.now += 2 * QUICK.max_job_age
    await bench.drain()
    outcomes = [bench.outcome(f"turn-{number}") for number in range(3)]
    assert [Reason.EXPIRED] * 3 == [outcome.reason for outcome in outcomes if isinstance(outcome, Unscored)]
    assert 1 == caplog.text.count("older than score.max_job_age")


async def test_content_that_changed_while_judging(bench: Bench) -> None:
    """A verdict on replaced content is dropped; the new content waits to be sampled."""
    turn = judged_turn()
    bench.keep(turn)
    changed = judged_turn("Within 30 days.")

    def replaced(_: dict[str, object]) -> str:
        bench.store.replace_turns([Assembly(trace_id=turn.trace_id, through=2, turns=(changed,))], now=NOW)
        return json.dumps({"reason": "r", "score": 5})

    bench.server.answer = replaced
    await bench.drain()
    assert bench.outcome() is None
    assert (0, 1) == (bench.store.backlog().jobs, bench.store.backlog().turns)


async def test_run_until_stopped(bench: Bench) -> None:
    """A running scorer takes what comes, and stops when told, with nothing leased."""
    stop = asyncio.Event()
    async with bench.judge() as judge:
        scorer = bench.scorer(RELEVANCE, PROXY, judge=judge)
        running = asyncio.create_task(scorer.run(stop))
        await asyncio.to_thread(bench.keep, judged_turn(), metrics=[RELEVANCE, PROXY])
        await asyncio.to_thread(
            wait_until, lambda: len(bench.store.outcomes("turn-1")) == 2, "two outcomes", seconds=10
        )
        stop.set()
        await running
    assert 0 == bench.store.backlog().jobs


def _hold(bench: Bench) -> threading.Event:
    """Make the judge wait for the returned event, with one turn to judge."""
    let_go = threading.Event()

    def slow(_: dict[str, object]) -> str:
        let_go.wait(10)
        return json.dumps({"reason": "r", "score": 3})

    bench.server.answer = slow
    bench.keep(judged_turn())
    return let_go


async def test_stop_within_grace(bench: Bench) -> None:
    """What was begun is finished when it ends within the grace period."""
    let_go = _hold(bench)
    stop = asyncio.Event()
    async with bench.judge() as judge:
        running = asyncio.create_task(bench.scorer(RELEVANCE, judge=judge).run(stop))
        await asyncio.to_thread(wait_until, lambda: bench.server.asked, "a call", seconds=10)
        stop.set()
        let_go.set()
        await running
    assert isinstance(bench.outcome(), Verdict)


@pytest.mark.parametrize("cancelled", [True, False])
async def test_stop_beyond_grace(bench: Bench, *, cancelled: bool) -> None:
    """What does not end in time, or is cancelled, is given back at once and judged by the next scorer."""
    let_go = _hold(bench)
    stop = asyncio.Event()
    async with bench.judge() as judge:
        scorer = bench.scorer(RELEVANCE, judge=judge)
        running = asyncio.create_task(scorer.run(stop, left=lambda: timedelta(seconds=0.1)))
        await asyncio.to_thread(wait_until, lambda: bench.server.asked, "a call", seconds=10)
        if cancelled:
            running.cancel()
        stop.set()
        await asyncio.gather(running, return_exceptions=True)
    let_go.set()
    assert bench.outcome() is None
    assert 1 == bench.store.backlog().jobs
    await bench.drain()
    assert isinstance(bench.outcome(), Verdict)


async def test_lease(bench: Bench) -> None:
    """A claimed job is leased for longer than all calls of all attempts could take."""
    bench.keep(judged_turn())
    seen: list[Job] = []

    def look(_: dict[str, object]) -> str:
        sampling = bench.store.sampling("turn-1")
        seen.extend(sampling.jobs if sampling else ())
        return json.dumps({"reason": "r", "score": 3})

    bench.server.answer = look
    await bench.drain()
    (job,) = seen
    assert job.leased_until is not None
    assert job.leased_until - bench.now > timedelta(seconds=10) * max(4, QUICK.attempts)


@dataclass(frozen=True)
class BreakingMetric:
    """A metric whose prompt, once made, leaves a database that what is under way cannot be written to."""

    store_path: Path
    max_output_tokens: int = 10
    rubric: Rubric = RELEVANCE.rubric
    call: str = ""
    schema: Mapping[str, object] | None = None

    def messages(self, turn: Turn) -> tuple[ChatMessage, ...]:  # noqa: ARG002 -- as `Metric.messages`
        """Take the table away."""
        with closing(sqlite3.connect(self.store_path)) as database, database:
            database.execute("ALTER TABLE under_way RENAME TO taken_away")
        return (ChatMessage(role="user", content="an integer from 1 to 5 and nothing else"),)

    def read(self, turn: Turn, reply: Reply | None) -> Finding:  # noqa: ARG002 -- as `Metric.read`
        """Return the best score."""
        return Finding(score=5, defect=False)


async def test_store_that_fails_a_suspect(bench: Bench, store_path: Path) -> None:
    """A fault of the database while a suspect is judged is raised, and is no failure of the job's own."""
    bench.keep(judged_turn())
    bench.store.claim(now=bench.now, lease=timedelta(0), limit=1)
    with pytest.raises(StoreUnavailable):
        await bench.drain(BreakingMetric(store_path))
    with closing(sqlite3.connect(store_path)) as database, database:
        database.execute("ALTER TABLE taken_away RENAME TO under_way")
    (job,) = bench.store.claim(now=bench.now + timedelta(days=1), lease=timedelta(0), limit=1)
    assert (3, 0) == (job.attempt, job.failures)
