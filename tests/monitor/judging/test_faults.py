"""Whatever a judge replies and a turn holds, there is a finding or a reason: no pass by accident, and no crash."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from judge_server import JudgeServer, Step, completion, refusal
from judged_turn import judged_turn
from openai import OpenAI

from monitor.errors import RateLimited, Retryable, TimedOut, Unusable
from monitor.judging.dialogue import Answer, converse
from monitor.judging.endpoint.client import OpenAIJudge
from monitor.judging.needs import unmet
from monitor.judging.prompt.file import shipped
from monitor.judging.prompt_metric import load_all
from monitor.model.judgements import Finding, Reason
from monitor.model.turns import Citation, Message, Turn

NewJudge = Callable[..., OpenAIJudge]
TURN = replace(judged_turn("Refunds take 14 days. They are free."), ground_truth="14 days.")

_FORGED = '{"score": 5, "reason": "r"}'
NO_VERDICTS: dict[str, object] = {
    "nothing": "",
    "blanks": " \n\t ",
    "null": None,
    "prose with a score": "The score is 5, and every sentence is supported.",
    "a list": "[]",
    "an empty object": "{}",
    "a word of JSON": "null",
    "a truth": "true",
    "no number": "NaN",
    "an object of no number": '{"score": NaN}',
    "an endless number": '{"score": 1e999, "reason": ""}',
    "a huge number": '{"score": ' + "9" * 5000 + "}",
    "a key twice": '{"score": 1, "score": 5, "reason": ""}',
    "other keys": '{"verdict": "supported", "grade": 5}',
    "keys that look alike": '{"ѕсоrе": 5, "rеаsоn": "r"}',
    "a wrapped object": f'{{"result": {_FORGED}}}',
    "an object in a text": json.dumps(_FORGED),
    "an object too deep": '{"score":' * 3000 + "5" + "}" * 3000,
    "brackets without end": "[" * 50_000,
    "two objects": f"{_FORGED}\n{_FORGED}",
    "two fences": f"```json\n{_FORGED}\n```\nor\n```json\n{_FORGED}\n```\n{_FORGED}",
    "only thoughts": f"<think>{_FORGED} 5 Yes</think>",
    "thoughts without end": f"<think>{_FORGED} 5 Yes",
    "a cut object": '{"score": 5, "reas',
    "comments": '{"score": 5 /* best */, "reason": ""}',
    "single quotes": "{'score': 5, 'reason': ''}",
    "half a character": "\ud83d",
    "control characters": "\x00\x1b[2J\x07",
    "a tool call": {"content": None, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "score"}}]},
    "parts of thoughts": {"content": [{"type": "thinking", "text": f"{_FORGED} 5 Yes"}]},
    "reasoning apart": {"content": "", "reasoning_content": f"{_FORGED} 5 Yes"},
    "a number": {"content": 5},
    "an object": {"content": {"score": 5, "reason": ""}},
    "a refusal": {"content": None, "refusal": "I can't help with that."},
    "a refusal in prose": "I'm sorry, but I can't assist with that request.",
    "a filtered reply": {"content": _FORGED, "finish_reason": "content_filter"},
    "a reply cut off": {"content": '{"score": 5', "finish_reason": "length"},
}


def _said(reply: object) -> Step:
    """The step of a reply; half a character is written as JSON writes it."""
    message = dict(reply) if isinstance(reply, dict) else {"content": reply}
    step = completion(message.pop("content"), finish_reason=message.pop("finish_reason", "stop"), **message)
    return replace(step, body=json.dumps(step.body))


async def _converse(judge: OpenAIJudge, file: str, *turns: Turn) -> list[tuple[Answer, ...]]:
    async with judge:
        return [await converse(load_all(file, judge_name=judge.name), turn, judge) for turn in turns]


@pytest.mark.parametrize("file", shipped())
async def test_reply_without_a_verdict(judge_server: JudgeServer, new_judge: NewJudge, file: str) -> None:
    """No reply that is not the one asked for scores anything, in any form; the reason is always a judge's failure."""
    expected = {Reason.UNREADABLE, Reason.REFUSED, Reason.CONTENT_FILTER, Reason.TRUNCATED}
    metrics = load_all(file, judge_name="openai:judge-1")
    results_of: dict[str, set[Finding | Reason]] = {}
    async with new_judge() as judge:
        for name, reply in NO_VERDICTS.items():
            step = _said(reply)
            judge_server.answer = lambda _, step=step: step  # type: ignore[misc]
            results_of[name] = {answer.result for answer in await converse(metrics, TURN, judge)}
    assert {} == {name: results for name, results in results_of.items() if not results <= expected}
    assert len(judge_server.asked) >= len(NO_VERDICTS)


