"""The main job on real input: a RAG chat app with a bad release, watched by the monitor over loopback.

The app is a process of its own and exports with the stock OTLP exporter; its traffic has event times in the past, and
the monitor's clock follows them. The app writes down which answers it invented, so that the estimate can be compared
with the truth.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypedDict

import orjson
from sqlalchemy import URL

from monitor.assets import asset_dir
from monitor.errors import Permanent
from monitor.judging.endpoint.prices import price_of
from monitor.judging.endpoint.usage import Usage
from monitor.judging.prompt_metric import load as load_metric
from monitor.model.judgements import Verdict
from monitor.model.trends import Alert, Rollup, Sums
from monitor.model.turns import Turn
from monitor.ports import Listening
from monitor.runtime.build import Parts, build_collectors, build_prices, open_parts
from monitor.runtime.drive import complete_at, drive
from monitor.runtime.intake import Intake
from monitor.runtime.pipeline import Pipeline
from monitor.settings.tree import Settings, validate
from monitor.statistics.rates import Rate, wilson_rate
from monitor.text.sentences import split
from monitor.text.timestamps import parse_rfc3339, rfc3339

_STRETCH = timedelta(hours=6)
_RELEASED_AT = 0.5
_CHARACTERS_PER_TOKEN = 4
"""Of English text, roughly; good enough for an estimate that says "about"."""
_TOKENS_PER_SENTENCE, _TOKENS_PER_SCORE = 60, 60
_WORST = 3


class Progress(TypedDict):
    """A line of the app's: how far it is; counts are from the start."""

    until: str
    turns: int
    spans: int
    done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What the demo simulates; equal scenarios give equal traffic."""

    seed: int = 1
    days: int = 8
    turns_per_hour: int = 20
    start: datetime
    """Aware UTC, on a full hour."""

    @property
    def released_at(self) -> datetime:
        """When release 2.0.0 goes out."""
        return self.start + timedelta(days=self.days) * _RELEASED_AT

    @property
    def end(self) -> datetime:
        """When the traffic ends."""
        return self.start + timedelta(days=self.days)


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """Before or after the release: what was estimated, and what was true of the same kind of turns."""

    turns: int
    applicable: int
    """Turns that state something and have documents: those that the metric is about."""
    estimate: Rate | None
    true_defects: int

    @property
    def truth(self) -> float:
        """The true defect rate of the applicable turns."""
        return self.true_defects / self.applicable if self.applicable else 0.0

    @property
    def covered(self) -> bool:
        """Whether the interval holds the truth."""
        return self.estimate is not None and self.estimate.lower <= self.truth <= self.estimate.upper


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTurn:
    """A turn with its verdict and the truth about it."""

    turn: Turn
    verdict: Verdict
    true_defect: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """What came out."""

    scenario: Scenario
    metric: str
    proxy: bool
    before: Period
    after: Period
    alerts: tuple[Alert, ...]
    """Oldest first."""
    worst: tuple[JudgedTurn, ...]
    judged: int
    agreement: tuple[int, int, int, int]
    """Judged turns: defects found and true, found and not true, missed, rightly passed."""
    cost_usd: float
    """Spent when a model judged; else what one would have cost, about."""
    rollups: tuple[Rollup, ...]
    truths: Mapping[str, bool]
    """Turn id -> whether it is a true defect, of all applicable turns."""
    starts: Mapping[str, datetime]
    """Turn id -> when it began."""


def settings_for(folder: Path, environ: Mapping[str, str]) -> Settings:
    """Return the demo's settings: a store in `folder`, a judge model only if the environment has a key for one."""
    asks = bool(environ.get("OPENAI_API_KEY"))
    judge: dict[str, object] = {"kind": "openai" if asks else "none"}
    if asks:
        judge |= {"api_key": environ["OPENAI_API_KEY"], "base_url": environ.get("OPENAI_BASE_URL") or None}
        judge |= {"model": environ["OPENAI_MODEL"]} if environ.get("OPENAI_MODEL") else {}
    tree = {
        "store": {"url": URL.create("sqlite", database=str(folder / "demo.db")).render_as_string()},
        "collectors": [{"kind": "otlp_http", "port": 0}],
        "judge": judge,
        "metrics": ["groundedness"],
        # A model is asked about every tenth turn: the demo shall cost cents.
        "sample": {"rate": 0.1 if asks else 0.5},
        "score": {"concurrency": 32 if asks else 8, "max_job_age": "3650d"},
        "detect": {"reference": "72h"},
    }
    return validate(Settings, tree, where="demo")


