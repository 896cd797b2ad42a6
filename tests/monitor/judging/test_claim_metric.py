"""Claims held against passages, one at a time, over loopback."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from conversation import answers_of
from judge_server import JudgeServer, Step, completion, refusal
from judged_turn import judged_turn

from monitor.errors import Retryable
from monitor.judging.dialogue import Answer, converse
from monitor.judging.endpoint.client import OpenAIJudge
from monitor.judging.prompt.quoting import CONTEXT_TRUNCATED
from monitor.judging.prompt_metric import load
from monitor.model.judgements import Finding, Reason
from monitor.model.turns import Citation, Turn

NewJudge = Callable[..., OpenAIJudge]
EARTH = "The Earth is the third planet from the Sun and the only astronomical object known to harbor life."


async def _verify(judge: OpenAIJudge, turn: Turn) -> Answer:
    (answer,) = await answers_of(judge, "factcheck", turn)
    return answer


def _supported(*supported: str, p: float = 0.9) -> Callable[[dict[str, Any]], Step]:
    """A judge who says yes to claims and passages that hold all of these words."""

    def answer(body: dict[str, Any]) -> Step:
        (message,) = body["messages"]
        yes = p if all(words in message["content"] for words in supported) else 1 - p
        word = "Yes" if yes > 0.5 else "No"
        return completion(
            word, alternatives={word: max(yes, 1 - yes), "Yes" if word == "No" else "No": 1 - max(yes, 1 - yes)}
        )

    return answer


@pytest.mark.parametrize(("place", "score", "defect"), [("third", 0.9, False), ("fourth", 0.1, True)])
async def test_published_example(
    judge_server: JudgeServer, new_judge: NewJudge, place: str, score: float, *, defect: bool
) -> None:
    """The third planet passes and the fourth fails, in the published form and with two tokens of reply."""
    judge_server.answer = _supported("Claim: The Earth is the third")
    turn = judged_turn(f"The Earth is the {place} planet from the Sun.", EARTH)
    answer = await _verify(new_judge(), turn)
    assert isinstance(answer.result, Finding)
    assert (pytest.approx(score), defect) == (answer.result.score, answer.result.defect)
    (call,) = judge_server.asked
    expected = f"Document: {EARTH}\nClaim: The Earth is the {place} planet from the Sun."
    assert [{"role": "user", "content": expected}] == call.body["messages"]
    assert (2, 0, True, 20) == tuple(
        call.body[key] for key in ("max_tokens", "temperature", "logprobs", "top_logprobs")
    )
    assert "response_format" not in call.body


async def test_any_judge(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """A model that was not made for the published form is told what to do, with claim and passage between marks."""
    judge_server.answer = lambda body: "Yes" if "third" in body["messages"][1]["content"].split("CLAIM")[1] else "No"

    async def conversation(place: str) -> Answer:
        async with new_judge() as judge:
            turn = judged_turn(f"The Earth is the {place} planet from the Sun.", EARTH, query="Which planet is it?")
            (answer,) = await converse([load("claim_check", judge_name=judge.name)], turn, judge)
            return answer

    findings = [(await conversation(place)).result for place in ("third", "fourth")]
    assert [(1.0, False), (0.0, True)] == [(f.score, f.defect) for f in findings if isinstance(f, Finding)]
    system, user = (message["content"] for message in judge_server.asked[0].body["messages"])
    assert "Reply with the one word Yes or No." in system
    (mark,) = set(re.findall(r"\b[0-9a-f]{12}\b", user))
    assert f"DOCUMENT\n{mark}\n{EARTH}\n{mark}\n\nQUESTION\n{mark}\nWhich planet is it?\n{mark}\n" in user


async def test_best_passage_and_worst_sentence(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """A sentence counts as its best passage, an answer as its worst sentence; courtesies are not asked about."""
    probabilities = {("a", "Refunds"): 0.2, ("b", "Refunds"): 0.8, ("a", "Shipping"): 0.6, ("b", "Shipping"): 0.3}

    def answer(body: dict[str, Any]) -> Step:
        text = body["messages"][0]["content"]
        passage = "a" if "Passage a" in text else "b"
        claim = "Refunds" if "Claim: Refunds" in text else "Shipping"
        yes = probabilities[passage, claim]
        return completion("Yes", alternatives={"Yes": yes, " no": 1 - yes})

    judge_server.answer = answer
    turn = judged_turn(
        "Refunds take 14 days. Shipping is free. You're welcome!",
        Citation(id="a", content="Passage a about refunds and shipping."),
        Citation(id="b", content="Passage b about refunds and shipping."),
    )
    answer_ = await _verify(new_judge(), turn)
    assert isinstance(answer_.result, Finding)
    assert pytest.approx(0.6) == answer_.result.score
    assert [(1, "supported", "b", "P(yes) 0.80"), (2, "supported", "a", "P(yes) 0.60")] == [
        (d.index, d.verdict, d.citation, d.reason) for d in answer_.result.details
    ]
    assert 4 == len(judge_server.asked) == answer_.exchange.calls
    assert 400 == answer_.exchange.input_tokens


@pytest.mark.parametrize(
    ("alternatives", "score"),
    [
        ({"Yes": 0.6, "yes": 0.2, " YES": 0.1, "No": 0.1}, 0.9),
        ({"Yes": 0.5, "No": 0.1, "Maybe": 0.4}, 0.5 / 0.6),
        ({"▁no": 0.75, "▁yes": 0.25}, 0.25),
    ],
)
async def test_spellings(
    judge_server: JudgeServer, new_judge: NewJudge, alternatives: Mapping[str, float], score: float
) -> None:
    """All spellings of yes and of no count together, and what is neither is left out."""
    judge_server.script(completion("Yes", alternatives=alternatives))
    answer = await _verify(new_judge(), judged_turn())
    assert isinstance(answer.result, Finding)
    assert pytest.approx(score) == answer.result.score


@pytest.mark.parametrize(
    "step",
    [
        completion("The", alternatives={"The": 0.6, "Yes": 0.3, "No": 0.1}),
        completion("It depends."),
        completion(""),
    ],
)
async def test_neither_yes_nor_no(judge_server: JudgeServer, new_judge: NewJudge, step: Step) -> None:
    """Where yes and no together are unlikely, or the word is another, there is no score."""
    judge_server.script(step)
    assert Reason.UNREADABLE == (await _verify(new_judge(), judged_turn())).result


async def test_without_alternatives(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """An endpoint that gives fewer alternatives, or none, is asked for what it gives, and its word counts."""
    judge_server.script(
        refusal(400, "Invalid value: top_logprobs must be at most 5", param="top_logprobs"),
        refusal(400, "logprobs are not supported with this model"),
        completion("No"),
    )
    answer = await _verify(new_judge(), judged_turn())
    assert isinstance(answer.result, Finding)
    assert (0.0, True) == (answer.result.score, answer.result.defect)
    assert [20, 5, None] == [call.body.get("top_logprobs") for call in judge_server.asked]


async def test_nothing_to_ask(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """An answer without a claim costs no call."""
    assert Reason.NO_CLAIMS == (await _verify(new_judge(), judged_turn("I don't know that. Anything else?"))).result
    assert [] == judge_server.asked


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (refusal(400, code="content_filter"), Reason.CONTENT_FILTER),
        (completion("", finish_reason="content_filter"), Reason.CONTENT_FILTER),
        (completion(None, refusal="No."), Reason.REFUSED),
        (refusal(400, "no"), Reason.REJECTED),
    ],
)
async def test_one_question_fails(judge_server: JudgeServer, new_judge: NewJudge, step: Step, reason: Reason) -> None:
    """An answer of which one sentence cannot be judged is not judged by the others."""
    judge_server.script(step)
    answer = await _verify(new_judge(), judged_turn("Refunds take 14 days. Shipping is free."))
    assert reason == answer.result
    assert 2 == len(judge_server.asked)


async def test_broken_endpoint(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """A question that could not be asked now is the whole turn's."""
    judge_server.script(refusal(500))
    with pytest.raises(Retryable):
        await _verify(new_judge(), judged_turn("Refunds take 14 days. Shipping is free."))


def test_long_answer_and_documents() -> None:
    """At most twenty sentences are asked about, each against its two nearest passages, whatever the length of both."""
    filler = " ".join(f"Filler says that thing {n} is here." for n in range(400))
    metric = load("factcheck", judge_name="a")
    turn = judged_turn(
        " ".join(f"Fact {n} holds in town {n}." for n in range(60)), f"{filler} Town 3 is here. {filler}"
    )
    questions = metric.questions(turn)  # type: ignore[union-attr]
    assert 40 == len(questions)
    assert all(len(question.messages[0].content) < 4 * 400 + 400 for question in questions)
    assert "Town 3 is here." in questions[2 * 3].messages[0].content
    # What is not shown is not silently left out.
    finding = metric.conclude(questions, [0.9] * len(questions))  # type: ignore[union-attr]
    assert isinstance(finding, Finding)
    assert {CONTEXT_TRUNCATED} == finding.flags
    (whole,) = metric.questions(judged_turn())  # type: ignore[union-attr]
    assert not whole.partial
