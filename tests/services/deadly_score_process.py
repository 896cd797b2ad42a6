"""A scoring worker as a process of its own, which one of the turns kills.

Arguments: store URL, judge URL, which run of it this is, what it dies of ("code", "prompt", "reply" or "row", which
is of what the database gives), and the turn that it dies of.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from judged_turn import ASKED_AT
from sqlalchemy import Engine, event

from monitor.judging.endpoint.client import OpenAIJudge
from monitor.judging.endpoint.pacing import PacedJudge
from monitor.judging.judges import Judges
from monitor.model.judgements import ChatMessage, Finding, Reply, Rubric
from monitor.model.turns import Turn
from monitor.settings.tree import BudgetSettings, ScoreSettings, SecondOpinionSettings
from monitor.stages.score import Scorer
from monitor.store.sql_store import open_store

RUBRIC = Rubric(metric="deadly", rubric_id="deadly-1", needs=frozenset({"response"}), scale_min=1, scale_max=5)


@dataclass(frozen=True)
class DeadlyMetric:
    """A metric that ends the process at one turn."""

    turn_id: str
    dies_of: str
    max_output_tokens: int
    rubric: Rubric = RUBRIC
    call: str = ""
    schema: Mapping[str, object] | None = None

    def messages(self, turn: Turn) -> tuple[ChatMessage, ...]:
        """Ask about nothing in particular."""
        if self.dies_of == "prompt":
            self._die_of(turn)
        return (ChatMessage(role="user", content="an integer from 1 to 5 and nothing else"),)

    def read(self, turn: Turn, reply: Reply | None) -> Finding:  # noqa: ARG002 -- as `Metric.read`
        """Return the best score."""
        if self.dies_of in {"code", "reply"}:
            self._die_of(turn)
        return Finding(score=5, defect=False)

    def _die_of(self, turn: Turn) -> None:
        if turn.turn_id == self.turn_id:
            os.kill(os.getpid(), signal.SIGKILL)


def die_of_row(turn_id: str) -> None:
    """Have the process end when the texts of the turn are read."""

    def look(_: object, __: object, statement: str, parameters: object, *___: object) -> None:
        if "turn_texts" in statement and turn_id in str(parameters):
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "before_cursor_execute", look)


async def work(store_url: str, judge_url: str, run: int, metric: DeadlyMetric) -> None:
    """Drain the store."""
    store = open_store(store_url, migrate=False)
    client = OpenAIJudge(
        model="judge-1", api_key=lambda: "k", base_url=judge_url, timeout=timedelta(seconds=10), prices={}
    )
    async with Judges(PacedJudge(client)) as judges:
        scorer = Scorer(
            store,
            [metric],
            judge=judges,
            settings=ScoreSettings(),
            judge_timeout=timedelta(seconds=10),
            # Ahead by more than a lease, so that what the last process held is free again.
            clock=lambda: ASKED_AT + timedelta(minutes=5, hours=run),
            worker=f"run {run}",
            budget=BudgetSettings(),
            second_opinions=SecondOpinionSettings(share=0),
        )
        await scorer.drain()
    store.close()


if __name__ == "__main__":
    _, store_url, judge_url, run, kind, turn_id = sys.argv
    if kind == "row":
        die_of_row(turn_id)
    asyncio.run(work(store_url, judge_url, int(run), DeadlyMetric(turn_id, kind, 0 if kind == "code" else 10)))
