"""Pauses that all callers keep."""

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from judge_server import JudgeServer, refusal

from monitor.errors import RateLimited
from monitor.judging.client import OpenAIJudge
from monitor.judging.pacing import PacedJudge
from monitor.model import ChatMessage

_MESSAGES = (ChatMessage(role="system", content="s"), ChatMessage(role="user", content="(1) u"))


def test_everybody_rests(judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge]) -> None:
    """After a request for a pause nobody asks before it is over, and the refused one asks once more."""
    judge_server.script(refusal(429, retry_after="0.4"))

    async def conversation() -> None:
        async with new_judge() as judge:
            paced = PacedJudge(judge, patience=timedelta(seconds=10))
            first = asyncio.create_task(paced.ask(_MESSAGES, None, max_output_tokens=9))
            while not paced.resting:  # noqa: ASYNC110 -- a pause has no event to wait for
                await asyncio.sleep(0.005)
            others = [paced.ask(_MESSAGES, None, max_output_tokens=9) for _ in range(3)]
            await asyncio.gather(first, *others)
            assert 1 == paced.pauses

    asyncio.run(conversation())
    refused, *later = [asked.at for asked in judge_server.asked]
    assert 4 == len(later)
    assert all(at - refused >= 0.4 for at in later)


def test_pause_beyond_patience(judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge]) -> None:
    """A pause longer than the patience is handed on at once, with what is left of it."""
    judge_server.script(refusal(429, retry_after="30"))

    async def conversation() -> RateLimited:
        async with new_judge() as judge:
            paced = PacedJudge(judge, patience=timedelta(seconds=5))
            for _ in range(2):
                with pytest.raises(RateLimited) as caught:
                    await paced.ask(_MESSAGES, None, max_output_tokens=9)
            return caught.value

    started = time.monotonic()
    error = asyncio.run(conversation())
    assert time.monotonic() - started < 5
    assert error.retry_after is not None
    assert timedelta(seconds=20) < error.retry_after <= timedelta(seconds=30)
    assert 1 == len(judge_server.asked)