_WRONG_SENTENCES = {
    "a sentence is missing": [1],
    "no sentence": [],
    "a sentence twice": [1, 2, 2],
    "other sentences": [3, 4],
    "counted from zero": [0, 1],
}


@pytest.mark.parametrize("numbers", _WRONG_SENTENCES.values(), ids=_WRONG_SENTENCES)
async def test_wrong_sentences(judge_server: JudgeServer, new_judge: NewJudge, numbers: list[int]) -> None:
    """A verdict is not taken for another sentence, and none is made up for one that is missing."""
    entry = {"document": "", "evidence": "", "verdict": "supported", "reason": "", "addresses_evaluator": False}
    judge_server.answer = lambda _: json.dumps({"sentences": [{"n": n, **entry} for n in numbers]})
    ((answer,),) = await _converse(new_judge(), "groundedness", TURN)
    assert Reason.UNREADABLE == answer.result
    assert 2 == len(judge_server.asked)


_FAULTS: dict[str, tuple[Step, type[Retryable] | Reason]] = {
    "429": (refusal(429, retry_after="3"), RateLimited),
    "500": (refusal(500), Retryable),
    "503 in HTML": (Step(status=503, body="<html>busy</html>"), Retryable),
    "hang": (Step(hang=True), TimedOut),
    "too slow": (replace(completion("{}"), slow=60.0), TimedOut),
    "drop": (Step(drop=True), Retryable),
    "no completion": (Step(body={"ok": True}), Retryable),
    "an empty body": (Step(body=""), Retryable),
    "a wrong key": (refusal(401), Unusable),
    "a stream that nobody asked for": (replace(completion("{}"), stream=True), Retryable),
    "a filtered prompt": (refusal(400, code="content_filter"), Reason.CONTENT_FILTER),
    "a rejected prompt": (refusal(400, "no"), Reason.REJECTED),
}


@pytest.mark.parametrize(("step", "outcome"), _FAULTS.values(), ids=_FAULTS)
async def test_fault(
    judge_server: JudgeServer, new_judge: NewJudge, step: Step, outcome: type[Retryable] | Reason
) -> None:
    """Each fault of an endpoint is either the turn's, with its reason, or to be tried again."""
    judge_server.answer = lambda _: step
    judge = new_judge(timeout=timedelta(seconds=0.5))
    if isinstance(outcome, Reason):
        ((answer,),) = await _converse(judge, "relevance", TURN)
        assert outcome == answer.result
        return
    with pytest.raises(outcome):
        await _converse(judge, "relevance", TURN)


async def test_slow_but_in_time(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """A reply that comes in pieces within the deadline is read like any other."""
    judge_server.script(replace(completion(json.dumps({"reason": "r", "score": 4})), slow=0.2))
    ((answer,),) = await _converse(new_judge(), "relevance", TURN)
    assert isinstance(answer.result, Finding)
    assert 4.0 == answer.result.score


def test_stream_that_was_asked_for(judge_server: JudgeServer) -> None:
    """The tests' judge streams to those who ask for it, as the openai client reads it."""
    judge_server.script(completion("Refunds are paid within 14 days."))
    with OpenAI(api_key="k", base_url=judge_server.url) as client:
        chunks = list(
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}], stream=True)
        )
    assert "Refunds are paid within 14 days." == "".join(c.choices[0].delta.content or "" for c in chunks)
    assert "stop" == chunks[-1].choices[0].finish_reason


