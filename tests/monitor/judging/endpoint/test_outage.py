"""The log tells of an endpoint's outage once, and of its end."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Self

import pytest
from judge_server import JudgeServer, refusal

from monitor.judging.endpoint.breaker import Breaker
from monitor.judging.endpoint.client import OpenAIJudge
from monitor.judging.endpoint.outage import Outage
from monitor.judging.endpoint.pacing import PacedJudge
from monitor.judging.judges import Judges
from monitor.model.judgements import ChatMessage, ChatRequest, Reply

_REQUEST = ChatRequest(messages=(ChatMessage(role="user", content="PRIVATE"),), max_output_tokens=9)


def test_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Begun and over are one line each; what comes back within a minute is told when the minute is over."""
    outage = Outage("judge")
    outage.over(0.0)
    for now in (1.0, 2.0, 50.0):
        outage.goes_on("HTTP 503", 5.0, now)
    outage.over(55.0)
    outage.over(56.0)
    outage.goes_on("HTTP 500", 5.0, 57.0)
    outage.over(58.0)
    outage.goes_on("HTTP 500", 8.0, 61.5)
    assert [
        "judge: HTTP 503; turns wait, asked again in 5 s",
        "judge: answers again, after 54 s",
        "judge: HTTP 500; turns wait, asked again in 8 s",
    ] == [record.getMessage() for record in caplog.records]


async def _ask(paced: PacedJudge, times: int) -> list[object]:
    async with paced:
        outcomes: list[object] = []
        for _ in range(times):
            outcomes += await asyncio.gather(paced.ask(_REQUEST), return_exceptions=True)
            await asyncio.sleep(paced.resting.total_seconds() if paced.resting < timedelta(seconds=1) else 0)
        return outcomes


@pytest.mark.parametrize(("status", "needed"), [(500, 5), (401, 1), (400, 5)])
async def test_trouble_and_recovery(
    judge_server: JudgeServer,
    new_judge: Callable[..., OpenAIJudge],
    caplog: pytest.LogCaptureFixture,
    status: int,
    needed: int,
) -> None:
    """An endpoint that fails, refuses the key or refuses everything is told with its reason, without text or key."""
    judge_server.script(*[refusal(status)] * (needed + 1))
    with caplog.at_level(logging.INFO, logger="monitor"):
        await _ask(PacedJudge(new_judge(), breaker=Breaker(first_break=0.01), where="judge.fallback"), needed + 2)
    began, over = [record.getMessage() for record in caplog.records if record.name == "monitor.judging.endpoint.outage"]
    assert began.startswith(f"judge.fallback: asking openai:judge-1: HTTP {status}")
    assert "; turns wait, asked again in 0 s" in began
    assert over.startswith("judge.fallback: answers again, after ")
    assert "PRIVATE" not in caplog.text


async def test_pauses_only(
    judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge], caplog: pytest.LogCaptureFixture
) -> None:
    """An endpoint that only ever asks for short pauses is in trouble when nobody was answered for the patience."""
    judge_server.script(*[refusal(429, retry_after="0.3")] * 3)
    paced = PacedJudge(new_judge(), patience=timedelta(seconds=0.5))
    await _ask(paced, 3)
    began, over = [record.getMessage() for record in caplog.records if record.name == "monitor.judging.endpoint.outage"]
    assert began.startswith("judge: openai:judge-1 asks for pauses and answers nobody for ")
    assert over.startswith("judge: answers again")
    assert paced.trouble is None


class Faulty:
    """An endpoint whose client has a fault."""

    name = model = "faulty"

    async def __aenter__(self) -> Self:
        """Nothing to enter."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing to leave."""

    @property
    def max_prompt_tokens(self) -> int | None:
        """Whatever fits."""
        return None

    async def ask(self, request: ChatRequest) -> Reply:
        """Fail with what was asked in the message."""
        raise ValueError(request.messages[0].content)


async def test_fault_of_the_client(caplog: pytest.LogCaptureFixture) -> None:
    """A fault that every call meets is told by health and the log with its type and place, and calls wait."""
    paced = PacedJudge(Faulty())
    outcomes = await _ask(paced, 6)
    assert ["ValueError"] * 4 + ["Paused"] * 2 == [type(error).__name__ for error in outcomes]
    health = Judges(paced).health()["judge"]
    assert "asking faulty: ValueError at " in health
    assert health.endswith("; asked again in 5 s")
    assert 1 == len([record for record in caplog.records if record.name == "monitor.judging.endpoint.outage"])
    assert "PRIVATE" not in f"{caplog.text}{health}"
