"""kill -9 of scoring workers at random moments during 10,000 jobs: does each get one outcome, and is it paid for once?

Three `rag-monitor run --role score` share a store. After random numbers of replies one, two or all of them are killed
and started again. It ends when no job is left, so at the earliest when the leases of the killed ones are over, some
three minutes after the last kill. The judge is in this process and counts every reply, so what was paid for is known
from outside. With `--budget` it is enough for 60 % of the calls, and the rest of the jobs must end for that reason.

    python bench/score_kill.py
    python bench/score_kill.py --budget
    python bench/score_kill.py --store postgresql+psycopg://user:password@host/empty_database
"""

import argparse
import asyncio
import contextlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import yaml
from _judged_turns import judged_turn
from _ports import free_port
from aiohttp import web

from monitor.model.judgements import Reason, Unscored, Verdict
from monitor.model.spans import Assembly
from monitor.model.turns import turn_id
from monitor.runtime.build import open_parts
from monitor.settings.tree import SampleSettings, Settings
from monitor.stages import sample
from monitor.store.sql_store import SqlStore, open_store

WORKERS, CONCURRENCY = 3, 16
LEASED = CONCURRENCY + CONCURRENCY // 4
"""Calls whose jobs one worker holds: those it makes, and those it claimed ahead."""
LATENCY = 0.2
METRICS = ("relevance", "coherence", "fluency", "refusal")
CALLS_A_TURN = 2
"""`relevance` is a prompt file of its own, the other three are read out of one reply."""
PROMPT_TOKENS, REPLY_TOKENS = 700, 30
CALL_USD = (PROMPT_TOKENS * 1.0 + REPLY_TOKENS * 4.0) / 1e6
PATIENCE = 900.0
"""Seconds without which no reply and no end is taken for a hang."""


@dataclass
class Judge:
    """An OpenAI-compatible endpoint of this process."""

    replies: Counter[str] = field(default_factory=Counter)
    """By prompt: every one of them would be charged."""
    more: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.Response:
        """Reply after the latency, in the form that is asked for."""
        asked = orjson.loads(await request.read())
        await asyncio.sleep(LATENCY)
        self.replies["\n".join(message["content"] for message in asked["messages"])] += 1
        self.more.set()
        schema = asked["response_format"]["json_schema"]["schema"]
        message = {"role": "assistant", "content": orjson.dumps(fitting(schema, schema.get("$defs", {}))).decode()}
        return web.json_response(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 1,
                "model": "judge-1",
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                "usage": {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": REPLY_TOKENS},
            }
        )


def fitting(node: Mapping[str, object], defs: Mapping[str, object]) -> object:
    """Return a value that fits a schema of ours."""
    if isinstance(reference := node.get("$ref"), str):
        node = defs[reference.rsplit("/", 1)[-1]]  # type: ignore[assignment]
    if isinstance(properties := node.get("properties"), dict):
        return {name: fitting(inner, defs) for name, inner in properties.items()}
    if isinstance(allowed := node.get("enum"), list):
        return allowed[-1]
    return {"string": "it answers", "boolean": False}.get(str(node.get("type")), 5)


@contextlib.asynccontextmanager
async def judging() -> AsyncIterator[tuple[Judge, str]]:
    """Yield the judge and its URL."""
    judge = Judge()
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/v1/chat/completions", judge.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    try:
        yield judge, f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


