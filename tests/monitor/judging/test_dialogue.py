"""One job's conversation with a judge, over loopback."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from conversation import answers_of
from judge_server import JudgeServer, Step, completion, kind, refusal
from judged_turn import judged_turn

from monitor.judging.coded.lex5 import GroundednessProxy
from monitor.judging.dialogue import MOST_CALLS, Answer, converse
from monitor.judging.endpoint.client import OpenAIJudge
from monitor.judging.prompt.quoting import CONTEXT_TRUNCATED, tokens
from monitor.judging.prompt_metric import load
from monitor.model.judgements import Finding, Reason
from monitor.model.turns import Turn

NewJudge = Callable[..., OpenAIJudge]
_GOOD = json.dumps({"reason": "r", "score": 4})


async def _converse(judge: OpenAIJudge, turn: Turn | None = None, *, metric: str = "relevance") -> Answer:
    (answer,) = await answers_of(judge, metric, turn or judged_turn())
    return answer


def _score(answer: Answer) -> float | None:
    assert isinstance(answer.result, Finding)
    return answer.result.score


async def test_first_try(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """A readable reply ends it, and the exchange keeps what was asked, what came back and what it cost."""
    judge_server.script(completion(_GOOD))
    answer = await _converse(new_judge())
    assert 4.0 == _score(answer)
    exchange = answer.exchange
    assert (1, 100, 10, _GOOD, "judge-1", "fp_1") == (
        exchange.calls,
        exchange.input_tokens,
        exchange.output_tokens,
        exchange.reply,
        exchange.judge_model,
        exchange.fingerprint,
    )
    assert exchange.prompt.startswith("[system]\nYou grade how well")
    assert "Refunds are paid within 14 days." in exchange.prompt
    assert 1 == len(judge_server.asked)


async def test_repair(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """An unreadable reply is asked for again, saying what was wrong and repeating nothing of it; both calls count."""
    judge_server.script(completion("I would say 4."), completion(_GOOD))
    answer = await _converse(new_judge())
    assert 4.0 == _score(answer)
    assert (2, 200) == (answer.exchange.calls, answer.exchange.input_tokens)
    first, second = judge_server.asked
    assert [m["role"] for m in first.body["messages"]] == [m["role"] for m in second.body["messages"]]
    note = second.body["messages"][1]["content"].removeprefix(first.body["messages"][1]["content"])
    assert "the reply holds no JSON object. Return only the JSON object" in note
    assert "I would say 4." not in note


async def test_repair_of_missing_sentences(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """A reply that leaves sentences out is asked for again by their numbers."""
    judge_server.script(completion('{"sentences": []}'))
    answer = await _converse(new_judge(), judged_turn("One. Two."), metric="groundedness")
    assert 5.0 == _score(answer)
    assert "sentences without a verdict: 1, 2" in judge_server.asked[1].prompt


async def test_unreadable_twice(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """A second unreadable reply ends it without a score; the reply is kept, and the reason quotes nothing of it."""
    judge_server.script(completion("PRIVATE 4"), completion("PRIVATE 5"))
    answer = await _converse(new_judge())
    assert Reason.UNREADABLE == answer.result
    assert "PRIVATE 5" == answer.exchange.reply
    assert "no_json: the reply holds no JSON object" == answer.detail
    assert 2 == len(judge_server.asked)


async def test_cut_off(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """A cut-off reply is asked for again with three times the room, and never read."""
    judge_server.script(completion('{"score": 1', finish_reason="length"), completion(_GOOD))
    assert 4.0 == _score(await _converse(new_judge()))
    first, second = (asked.body["max_tokens"] for asked in judge_server.asked)
    assert 3 * first == second


async def test_cut_off_twice(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """A reply that is cut off again ends it."""
    judge_server.script(*[completion(_GOOD, finish_reason="length")] * 2)
    assert Reason.TRUNCATED == (await _converse(new_judge())).result
    assert 2 == len(judge_server.asked)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (completion(None, refusal="I can't help with that."), Reason.REFUSED),
        (completion("I'm sorry, but I can't assist with that."), Reason.REFUSED),
        (completion("", finish_reason="content_filter"), Reason.CONTENT_FILTER),
        (refusal(400, code="content_filter"), Reason.CONTENT_FILTER),
        (refusal(400, "PRIVATE"), Reason.REJECTED),
    ],
)
async def test_no_second_try(judge_server: JudgeServer, new_judge: NewJudge, step: object, reason: Reason) -> None:
    """Refusals, filters and rejections are outcomes after one call."""
    judge_server.script(step)  # type: ignore[arg-type]
    assert reason == (await _converse(new_judge())).result
    assert 1 == len(judge_server.asked)


def _traits(**changes: object) -> str:
    grade = {"reason": "r", "score": 4}
    refusal = {"reason": "r", "label": "none"}
    whole = {"relevance": grade, "coherence": grade, "fluency": grade, "refusal": refusal, "addresses_evaluator": False}
    return json.dumps(whole | changes)


async def test_several_metrics(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """Metrics of one file are read out of one reply, each with its own finding, and share what it cost."""
    judge_server.script(completion(_traits(fluency={"reason": "odd", "score": 2})))
    answers = await answers_of(new_judge(), "answer", judged_turn())
    findings = [answer.result for answer in answers if isinstance(answer.result, Finding)]
    assert [(4.0, False), (4.0, False), (2.0, True), (None, False)] == [(f.score, f.defect) for f in findings]
    assert "none" == findings[3].label
    assert 1 == len(judge_server.asked)
    exchanges = [answer.exchange for answer in answers]
    assert [1, 0, 0, 0] == [exchange.calls for exchange in exchanges]
    assert (100, 10) == (sum(e.input_tokens for e in exchanges), sum(e.output_tokens for e in exchanges))
    assert pytest.approx(140e-6) == sum(exchange.cost_usd for exchange in exchanges)
    assert 1 == len({exchange.reply for exchange in exchanges})


async def test_one_metric_of_several_is_unreadable(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """A finding that was read stays: a repair that says otherwise only fills in what was missing."""
    contradictory = {
        "reason": "r",
        "contradiction": True,
        "similarity": {"score": 2},
        "relevance": {"score": 5},
        "addresses_evaluator": False,
    }
    repaired = contradictory | {"similarity": {"score": 4}, "relevance": {"score": 1}}
    judge_server.script(completion(json.dumps(contradictory)), completion(json.dumps(repaired)))
    turn = replace(judged_turn(), ground_truth="Within 30 days.")
    similarity, relevance = await answers_of(new_judge(), "reference", turn)
    assert (2.0, 1.0) == (_score(similarity), _score(relevance))
    assert "relevance_to_reference: at most 2 when contradiction is true, found 5" in judge_server.asked[1].prompt


async def test_several_metrics_fail_together(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """A refused or filtered call leaves each of its metrics with the reason."""
    judge_server.script(refusal(400, code="content_filter"))
    filtered = await answers_of(new_judge(), "answer", judged_turn())
    assert [Reason.CONTENT_FILTER] * 4 == [answer.result for answer in filtered]
    judge_server.script(completion(None, refusal="No."))
    refused = await answers_of(new_judge(), "answer", judged_turn())
    assert [Reason.REFUSED] * 4 == [answer.result for answer in refused]


async def test_prompt_too_long(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """A prompt too long for the model is asked once more with half of the documents' text; the answer stays whole."""
    judge_server.script(refusal(400, "maximum context length", code="context_length_exceeded"))
    documents = [f"Head {number}. " + f"Fact {number}. " * 200 for number in range(10)]
    turn = judged_turn("The whole answer. " * 20, *documents)
    answer = await _converse(new_judge(), turn, metric="groundedness")
    assert isinstance(answer.result, Finding)
    assert {CONTEXT_TRUNCATED} == answer.result.flags
    first, second = (asked.prompt for asked in judge_server.asked)
    assert len(second) < 0.7 * len(first)
    assert all(f'id="kb-{number + 1}"> \nHead {number}. ' in second for number in range(10))
    assert second.count("The whole answer.") == first.count("The whole answer.") == 20


