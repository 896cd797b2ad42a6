"""A scoring worker as a process of its own, to be killed: drains a store against a judge, and says when nothing is due.

Arguments: store URL, judge URL, how many hours its clock is ahead, daily budget in US dollars ("-" for none).
"""

import asyncio
import sys
from datetime import timedelta

from judged_turn import ASKED_AT

from monitor.judging.endpoint.client import OpenAIJudge
from monitor.judging.endpoint.pacing import PacedJudge
from monitor.judging.endpoint.prices import Price
from monitor.judging.judges import Judges
from monitor.judging.prompt_metric import load_all
from monitor.settings.tree import BudgetSettings, ScoreSettings, SecondOpinionSettings
from monitor.stages.score import Scorer
from monitor.store.sql_store import open_store

CONCURRENCY = 8


async def work(store_url: str, judge_url: str, hours: int, daily_usd: float | None) -> None:
    """Drain the store."""
    store = open_store(store_url, migrate=False)
    client = OpenAIJudge(
        model="judge-1",
        api_key=lambda: "k",
        base_url=judge_url,
        timeout=timedelta(seconds=10),
        prices={"judge-1": Price(1.0, 4.0)},
    )
    async with Judges(PacedJudge(client)) as judges:
        scorer = Scorer(
            store,
            load_all("answer", judge_name="openai:judge-1"),
            judge=judges,
            settings=ScoreSettings(concurrency=CONCURRENCY),
            judge_timeout=timedelta(seconds=10),
            # Ahead by more than a lease, so that what the last process held is free again.
            clock=lambda: ASKED_AT + timedelta(minutes=5, hours=hours),
            worker=f"process {hours}",
            budget=BudgetSettings(daily_usd=daily_usd),
            second_opinions=SecondOpinionSettings(share=0),
        )
        await scorer.drain()
    store.close()


if __name__ == "__main__":
    _, store_url, judge_url, hours, budget = sys.argv
    asyncio.run(work(store_url, judge_url, int(hours), None if budget == "-" else float(budget)))
