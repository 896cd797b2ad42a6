"""Jobs a second through the whole scoring worker, beside the bare openai client, against a judge of 200 ms on loopback.

Both ask the same prompts of the same server at the same concurrency. The worker also claims the jobs, reads the turns,
parses the replies and writes verdicts and spend to SQLite. Prints both rates, their ratio, and CPU a job.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import uvloop
from openai import AsyncOpenAI

from monitor.judging.client import OpenAIJudge
from monitor.judging.judges import Judges
from monitor.judging.metric import load
from monitor.judging.pacing import PacedJudge
from monitor.judging.transport import AioHttpTransport
from monitor.model import Citation, Turn, turn_id
from monitor.settings import BudgetSettings, SampleSettings, ScoreSettings, SteadinessSettings
from monitor.spans import Assembly
from monitor.stages import sample
from monitor.stages.score import Scorer
from monitor.store.sql import SqlStore, open_store

WHEN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
METRIC = load("relevance", judge_name="openai:judge-1")
TIMEOUT = timedelta(seconds=60)


def main() -> None:
    """Print the figures of one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1500)
    parser.add_argument("--concurrency", type=int, default=256)
    options = parser.parse_args()
    turns = [_turn(number) for number in range(options.calls)]
    with _server() as url, tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{Path(folder) / 'store.db'}")
        _fill(store, turns)
        plain, plain_cpu = _timed(_bare(url, turns, options.concurrency, None), options.calls)
        over_aiohttp = httpx2.AsyncClient(transport=AioHttpTransport(), timeout=60)
        bare, bare_cpu = _timed(_bare(url, turns, options.concurrency, over_aiohttp), options.calls)
        ours, ours_cpu = _timed(_worker(url, store, options.concurrency), options.calls)
        verdicts = sum(len(store.outcomes(turn.turn_id)) for turn in turns)
        store.close()
    assert verdicts == options.calls, f"{verdicts} of {options.calls} jobs have an outcome"
    print(f"{options.calls} calls of 200 ms, {options.concurrency} at once")
    print(f"openai client as it comes   {plain:6.0f} calls/s  {plain_cpu * 1000:.2f} ms of CPU a call")
    print(f"openai client over aiohttp  {bare:6.0f} calls/s  {bare_cpu * 1000:.2f} ms of CPU a call")
    print(f"scoring worker              {ours:6.0f} jobs/s   {ours_cpu * 1000:.2f} ms of CPU a job, store included")
    print(f"worker to client            {ours / bare:6.0%}")


def _timed(work: object, calls: int) -> tuple[float, float]:
    started, cpu = time.monotonic(), time.process_time()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)  # type: ignore[arg-type]
    return calls / (time.monotonic() - started), (time.process_time() - cpu) / calls


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
    client = OpenAIJudge(model="judge-1", api_key="k", base_url=url, timeout=TIMEOUT)
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
            second_opinions=SteadinessSettings(share=0),
        )
        await scorer.drain()


def _fill(store: SqlStore, turns: list[Turn]) -> None:
    for start in range(0, len(turns), 500):
        part = turns[start : start + 500]
        store.replace_turns([Assembly(trace_id=t.trace_id, through=1, turns=(t,)) for t in part], now=WHEN)
    sample.tick(store, SampleSettings(), rubrics=[METRIC.rubric], proxy=None, now=WHEN)


def _turn(number: int) -> Turn:
    trace_id = f"{number:032x}"
    text = f"Refunds of order {number} are paid within 14 days to the card that was used for the purchase. " * 8
    return Turn(
        turn_id=turn_id(trace_id, "root"),
        trace_id=trace_id,
        span_id="root",
        app="bench",
        query=f"When is the refund of order {number} paid?",
        response=text,
        citations=(Citation(id="kb-1", content=text),),
        started_at=WHEN,
        ended_at=WHEN,
    )


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