async def demonstrate(
    folder: Path, settings: Settings, scenario: Scenario, *, progress: Callable[[datetime, int], None]
) -> Demonstration:
    """Run app and monitor through the scenario and return what came out.

    Args:
        folder: where the store and the app's truth are written; an earlier demo there is replaced.
        settings: as `settings_for` gives them.
        scenario: what to simulate.
        progress: called with the simulated instant reached and the number of turns so far.

    Raises:
        MonitorError: the app failed or could not be heard.
    """
    truth_file = _cleared(folder)
    now = scenario.start + _STRETCH
    async with AsyncExitStack() as stack:
        parts = await stack.enter_async_context(open_parts(settings))
        pipeline = Pipeline(parts=parts)
        intake = await stack.enter_async_context(Intake(parts.store, settings.intake))
        (collector,) = build_collectors(settings, intake, parts.failures, clock=lambda: now).values()
        await stack.enter_async_context(collector)
        address = collector.address if isinstance(collector, Listening) else ("",)
        if len(address) == 1:
            raise Permanent("demo: needs the OTLP/HTTP collector on a port", reason="settings")
        host, port = address
        app = await _start_app(scenario, f"http://{host}:{port}/v1/traces", truth_file)
        stack.push_async_callback(_end_app, app)
        detected_through: datetime | None = None
        while True:
            report = await _report(app)
            until = parse_rfc3339(report["until"])
            settled_at = until + settings.assemble.quiet + timedelta(seconds=1)
            driven = await drive(pipeline, now=settled_at, detected_through=detected_through)
            detected_through = driven.detected_through
            progress(until, report["turns"])
            if report["done"]:
                break
            now = until + _STRETCH
            await _step(app)
        await drive(pipeline, now=complete_at(until, settings), detected_through=detected_through)
        return await asyncio.to_thread(_conclude, parts, scenario, truth_file)


def _cleared(folder: Path) -> Path:
    """Return where the truth goes, in a folder without the remains of an earlier demo."""
    folder.mkdir(parents=True, exist_ok=True)
    truth_file = folder / "truth.jsonl"
    for old in (*folder.glob("demo.db*"), truth_file):
        old.unlink(missing_ok=True)
    return truth_file


