"""A judge and its fallback, over two loopback servers."""

from collections.abc import Callable, Iterator

import pytest
from judge_server import JudgeServer, Step, completion, refusal
from judged_turn import judged_turn

from monitor.errors import Paused, Unusable
from monitor.judging.dialogue import Answer
from monitor.judging.endpoint.client import OpenAIJudge
from monitor.judging.endpoint.pacing import PacedJudge
from monitor.judging.judges import FALLBACK_JUDGE, Judges
from monitor.judging.prompt_metric import load
from monitor.model.judgements import Finding, Reason

NewJudge = Callable[..., OpenAIJudge]
METRIC = load("relevance", judge_name="openai:judge-1")


@pytest.fixture
def second_server() -> Iterator[JudgeServer]:
    """Another endpoint."""
    server = JudgeServer()
    yield server
    server.close()


def _judges(new_judge: NewJudge, second: JudgeServer, *, model: str) -> Judges:
    fallback = new_judge(model=model, base_url=second.url)
    return Judges(PacedJudge(new_judge()), PacedJudge(fallback))


async def _judge(judges: Judges, *, times: int = 1) -> list[Answer]:
    async with judges:
        return [(await judges.judge([METRIC], judged_turn()))[0] for _ in range(times)]


@pytest.mark.parametrize(
    "steps",
    [
        [completion(None, refusal="No.")],
        [refusal(400, code="content_filter")],
        [completion("prose"), completion("more prose")],
        [completion("", finish_reason="length")] * 2,
        [refusal(400, "odd request")],
    ],
)
async def test_no_verdict(
    judge_server: JudgeServer, second_server: JudgeServer, new_judge: NewJudge, steps: list[Step]
) -> None:
    """A turn that the judge gives no verdict on is judged by the fallback, flagged, at the cost of both."""
    judge_server.script(*steps)
    (answer,) = await _judge(_judges(new_judge, second_server, model="judge-2"))
    assert isinstance(answer.result, Finding)
    assert (5.0, {FALLBACK_JUDGE}) == (answer.result.score, answer.result.flags)
    paid = len([step for step in steps if step.status == 200])
    assert (paid + 1, 100 * (paid + 1)) == (answer.exchange.calls, answer.exchange.input_tokens)
    assert 1 == len(second_server.asked)


async def test_both_refuse(judge_server: JudgeServer, second_server: JudgeServer, new_judge: NewJudge) -> None:
    """When the fallback gives no verdict either, the judge's own reason stands."""
    judge_server.script(completion(None, refusal="No."))
    second_server.script(refusal(400, code="content_filter"))
    (answer,) = await _judge(_judges(new_judge, second_server, model="judge-2"))
    assert (Reason.REFUSED, 1) == (answer.result, answer.exchange.calls)


async def test_fallback_is_down(judge_server: JudgeServer, second_server: JudgeServer, new_judge: NewJudge) -> None:
    """A fallback that cannot be reached changes nothing."""
    judge_server.script(completion(None, refusal="No."))
    second_server.script(refusal(500))
    (answer,) = await _judge(_judges(new_judge, second_server, model="judge-2"))
    assert Reason.REFUSED == answer.result


async def test_outage_with_another_model(
    judge_server: JudgeServer, second_server: JudgeServer, new_judge: NewJudge
) -> None:
    """A fallback of another model does not take over: the trend would change with the judge."""
    judge_server.script(refusal(401))
    judges = _judges(new_judge, second_server, model="judge-2")
    with pytest.raises(Unusable):
        await _judge(judges)
    assert [] == second_server.asked


async def test_outage_with_the_same_model(
    judge_server: JudgeServer, second_server: JudgeServer, new_judge: NewJudge
) -> None:
    """The same model elsewhere takes over, unflagged, and the judge is not asked while it rests."""
    judge_server.script(refusal(401))
    answers = await _judge(_judges(new_judge, second_server, model="judge-1"), times=3)
    assert [frozenset()] * 3 == [a.result.flags for a in answers if isinstance(a.result, Finding)]
    assert (1, 3) == (len(judge_server.asked), len(second_server.asked))


async def test_both_are_down(judge_server: JudgeServer, second_server: JudgeServer, new_judge: NewJudge) -> None:
    """When both endpoints are in trouble both say so, and the turn waits."""
    judge_server.script(refusal(401))
    second_server.script(refusal(403))
    judges = _judges(new_judge, second_server, model="judge-1")
    async with judges:
        for _ in range(2):
            with pytest.raises((Unusable, Paused)):
                await judges.judge([METRIC], judged_turn())
        assert judges.troubled
        assert judges.resting.total_seconds() > 20
        assert {
            "judge": "asking openai:judge-1: HTTP 401; asked again in 30 s",
            "fallback": "asking openai:judge-1: HTTP 403; asked again in 30 s",
        } == judges.health()


def test_names(new_judge: NewJudge, second_server: JudgeServer) -> None:
    """A fallback of another model is part of the name that scores are kept under; the same one elsewhere is not."""
    assert "openai:judge-1, else openai:judge-2" == _judges(new_judge, second_server, model="judge-2").name
    assert "openai:judge-1" == _judges(new_judge, second_server, model="judge-1").name
