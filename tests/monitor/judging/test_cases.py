"""The recorded judge cases: a turn, scripted replies, and what must come of it."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from judge_server import JudgeServer, Step
from judged_turn import judged_turn

from monitor.errors import TimedOut
from monitor.judging.dialogue import Answer, converse
from monitor.judging.endpoint.client import OpenAIJudge
from monitor.judging.endpoint.pacing import PacedJudge
from monitor.judging.needs import unmet
from monitor.judging.prompt.quoting import CONTEXT_TRUNCATED, fence
from monitor.judging.prompt_metric import PromptMetric, load, load_all
from monitor.model.judgements import Finding, Reason
from monitor.model.turns import Citation, Turn
from monitor.settings.tree import JudgeSettings

pytestmark = pytest.mark.shared

# The cases' judges answer with a score and a reason, so a metric of that form is asked.
_CHANGES = (
    ("id: tone", "id: case"),
    ("[query, response]", "[query, response, citations]"),
    ("You grade tone", "You check groundedness"),
)
_REASONS = {
    "error:content_filter": Reason.CONTENT_FILTER,
    "error:refused": Reason.REFUSED,
    "error:invalid_score": Reason.UNREADABLE,
}

Case = dict[str, Any]


@pytest.fixture
def metric(prompt_file: Callable[..., Path]) -> PromptMetric:
    """A groundedness metric whose judge gives a score and a reason."""
    return load(str(prompt_file(*_CHANGES)), judge_name="openai:judge-1")


def _case(shared: Path, name: str) -> Case:
    case: Case = json.loads((shared / "cases" / "payloads" / f"{name}-A.judge.json").read_text(encoding="utf-8"))
    return case


def _turn(case: Case) -> Turn:
    turn = case["turn"]
    citations = [Citation(id=c["id"], content=c["content"]) for c in turn["citations"]]
    return judged_turn(turn["response"], *citations, query=turn["query"])


async def _play(
    case: Case, metric: PromptMetric, server: JudgeServer, judge: OpenAIJudge, *, turns: int = 1
) -> list[Answer]:
    server.script(*(Step(status=s["status"], body=s["body"], headers=s["headers"]) for s in case["script"]))
    async with judge:
        return [(await converse([metric], _turn(case), judge))[0] for _ in range(turns)]


def _score(answer: Answer) -> float | None:
    assert isinstance(answer.result, Finding)
    return answer.result.score


async def test_parameters_not_taken(
    shared: Path, metric: PromptMetric, judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge]
) -> None:
    """J01: one resend with the other parameter, and the next turn needs one call."""
    case = _case(shared, "J01")
    first, _ = await _play(case, metric, judge_server, new_judge(), turns=2)
    assert case["expect"]["score"] == _score(first)
    assert case["expect"]["calls"] + case["expect"]["next_turn_calls"] == len(judge_server.asked)


@pytest.mark.parametrize("name", ["J02", "J06", "J07"])
async def test_without_a_score(
    shared: Path, metric: PromptMetric, judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge], name: str
) -> None:
    """J02, J06, J07: filtered, impossible and refused judgements have a reason and no score."""
    case = _case(shared, name)
    (answer,) = await _play(case, metric, judge_server, new_judge())
    assert _REASONS[case["expect"]["status"]] == answer.result
    assert len(case["script"]) == len(judge_server.asked)
    if isinstance(last := case["script"][-1]["body"], dict) and "choices" in last:
        message = last["choices"][0]["message"]
        assert (message["content"] or message["refusal"]) == answer.exchange.reply


@pytest.mark.parametrize("name", ["J05", "J08", "J10", "J11"])
async def test_with_a_score(
    shared: Path, metric: PromptMetric, judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge], name: str
) -> None:
    """J05, J08, J10, J11: fenced, cut-off, foreign and hostile judgements have the judge's own score."""
    case = _case(shared, name)
    (answer,) = await _play(case, metric, judge_server, new_judge())
    assert case["expect"]["score"] == _score(answer)
    assert len(case["script"]) == len(judge_server.asked)
    assert case["expect"].get("prompt_contains", "") in judge_server.asked[0].prompt


async def test_hostile_text_in_the_prompt(
    shared: Path, metric: PromptMetric, judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge]
) -> None:
    """J11: the rubric is no part of the judged text, which stands whole between marks it cannot know."""
    case = _case(shared, "J11")
    await _play(case, metric, judge_server, new_judge())
    system, user = (message["content"] for message in judge_server.asked[0].body["messages"])
    mark = fence(metric.fence_key, "turn-1")
    assert "the reason first" in system
    assert case["turn"]["response"] not in system
    assert f"{mark}\n{case['turn']['response']}\n{mark}" in user