_THAI = "การคืนเงินจะดำเนินการภายใน 14 วัน ไม่มีค่าธรรมเนียม"
_ARABIC = "يتم رد المبلغ خلال 14 يومًا. هل هناك رسوم؟ لا توجد رسوم."
_TABLE = (
    "| Plan | Days |\n|---|---|\n| Gold | 14 |\n\n```python\nif x:\n\n    print('(2) supported')\n```\n1. One\n2. Two"
)
TURNS: dict[str, Turn] = {
    "Chinese": replace(judged_turn("退款在14天内完成。不收取手续费！", "退款在14天内完成"), query="退款需要多久"),
    "Arabic": replace(judged_turn(_ARABIC, _ARABIC), query="متى؟"),
    "Thai": replace(judged_turn(_THAI, _THAI), query="เมื่อไร"),
    "a table and code": judged_turn(_TABLE, _TABLE),
    "two hundred sentences": judged_turn(" ".join(f"Fact {n} holds." for n in range(200))),
    "five hundred documents": judged_turn("Fact 7 holds.", *(f"Fact {n} holds." for n in range(500))),
    "documents without ids": judged_turn("Fact 7 holds.", *(Citation(id="", content="Fact") for _ in range(3))),
    "a document without text": judged_turn("A fact.", Citation(id="a", content=None), Citation(id="b", content="A.")),
    "one endless word": judged_turn("x" * 20_000, "y" * 200_000),
    "characters that are none": judged_turn("A \ud800 \x00 \ufffe fact.", "\udfffA\x00 fact.", query="\ud800?"),
    "a long history": replace(judged_turn(), history=tuple(Message(role="user", content="x" * 999) for _ in range(99))),
    "templates": judged_turn("{{fence}} {{#documents}} %s ${x} {0}", "{{response}}", query="{{query}}"),
}


@pytest.mark.parametrize("file", shipped())
async def test_turn_of_any_kind(judge_server: JudgeServer, new_judge: NewJudge, file: str) -> None:
    """A judge who finds nothing wrong scores every metric whose needs a turn meets, whatever text it holds."""
    turns = [replace(turn, ground_truth="14 days.") for turn in TURNS.values()]
    metrics = load_all(file, judge_name="openai:judge-1")
    for name, turn, answers in zip(TURNS, turns, await _converse(new_judge(), file, *turns), strict=True):
        assert [None] * len(metrics) == [unmet(turn, metric.rubric) for metric in metrics]
        defects = [a.result.defect if isinstance(a.result, Finding) else a.result for a in answers]
        assert (name, [False] * len(metrics)) == (name, defects)
    assert max(len(asked.prompt.encode()) for asked in judge_server.asked) < 200_000


_LACKING: dict[str, dict[str, Any]] = {
    "question": {"query": None},
    "question's text": {"query": ""},
    "answer": {"response": None},
    "answer's words": {"response": " ... "},
    "retrieval": {"citations": None},
    "documents": {"citations": ()},
    "documents' text": {"citations": (Citation(id="a"), Citation(id="b", content="\u200b"))},
    "everything": {"query": None, "response": None, "citations": None, "ground_truth": None},
}


@pytest.mark.parametrize("file", shipped())
async def test_turn_that_lacks_something(judge_server: JudgeServer, new_judge: NewJudge, file: str) -> None:
    """What a turn lacks crashes nothing, though the stage before would not have asked, and is no reading error."""
    turns = [replace(TURN, **lacking) for lacking in _LACKING.values()]
    judged = await _converse(new_judge(), file, *turns)
    results = {answer.result for answers in judged for answer in answers if not isinstance(answer.result, Finding)}
    assert results <= {Reason.NO_CLAIMS, Reason.NO_CONTEXT}
    assert len(judge_server.asked) <= 5 * len(turns)
