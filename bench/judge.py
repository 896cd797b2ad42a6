"""Jobs a second through the whole scoring worker, beside the bare openai client and other evaluators, in one run.

All ask the same server on loopback, which answers after 200 ms, about the same turns, with as many calls at once. The
worker also claims the jobs, reads the turns, parses the replies and writes verdicts and spend to SQLite. The others
judge by their own `evaluate`, one call a turn, in environments of their own:

    python bench/judge.py --install     # once: .cache/peers/{ragas,azure-ai-evaluation}, about 1.5 GB
    python bench/judge.py
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import uvloop
from _environments import executable, install
from _judged_turns import judged_turn
from openai import AsyncOpenAI, DefaultAioHttpClient

from monitor.judging.endpoint.client import OpenAIJudge
from monitor.judging.endpoint.pacing import PacedJudge
from monitor.judging.judges import Judges
from monitor.judging.prompt_metric import load
from monitor.model.judgements import Verdict
from monitor.model.spans import Assembly
from monitor.model.turns import Turn
from monitor.settings.tree import BudgetSettings, SampleSettings, ScoreSettings, SecondOpinionSettings
from monitor.stages import sample
from monitor.stages.score import Scorer
from monitor.store.sql_store import SqlStore, open_store

WHEN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
METRIC = load("relevance", judge_name="openai:judge-1")
TIMEOUT = timedelta(seconds=60)


def main() -> None:
    """Print the figures of one run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--install", action="store_true", help="make the peers' environments, then end")
    parser.add_argument("--calls", type=int, default=3000, help="of ours and of the bare client (%(default)d)")
    parser.add_argument("--peer-calls", type=int, default=600, help="of each other evaluator (%(default)d)")
    parser.add_argument("--concurrency", type=int, default=256, help="(%(default)d)")
    options = parser.parse_args()
    if options.install:
        install({peer.package: peer.besides for peer in THEIRS})
        return
    turns = [judged_turn(number, WHEN, sentences=8) for number in range(options.calls)]
    print(f"{options.calls} calls of 200 ms, {options.concurrency} at once")
    with _server() as url, tempfile.TemporaryDirectory() as folder:
        _print("openai client as it comes", _timed(_bare(url, turns, options.concurrency, None), options.calls))
        over_aiohttp = DefaultAioHttpClient(timeout=60)
        bare = _timed(_bare(url, turns, options.concurrency, over_aiohttp), options.calls)
        _print("openai[aiohttp] client", bare)
        store = open_store(f"sqlite:///{Path(folder) / 'store.db'}")
        _fill(store, turns)
        ours = _timed(_worker(url, store, options.concurrency), options.calls)
        verdicts = sum(isinstance(o, Verdict) for turn in turns for o in store.outcomes(turn.turn_id))
        store.close()
        assert verdicts == options.calls, f"{verdicts} of {options.calls} jobs have a verdict"
        _print("scoring worker", ours, f"{ours.rate / bare.rate:.0%} of the openai[aiohttp] client; store included")
        for peer in THEIRS:
            if not executable(peer.package, "python").exists():
                print(f"{peer.package:28} not installed: python bench/judge.py --install")
                continue
            figures = _peer(peer, url, turns[: options.peer_calls], options.concurrency)
            _print(peer.package, figures, f"the worker scores {ours.rate / figures.rate:.1f} times as many")


@dataclass(frozen=True)
class Figures:
    """What one of them did."""

    rate: float
    """Calls a second."""
    cpu: float
    """CPU seconds a call."""


@dataclass(frozen=True)
class Peer:
    """Another evaluator."""

    package: str
    script: str
    besides: tuple[str, ...] = ()
    """What pip has to be told besides its name."""


THEIRS = (
    # ragas 0.4.3 imports a module that langchain-community 0.4 has no more.
    Peer("ragas", "_judge_ragas.py", ("langchain-community<0.4",)),
    Peer("azure-ai-evaluation", "_judge_azure.py"),
)


def _print(what: str, figures: Figures, note: str = "") -> None:
    print(f"{what:28} {figures.rate:6.0f}/s  {figures.cpu * 1000:6.2f} ms of CPU a call  {note}".rstrip(), flush=True)


def _peer(peer: Peer, url: str, turns: list[Turn], concurrency: int) -> Figures:
    lines = "".join(json.dumps({"query": turn.query, "response": turn.response}) + "\n" for turn in turns)
    done = subprocess.run(
        [executable(peer.package, "python"), Path(__file__).with_name(peer.script), url, str(concurrency)],
        # It would wait for an address that answers nobody here, and be measured slower than it is.
        env={**os.environ, "RAGAS_DO_NOT_TRACK": "true"},
        input=lines,
        capture_output=True,
        text=True,
        check=True,
    )
    measured = json.loads(done.stdout.splitlines()[-1])
    assert measured["scored"] == len(turns), f"{peer.package} scored {measured['scored']} of {len(turns)} turns"
    return Figures(len(turns) / measured["seconds"], measured["cpu_seconds"] / len(turns))


def _timed(work: Coroutine[None, None, None], calls: int) -> Figures:
    started, cpu = time.monotonic(), time.process_time()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)
    return Figures(calls / (time.monotonic() - started), (time.process_time() - cpu) / calls)


async def _bare(url: str, turns: list[Turn], concurrency: int, http: httpx2.AsyncClient | None) -> None:
    gate = asyncio.Semaphore(concurrency)
    async with AsyncOpenAI(api_key="k", base_url=url, max_retries=0, timeout=60, http_client=http) as client:

        async def one(turn: Turn) -> None:
            async with gate:
                await client.chat.completions.create(
                    model="judge-1",
                    messages=[{"role": m.role, "content": m.content} for m in METRIC.messages(turn)],  # type: ignore[misc]
                    temperature=0,
                    max_tokens=300,
                )

        await asyncio.gather(*map(one, turns))


async def _worker(url: str, store: SqlStore, concurrency: int) -> None:
    client = OpenAIJudge(model="judge-1", api_key=lambda: "k", base_url=url, timeout=TIMEOUT)
    async with Judges(PacedJudge(client)) as judges:
        scorer = Scorer(
            store,
            [METRIC],
            judge=judges,
            settings=ScoreSettings(concurrency=concurrency),
            judge_timeout=TIMEOUT,
            clock=lambda: WHEN + timedelta(minutes=5),
            worker="bench",
            budget=BudgetSettings(daily_usd=10**6),
            second_opinions=SecondOpinionSettings(share=0),
        )
        await scorer.drain()


def _fill(store: SqlStore, turns: list[Turn]) -> None:
    for start in range(0, len(turns), 500):
        part = turns[start : start + 500]
        store.replace_turns([Assembly(trace_id=t.trace_id, through=1, turns=(t,)) for t in part], now=WHEN)
    sample.tick(store, SampleSettings(), rubrics=[METRIC.rubric], proxy=None, now=WHEN, worker="1")


@contextmanager
def _server() -> Iterator[str]:
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("_judge_server.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
    finally:
        server.stdin.close()
        server.wait(10)


if __name__ == "__main__":
    main()
