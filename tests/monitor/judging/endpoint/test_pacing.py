"""Pauses that all callers keep."""

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from judge_server import JudgeServer, refusal

from monitor.errors import Paused, RateLimited, Rejected, Retryable, Unusable
from monitor.judging.endpoint.breaker import Breaker
from monitor.judging.endpoint.client import OpenAIJudge
from monitor.judging.endpoint.limiter import Limiter
from monitor.judging.endpoint.pacing import PacedJudge
from monitor.model.judgements import ChatMessage, ChatRequest

_REQUEST = ChatRequest(
    messages=(ChatMessage(role="system", content="s"), ChatMessage(role="user", content="(1) u")), max_output_tokens=9
)


async def test_everybody_rests(judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge]) -> None:
    """After a request for a pause nobody asks before it is over, and the refused one asks once more."""
    judge_server.script(refusal(429, retry_after="0.4"))
    async with new_judge() as judge:
        paced = PacedJudge(judge, patience=timedelta(seconds=10))
        first = asyncio.create_task(paced.ask(_REQUEST))
        while not paced.resting:  # noqa: ASYNC110 -- a pause has no event to wait for
            await asyncio.sleep(0.005)
        others = [paced.ask(_REQUEST) for _ in range(3)]
        await asyncio.gather(first, *others)
        assert 1 == paced.pauses
    refused, *later = [asked.at for asked in judge_server.asked]
    assert 4 == len(later)
    assert all(at - refused >= 0.4 for at in later)


async def test_pause_beyond_patience(judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge]) -> None:
    """A pause longer than the patience is handed on at once, with what is left of it."""
    judge_server.script(refusal(429, retry_after="30"))

    started = time.monotonic()
    async with new_judge() as judge:
        paced = PacedJudge(judge, patience=timedelta(seconds=5))
        for _ in range(2):
            with pytest.raises(RateLimited) as caught:
                await paced.ask(_REQUEST)
        error = caught.value
    assert time.monotonic() - started < 20, "waited for the 30 s that the server asked for"
    assert error.retry_after is not None
    assert timedelta(seconds=20) < error.retry_after <= timedelta(seconds=30)
    assert 1 == len(judge_server.asked)


@pytest.mark.parametrize("hint", [{"retry_after": "0"}, {"retry_after_ms": "1"}, {"retry_after": "-5"}])
async def test_pauses_of_no_length(
    judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge], hint: dict[str, str]
) -> None:
    """An endpoint that refuses and says "at once" is asked ever more rarely, and given up after the patience."""
    judge_server.script(*[refusal(429, **hint)] * 50)
    async with new_judge() as judge:
        with pytest.raises(RateLimited):
            await _ask(PacedJudge(judge, patience=timedelta(seconds=1)))
    first, *later = [asked.at for asked in judge_server.asked]
    assert 3 == len(later)
    assert [True] * 3 == [at - first >= least for at, least in zip(later, (0.1, 0.3, 0.7), strict=True)]


async def test_refused_side_by_side(judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge]) -> None:
    """Calls that are refused together without a hint make one pause, as short as after one refusal."""
    judge_server.script(*[refusal(429)] * 64)
    async with new_judge() as judge:
        paced = PacedJudge(judge, patience=timedelta(seconds=1))
        errors = list(await asyncio.gather(*(_ask(paced) for _ in range(64)), return_exceptions=True))
    assert [RateLimited] * 64 == [type(error) for error in errors]
    assert all(error.retry_after <= timedelta(seconds=2) for error in errors if isinstance(error, RateLimited))


def _ask(paced: PacedJudge) -> asyncio.Task[object]:
    return asyncio.ensure_future(paced.ask(_REQUEST))


async def _kind(paced: PacedJudge) -> type[object]:
    (outcome,) = await asyncio.gather(_ask(paced), return_exceptions=True)
    return type(outcome)


async def test_outage(judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge]) -> None:
    """The fifth failure in a row is the endpoint's; then nobody asks, and everybody is told why without waiting."""
    judge_server.script(*[refusal(503)] * 5)
    async with new_judge() as judge:
        paced = PacedJudge(judge, patience=timedelta(seconds=10))
        assert [Retryable] * 4 + [Paused] * 2 == [await _kind(paced) for _ in range(6)]
        assert "asking openai:judge-1: HTTP 503" == paced.trouble
        assert timedelta(seconds=4) < paced.resting <= timedelta(seconds=5)
    assert 5 == len(judge_server.asked)


async def test_one_call_tries(judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge]) -> None:
    """When the rest is over a single call tries; the others wait for what becomes of it, and then all go on."""
    judge_server.script(*[refusal(503)] * 5)
    answered: list[float] = []

    def slow(_: object) -> str:
        time.sleep(0.05)
        answered.append(time.monotonic())
        return "{}"

    judge_server.answer = slow
    async with new_judge() as judge:
        paced = PacedJudge(judge, breaker=Breaker(first_break=0.2))
        await asyncio.gather(*(_ask(paced) for _ in range(5)), return_exceptions=True)
        await asyncio.sleep(paced.resting.total_seconds())
        await asyncio.gather(*(_ask(paced) for _ in range(4)))
        assert paced.trouble is None
    _, *others = [asked.at for asked in judge_server.asked[5:]]
    assert 3 == len(others)
    assert all(at > answered[0] for at in others)


async def test_unusable(judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge]) -> None:
    """A wrong key is the endpoint's trouble at once, and one call is all that it costs."""
    judge_server.script(refusal(401))
    async with new_judge() as judge:
        paced = PacedJudge(judge)
        with pytest.raises(Unusable):
            await _ask(paced)
        with pytest.raises(Paused, match="HTTP 401") as caught:
            await _ask(paced)
        assert caught.value.retry_after is not None
        assert timedelta(seconds=29) < caught.value.retry_after <= timedelta(seconds=30)
    assert 1 == len(judge_server.asked)


async def test_everything_is_rejected(judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge]) -> None:
    """Five rejections in a row make an endpoint unusable; a filtered request in between shows that it works."""
    rejected, filtered = refusal(400, "no"), refusal(400, code="content_filter")
    judge_server.script(*[rejected] * 4, filtered, *[rejected] * 5)
    async with new_judge() as judge:
        paced = PacedJudge(judge)
        assert [Rejected] * 9 + [Unusable] == [await _kind(paced) for _ in range(10)]


@pytest.mark.parametrize(("per_minute", "asked"), [(6, 1), (240, 12)])
async def test_limit(
    judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge], per_minute: int, asked: int
) -> None:
    """Calls beyond the limit wait their turn, and are handed on when that is beyond the patience."""
    async with new_judge() as judge:
        limiter = Limiter(requests_per_minute=per_minute)
        paced = PacedJudge(judge, patience=timedelta(seconds=5), limiter=limiter)
        outcomes = await asyncio.gather(*(_ask(paced) for _ in range(12)), return_exceptions=True)
        kinds = [type(answer) for answer in outcomes]
    assert asked == len(judge_server.asked)
    assert 12 - asked == kinds.count(RateLimited)