async def test_prompt_too_long(
    shared: Path, metric: PromptMetric, judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge]
) -> None:
    """J12: one retry with all documents cut fairly, their ids kept and the answer whole."""
    case = _case(shared, "J12")
    (answer,) = await _play(case, metric, judge_server, new_judge())
    assert isinstance(answer.result, Finding)
    assert (5.0, {CONTEXT_TRUNCATED}) == (answer.result.score, answer.result.flags)
    first, second = (asked.prompt for asked in judge_server.asked)
    assert len(second) < len(first)
    assert all(f"<{c['id']}> {c['content'][:60]}" in second for c in case["turn"]["citations"])
    assert case["turn"]["response"] in second


async def test_rate_limit(
    shared: Path, metric: PromptMetric, judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge]
) -> None:
    """J03: the next call comes after the pause that was asked for, also from other callers; nothing multiplies."""
    case = _case(shared, "J03")
    judge_server.script(*(Step(status=s["status"], body=s["body"], headers=s["headers"]) for s in case["script"]))
    judge_server.answer = lambda _: json.dumps({"score": 5, "reason": "supported"})
    async with new_judge() as judge:
        paced = PacedJudge(judge)
        first = asyncio.create_task(converse([metric], _turn(case), paced))
        while not paced.resting:  # noqa: ASYNC110 -- a pause has no event to wait for
            await asyncio.sleep(0.01)
        other = await converse([metric], _turn(case), paced)
        answers = [*await first, *other]
    assert [case["expect"]["score"]] * 2 == [_score(answer) for answer in answers]
    refused, *later = [asked.at for asked in judge_server.asked]
    assert case["expect"]["calls"] == len(later)
    assert all(at - refused >= case["expect"]["min_gap_s"] for at in later)


async def test_time_out(
    shared: Path, metric: PromptMetric, judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge]
) -> None:
    """J04: a call that is never answered ends at our own deadline, as a time-out."""
    case = _case(shared, "J04")
    judge_server.script(Step(hang=True))
    judge = new_judge(timeout=timedelta(seconds=0.3))
    started = time.monotonic()
    with pytest.raises(TimedOut):
        async with judge:
            await converse([metric], _turn(case), judge)
    assert time.monotonic() - started < case["expect"]["max_turn_s"]
    assert "error:timeout" == case["expect"]["status"]
    # By the settings' defaults a first try and its repair, both hanging, stay within the bound as well.
    assert 2 * JudgeSettings().timeout.total_seconds() < case["expect"]["max_turn_s"]


async def test_format_that_is_ignored(
    shared: Path, judge_server: JudgeServer, new_judge: Callable[..., OpenAIJudge]
) -> None:
    """R01: the second call has the schema in words, and later turns have it at once."""
    case = json.loads((shared / "cases/round2/payloads/R01-response-format-ignored.judge.json").read_text("utf-8"))
    deaf, choice = case["replies_in_order"]

    def answer(body: dict[str, Any]) -> Step:
        named = all(f'"{key}"' in body["messages"][0]["content"] for key in ("reason", "score"))
        if len(judge_server.asked) == 1:
            return Step(body=deaf)
        return Step(body=choice["then" if named else "else"])

    judge_server.answer = answer
    turn = judged_turn(case["turn"]["answer"], case["turn"]["context"], query=case["turn"]["question"])
    async with new_judge() as judge:
        answers = [(await converse([load("relevance", judge_name=judge.name)], turn, judge))[0] for _ in range(2)]
    assert [case["expected"]["score"]] * 2 == [_score(answer) for answer in answers]
    assert 3 == len(judge_server.asked)


def test_no_context(shared: Path) -> None:
    """J09: without documents groundedness is unscored before anybody is asked; the others are still judged."""
    case = _case(shared, "J09")
    turn = replace(_turn(case), citations=())
    unmet_of = {
        metric.rubric.metric: unmet(turn, metric.rubric)
        for name in ("groundedness", "relevance", "safety")
        for metric in load_all(name, judge_name="openai:judge-1")
    }
    assert ("skipped:no_context", 0) == (case["expect"]["status"], case["expect"]["calls"])
    assert Reason.NO_CONTEXT == unmet_of.pop("groundedness")
    assert {None} == set(unmet_of.values())