class Worker:
    """One scoring process, started again after each kill."""

    def __init__(self, tree: Mapping[str, object], folder: Path, number: int) -> None:
        self._file = folder / f"worker-{number}.yaml"
        self._file.write_text(yaml.safe_dump({**tree, "web": {"port": free_port()}}))
        self._log = (folder / f"worker-{number}.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        command = [Path(sys.executable).with_name("rag-monitor"), "run", "--role", "score", "-c", self._file]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def end(self, how: signal.Signals) -> None:
        """Return when it is gone, if it was there."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def ended(self) -> str | None:
        """Return the end of its log if it ended by itself."""
        if self._process is None or self._process.poll() is None:
            return None
        return Path(self._log.name).read_text()[-3000:]


async def fill(settings: Settings, turns: int) -> None:
    """Store turns and sample all of them."""
    now = datetime.now(UTC)
    made = [judged_turn(number, now, sentences=1) for number in range(turns)]
    async with open_parts(settings) as parts:
        for start in range(0, turns, 500):
            part = made[start : start + 500]
            parts.store.replace_turns([Assembly(trace_id=t.trace_id, through=1, turns=(t,)) for t in part], now=now)
            while sample.tick(parts.store, SampleSettings(), rubrics=parts.rubrics, proxy=None, now=now, worker="1"):
                pass


def pick(rng: random.Random) -> range:
    """Return how many workers die at once."""
    return range(rng.choices(range(1, WORKERS + 1), weights=(4, 2, 1))[0])


async def kill_some(judge: Judge, workers: list[Worker], *, calls: int, kills: int, rng: random.Random) -> int:
    """Kill workers after random numbers of replies, and start them again; return how many processes were killed."""
    killed = 0
    # The last tenth is left to those that survive: a kill after the end of the work would test nothing.
    for moment in sorted(rng.sample(range(1, calls * 9 // 10), kills)):
        while judge.replies.total() < moment:
            judge.more.clear()
            await asyncio.wait_for(judge.more.wait(), PATIENCE)
            for worker in workers:
                if said := worker.ended():
                    raise SystemExit(f"a worker ended by itself:\n{said}")
        await asyncio.sleep(rng.random() * LATENCY)
        for worker in (dying := rng.sample(workers, len(pick(rng)))):
            worker.end(signal.SIGKILL)
        for worker in dying:
            worker.start()
        killed += len(dying)
    return killed


async def scored(store: SqlStore) -> None:
    """Return when no job is left."""
    end = time.monotonic() + PATIENCE
    while jobs := (await asyncio.to_thread(store.backlog)).jobs:
        if time.monotonic() > end:
            raise SystemExit(f"{jobs} jobs are still there {PATIENCE:.0f} s later")
        await asyncio.sleep(1)


@dataclass(frozen=True)
class Found:
    """What is in the store at the end."""

    verdicts: int
    budget: int
    """Jobs that ended because the budget was spent."""
    wrong: int
    """Turns with more or fewer than one outcome a metric, and outcomes with another reason."""
    booked_usd: float


def look(store: SqlStore, numbers: Iterator[int]) -> Found:
    """Read every turn's outcomes, and what was booked today."""
    verdicts = budget = wrong = 0
    for number in numbers:
        outcomes = store.outcomes(turn_id(f"{number:032x}", "root"))
        verdicts += sum(isinstance(o, Verdict) for o in outcomes)
        budget += sum(isinstance(o, Unscored) and o.reason is Reason.BUDGET for o in outcomes)
        others = [o for o in outcomes if isinstance(o, Unscored) and o.reason is not Reason.BUDGET]
        wrong += len(others) + (tuple(sorted(o.job.metric for o in outcomes)) != tuple(sorted(METRICS)))
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return Found(verdicts, budget, wrong, store.spend(since=today, until=today + timedelta(days=1)).usd)


async def run(url: str, folder: Path, *, turns: int, kills: int, rng: random.Random, budget_calls: int | None) -> int:
    """Kill during one run, print its verdict, and return what is wrong."""
    async with judging() as (judge, judge_url):
        tree: dict[str, object] = {
            "store": {"url": url},
            "metrics": list(METRICS),
            "score": {"concurrency": CONCURRENCY},
            "judge": {
                "kind": "openai",
                "model": "judge-1",
                "base_url": judge_url,
                "api_key": "k",
                "timeout": "2s",
                "prices": {"judge-1": {"input": 1.0, "output": 4.0}},
                "second_opinions": {"share": 0.0},
                "budget": {} if budget_calls is None else {"daily_usd": budget_calls * CALL_USD},
            },
        }
        await fill(Settings.model_validate(tree), turns)
        calls = budget_calls or turns * CALLS_A_TURN
        workers = [Worker(tree, folder, number) for number in range(WORKERS)]
        store = open_store(url, migrate=False)
        began = time.monotonic()
        try:
            for worker in workers:
                worker.start()
            killed = await kill_some(judge, workers, calls=calls, kills=kills, rng=rng)
            print(f"{kills} kills of {killed} workers in {time.monotonic() - began:.0f} s", flush=True)
            await scored(store)
            found = await asyncio.to_thread(look, store, iter(range(turns)))
        finally:
            for worker in workers:
                worker.end(signal.SIGKILL)
            store.close()
    return verdict(judge, found, turns=turns, killed=killed, budget_calls=budget_calls)


def verdict(judge: Judge, found: Found, *, turns: int, killed: int, budget_calls: int | None) -> int:
    """Print what was promised beside what came of it; return the number of broken promises."""
    paid, distinct = judge.replies.total(), len(judge.replies)
    twice, allowed = paid - distinct, killed * LEASED
    jobs = turns * len(METRICS)
    ended = found.verdicts + found.budget
    print(f"{jobs:,} jobs: {found.verdicts:,} verdicts, {found.budget:,} for the budget, {found.wrong} turns wrong")
    print(f"{distinct:,} calls, {twice} of them paid for twice; allowed for {killed} dead workers: {allowed}")
    faults = found.wrong + (ended != jobs) + (twice > allowed)
    if budget_calls is None:
        faults += distinct != turns * CALLS_A_TURN
    else:
        over, under_way = paid - budget_calls, WORKERS * LEASED
        booked = round(found.booked_usd / CALL_USD)
        print(f"budget of {budget_calls:,} calls: {paid:,} paid for, {booked:,} booked; {under_way} may be under way")
        faults += over > under_way
    print("as promised" if not faults else "NOT as promised", flush=True)
    return faults


async def main() -> int:
    """Kill, then check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", help="URL of an empty database (default: a SQLite file of its own)")
    parser.add_argument("--budget", action="store_true", help="for 60 %% of the calls")
    parser.add_argument("--jobs", type=int, default=10_000, help="(%(default)d)")
    parser.add_argument("--kills", type=int, default=12, help="(%(default)d)")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    rng, turns = random.Random(seed), options.jobs // len(METRICS)  # noqa: S311
    print(f"seed {seed}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = options.store or f"sqlite:///{folder / 'store.db'}"
        budget_calls = turns * CALLS_A_TURN * 6 // 10 if options.budget else None
        faults = await run(url, folder, turns=turns, kills=options.kills, rng=rng, budget_calls=budget_calls)
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