async def _start_app(scenario: Scenario, endpoint: str, truth: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, str(asset_dir("chat_app")), "--endpoint", endpoint, "--truth", str(truth), "--step"),
        *("--start", rfc3339(scenario.start), "--days", str(scenario.days)),
        *("--turns-per-hour", str(scenario.turns_per_hour), "--seed", str(scenario.seed)),
        *("--release-at", str(_RELEASED_AT), "--stretch-hours", str(_STRETCH // timedelta(hours=1))),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )


async def _report(app: asyncio.subprocess.Process) -> Progress:
    if app.stdout is None:
        raise Permanent("demo: the chat app has no output", reason="chat_app")
    line = await app.stdout.readline()
    if not line:
        raise Permanent(f"demo: the chat app ended with status {await app.wait()}", reason="chat_app")
    report: Progress = orjson.loads(line)
    return report


async def _step(app: asyncio.subprocess.Process) -> None:
    if app.stdin is None:
        raise Permanent("demo: the chat app has no input", reason="chat_app")
    app.stdin.write(b"\n")
    await app.stdin.drain()


async def _end_app(app: asyncio.subprocess.Process) -> None:
    if app.returncode is None:
        app.terminate()
    try:
        async with asyncio.timeout(10):
            await app.wait()
    except TimeoutError:
        app.kill()
        await app.wait()


def _conclude(parts: Parts, scenario: Scenario, truth_file: Path) -> Demonstration:
    truth_by_span = {(t["trace_id"], t["span_id"]): t for t in map(orjson.loads, truth_file.read_bytes().splitlines())}
    rollups = parts.store.rollups()
    counts: dict[bool, int] = {False: 0, True: 0}
    truths: dict[str, bool] = {}
    starts: dict[str, datetime] = {}
    judged: list[JudgedTurn] = []
    cost = 0.0
    for turn in parts.store.turns():
        truth = truth_by_span[turn.trace_id, turn.span_id]
        counts[turn.started_at >= scenario.released_at] += 1
        starts[turn.turn_id] = turn.started_at
        if truth["outcome"] == "answered" and turn.citations:
            truths[turn.turn_id] = truth["defect"]
        for outcome in parts.store.outcomes(turn.turn_id):
            cost += outcome.exchange.cost_usd
            if isinstance(outcome, Verdict):
                judged.append(JudgedTurn(turn=turn, verdict=outcome, true_defect=truth["defect"]))
    bad = [w for w in judged if w.verdict.finding.defect and w.turn.started_at >= scenario.released_at]
    rubric = parts.rubrics[0]
    return Demonstration(
        scenario=scenario,
        metric=rubric.metric,
        proxy=rubric.proxy,
        before=_period(scenario, rollups, truths, starts, counts[False], after=False),
        after=_period(scenario, rollups, truths, starts, counts[True], after=True),
        alerts=tuple(reversed(parts.store.alerts())),
        worst=tuple(sorted(bad, key=lambda w: w.verdict.finding.score or 0.0)[:_WORST]),
        judged=len(judged),
        agreement=_agreement(judged),
        cost_usd=cost if parts.judge else _would_cost(parts.settings, [w.turn for w in judged]),
        rollups=rollups,
        truths=truths,
        starts=starts,
    )


def _period(
    scenario: Scenario,
    rollups: Sequence[Rollup],
    truths: Mapping[str, bool],
    starts: Mapping[str, datetime],
    turns: int,
    *,
    after: bool,
) -> Period:
    rows = [r for r in rollups if not r.series.slice and (r.start >= scenario.released_at) == after]
    applicable = [bad for turn_id, bad in truths.items() if (starts[turn_id] >= scenario.released_at) == after]
    return Period(
        turns=turns,
        applicable=len(applicable),
        estimate=wilson_rate(sum((r.sums for r in rows), Sums())),
        true_defects=sum(applicable),
    )


def _agreement(judged: Sequence[JudgedTurn]) -> tuple[int, int, int, int]:
    pairs = [(w.verdict.finding.defect, w.true_defect) for w in judged]
    hit, alarm, missed, passed = (True, True), (True, False), (False, True), (False, False)
    return pairs.count(hit), pairs.count(alarm), pairs.count(missed), pairs.count(passed)


def _would_cost(settings: Settings, turns: Sequence[Turn]) -> float:
    """Return about what the shipped prompts would have cost on these turns, in US dollars."""
    metrics = [load_metric(name, judge_name="estimate") for name in ("groundedness", "relevance")]
    read = written = 0
    for turn in turns:
        for metric in metrics:
            read += sum(len(m.content) for m in metric.messages(turn)) // _CHARACTERS_PER_TOKEN
        written += _TOKENS_PER_SENTENCE * len(split(turn.response or "")) + _TOKENS_PER_SCORE
    price = price_of(build_prices(settings.judge), settings.judge.model)
    return price.cost_usd(Usage(input=read, output=written)) if price else 0.0
