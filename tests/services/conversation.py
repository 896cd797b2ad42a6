"""What a judge answers about one turn, from entering the judge to closing it."""

from monitor.judging.dialogue import Answer, converse
from monitor.judging.endpoint.client import OpenAIJudge
from monitor.judging.prompt_metric import load_all
from monitor.model.turns import Turn


async def answers_of(judge: OpenAIJudge, metrics: str, turn: Turn) -> tuple[Answer, ...]:
    """The answers to `metrics`, the name of a shipped metric or of a prompt file of several, in its order."""
    async with judge:
        return await converse(load_all(metrics, judge_name=judge.name), turn, judge)