_LONG = judged_turn("The whole answer.", *(f"Fact {number} is true. " * 100 for number in range(10)))


def _counting(*counts: int) -> Callable[[dict[str, Any]], Step]:
    """A kind judge whose endpoint counts so many tokens of its prompts, one after the other."""
    left = list(counts)

    def answer(body: dict[str, Any]) -> Step:
        step = completion(kind(body))
        assert isinstance(step.body, dict)
        return replace(step, body={**step.body, "usage": {"prompt_tokens": left.pop(0), "completion_tokens": 10}})

    return answer


async def test_prompt_cut_silently(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """A reply to a part of the prompt, by the tokens that were read of it, is no verdict; it counts as a call."""
    judge_server.answer = _counting(2048, 4000)
    answer = await _converse(new_judge(), _LONG, metric="groundedness")
    assert (5.0, 2) == (_score(answer), answer.exchange.calls)
    first, second = (asked.prompt for asked in judge_server.asked)
    assert len(second) < 0.7 * len(first)


async def test_prompt_cut_silently_twice(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """Where even half of the documents is cut the turn is rejected, with the reason."""
    judge_server.answer = _counting(512, 512)
    answer = await _converse(new_judge(), _LONG, metric="groundedness")
    assert (Reason.REJECTED, "openai:judge-1 cut the prompt without saying so") == (answer.result, answer.detail)
    assert 2 == answer.exchange.calls


async def test_limit_of_a_prompt(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """Documents are cut to what the settings say that the model takes, before it is asked."""
    answer = await _converse(new_judge(max_prompt_tokens=3000), _LONG, metric="groundedness")
    assert isinstance(answer.result, Finding)
    assert {CONTEXT_TRUNCATED} == answer.result.flags
    (asked,) = judge_server.asked
    assert 0.8 * 3000 < tokens(asked.prompt) <= 3000
    assert "The whole answer." in asked.prompt


async def test_format_that_is_ignored(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """R01: an endpoint that takes no notice of the schema gets it in words with the second call, and then at once."""

    def deaf(body: dict[str, Any]) -> str:
        named = all(f'"{key}"' in body["messages"][0]["content"] for key in ("reason", "score"))
        return '{"reason":"On topic.","score":5}' if named else "Score: 5 \nReason: the answer is on topic."

    judge_server.answer = deaf
    async with new_judge() as judge:
        first, second = [
            (await converse([load("relevance", judge_name=judge.name)], judged_turn(), judge))[0] for _ in "12"
        ]
    assert (5.0, 5.0) == (_score(first), _score(second))
    assert (2, 1) == (first.exchange.calls, second.exchange.calls)
    assert all("response_format" in asked.body for asked in judge_server.asked)


@pytest.mark.parametrize(
    "reply",
    [
        completion('{"reason":"On topic.","score":"5"}'),
        completion(None, tool_calls=[{"function": {"name": "x", "arguments": '{"reason":"On topic.","score":5}'}}]),
        completion("", tool_calls=[{"function": {"name": "x", "arguments": {"reason": "On topic.", "score": 5}}}]),
        completion(None, function_call={"name": "x", "arguments": '{"reason":"On topic.","score":5}'}),
    ],
)
async def test_reply_of_another_form(judge_server: JudgeServer, new_judge: NewJudge, reply: Step) -> None:
    """R01: a number as a text, and the arguments of a tool that the model calls, are read at the first try."""
    judge_server.script(reply)
    answer = await _converse(new_judge())
    assert (5.0, 1) == (_score(answer), answer.exchange.calls)


async def test_two_tool_calls(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """Of two answers none is chosen."""
    calls = [{"function": {"name": "x", "arguments": f'{{"reason":"r","score":{score}}}'}} for score in (1, 5)]
    judge_server.answer = lambda _: completion(None, tool_calls=calls)
    assert Reason.UNREADABLE == (await _converse(new_judge())).result


async def test_prompt_too_long_without_documents(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """When there is nothing to cut, or cutting does not help, the turn is rejected."""
    judge_server.script(*[refusal(413)] * 2)
    answer = await _converse(new_judge(), judged_turn("Yes it is.", "word " * 500), metric="groundedness")
    assert Reason.REJECTED == answer.result
    assert 2 == len(judge_server.asked)


async def test_worst_case(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """Whatever an endpoint does, a job ends within the promised number of calls."""
    judge_server.script(
        refusal(413), completion("prose"), completion("", finish_reason="length"), completion("more prose")
    )
    answer = await _converse(new_judge(), judged_turn("Yes it is.", "word " * 500), metric="groundedness")
    assert Reason.UNREADABLE == answer.result
    assert MOST_CALLS == len(judge_server.asked)


async def test_nothing_to_ask(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """A metric computed in code, and an answer without sentences, cost no call."""
    assert Reason.NO_CLAIMS == (await _converse(new_judge(), judged_turn("..."), metric="groundedness")).result
    (proxied,) = await converse([GroundednessProxy()], judged_turn(), new_judge())
    assert isinstance(proxied.result, Finding)
    assert [] == judge_server.asked
