"""The openai client against a server on loopback."""

import asyncio
import re
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from judge_server import JudgeServer, Step, completion, refusal

from monitor.errors import MonitorError, RateLimited, Rejected, Retryable, TimedOut, Unusable
from monitor.judging.endpoint.capabilities import REASONING_HEADROOM
from monitor.judging.endpoint.client import OpenAIJudge
from monitor.judging.endpoint.prices import Price
from monitor.model.judgements import ChatMessage, ChatRequest, Reply

_MESSAGES = (
    ChatMessage(role="system", content="Judge."),
    ChatMessage(role="user", content="PRIVATE (1) text"),
)
_SCHEMA = {
    "name": "x",
    "strict": True,
    "schema": {"type": "object", "additionalProperties": False, "required": [], "properties": {}},
}
_REQUEST = ChatRequest(messages=_MESSAGES, schema=_SCHEMA, max_output_tokens=100)

NewJudge = Callable[..., OpenAIJudge]


async def _ask(judge: OpenAIJudge, *, times: int = 1) -> list[Reply]:
    async with judge:
        return [await judge.ask(_REQUEST) for _ in range(times)]


async def _failure(judge: OpenAIJudge) -> MonitorError:
    with pytest.raises(MonitorError) as caught:
        await _ask(judge)
    return caught.value


async def test_reply(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """A reply carries text, model, tokens, cost by the configured prices, fingerprint and latency."""
    judge_server.script(completion("{}"))
    (reply,) = await _ask(new_judge())
    assert ("{}", "judge-1", "stop", 100, 10, "fp_1") == (
        reply.text,
        reply.model,
        reply.finish_reason,
        reply.input_tokens,
        reply.output_tokens,
        reply.fingerprint,
    )
    assert pytest.approx(140e-6) == reply.cost_usd
    assert timedelta(0) < reply.latency < timedelta(seconds=10)


async def test_request(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """A request is deterministic, bounded and bound to the schema."""
    await _ask(new_judge())
    (asked,) = judge_server.asked
    assert "Bearer secret-key" == asked.headers["authorization"]
    assert {
        "model": "judge-1",
        "messages": [{"role": "system", "content": "Judge."}, {"role": "user", "content": "PRIVATE (1) text"}],
        "response_format": {"type": "json_schema", "json_schema": _SCHEMA},
        "max_tokens": 100,
        "temperature": 0,
        "seed": 7,
    } == asked.body


async def test_azure(judge_server: JudgeServer) -> None:
    """Azure is asked by deployment and version, with its own header for the key; the reply's model is the real one."""
    judge = OpenAIJudge(
        model="our-deployment",
        api_key=lambda: "secret-key",
        base_url=judge_server.url.removesuffix("/v1"),
        timeout=timedelta(seconds=10),
        api_version="2024-10-21",
        prices={"judge-1": Price(1.0, 4.0)},
    )
    (reply,) = await _ask(judge)
    (asked,) = judge_server.asked
    assert "/openai/deployments/our-deployment/chat/completions?api-version=2024-10-21" == asked.path
    assert ("secret-key", None) == (asked.headers["api-key"], asked.headers.get("authorization"))
    assert ("judge-1", pytest.approx(140e-6)) == (reply.model, reply.cost_usd)


def test_name(new_judge: NewJudge) -> None:
    """The name is the kind of endpoint and the model, without the address."""
    assert "openai:judge-1" == new_judge().name


async def test_refused_parameters(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """Parameters that an endpoint refuses are left out one by one, and not sent again in the next request."""
    judge_server.script(
        refusal(400, "Unsupported parameter: 'max_tokens'", code="unsupported_parameter", param="max_tokens"),
        refusal(400, "Unsupported value: 'temperature' does not support 0 with this model.", param="temperature"),
        refusal(400, "Unknown parameter: 'seed'."),
        refusal(400, "'response_format' of type 'json_schema' is not supported", param="response_format"),
        refusal(422, "response_format must be text"),
    )
    await _ask(new_judge(), times=2)
    assert 7 == len(judge_server.asked)
    for asked in judge_server.asked[5:]:
        assert {"model", "messages", "max_completion_tokens"} == asked.body.keys()
        assert 100 + REASONING_HEADROOM == asked.body["max_completion_tokens"]
        assert "fits this JSON schema" in asked.body["messages"][0]["content"]


async def test_refusals_side_by_side(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """Calls that are refused at the same time learn the same thing once, and all of them succeed."""
    together = threading.Barrier(3)

    def modern(body: dict[str, object]) -> str | Step:
        if "max_tokens" not in body:
            return "{}"
        together.wait(10)
        return refusal(400, "Unsupported parameter: 'max_tokens'", param="max_tokens")

    judge_server.answer = modern
    async with new_judge() as judge:
        await asyncio.gather(*(judge.ask(_REQUEST) for _ in range(3)))
    assert 6 == len(judge_server.asked)
    assert all("max_completion_tokens" in asked.body for asked in judge_server.asked[3:])


async def test_reasoning_only(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """After a reply of nothing but reasoning the endpoint is asked not to reason, as long as it takes that."""
    judge_server.script(
        completion("", reasoning="hmm"), completion("{}"), refusal(400, "Unknown parameter: 'reasoning_effort'")
    )
    replies = await _ask(new_judge(), times=3)
    assert [True, False, False] == [reply.reasoned for reply in replies]
    assert [None, "none", "none", None] == [asked.body.get("reasoning_effort") for asked in judge_server.asked]


async def test_without_a_schema(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """A metric without a schema is asked without a response format."""
    async with new_judge() as judge:
        await judge.ask(ChatRequest(messages=_MESSAGES, max_output_tokens=5))
    assert "response_format" not in judge_server.asked[0].body


@pytest.mark.parametrize(
    ("step", "kind", "reason"),
    [
        (refusal(500), Retryable, None),
        (refusal(503), Retryable, None),
        (refusal(408), Retryable, None),
        (Step(drop=True), Retryable, None),
        (Step(body="<html>busy</html>", headers={"content-type": "text/html"}), Retryable, None),
        (Step(body={"choices": []}), Retryable, None),
        (refusal(429), RateLimited, None),
        (refusal(401, "Incorrect API key: secret-key"), Unusable, None),
        (refusal(402, "Insufficient balance"), Unusable, None),
        (refusal(403), Unusable, None),
        (refusal(404, code="model_not_found"), Unusable, None),
        (Step(status=404, body="<html>no such page</html>"), Unusable, None),
        (refusal(429, "You exceeded your current quota", code="insufficient_quota"), Unusable, None),
        (refusal(400, "API key not valid. Please pass a valid API key."), Unusable, None),
        (refusal(400, "the prompt is about how to get a valid " * 9 + "invalid api key"), Rejected, "rejected"),
        (refusal(400, "PRIVATE is invalid"), Rejected, "rejected"),
        (refusal(400, code="content_filter", param="prompt"), Rejected, "content_filter"),
        (
            Step(status=400, body={"error": {"code": None, "innererror": {"code": "ResponsibleAIPolicyViolation"}}}),
            Rejected,
            "content_filter",
        ),
        (
            Step(status=403, body={"error": {"code": 403, "metadata": {"flagged_input": "PRIVATE"}}}),
            Rejected,
            "content_filter",
        ),
        (refusal(400, code="context_length_exceeded", param="messages"), Rejected, "context_length"),
        (refusal(400, "This model's maximum context length is 4096 tokens."), Rejected, "context_length"),
        (refusal(413), Rejected, "context_length"),
    ],
)
async def test_error(
    judge_server: JudgeServer, new_judge: NewJudge, step: Step, kind: type[MonitorError], reason: str | None
) -> None:
    """Each failure is of its branch, was asked once, and quotes neither the prompt nor the key nor the endpoint."""
    judge_server.script(step)
    error = await _failure(new_judge())
    assert kind is type(error)
    assert reason == getattr(error, "reason", None)
    assert 1 == len(judge_server.asked)
    assert not re.search("PRIVATE|secret-key|busy", str(error))
    assert error.__cause__ is None


async def test_no_server(new_judge: NewJudge, judge_server: JudgeServer) -> None:
    """A refused connection may work later, and is no time-out."""
    judge = new_judge()
    judge_server.close()
    assert Retryable is type(await _failure(judge))


async def test_hanging_server(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """A server that never answers ends at the deadline."""
    judge_server.script(Step(hang=True))
    started = time.monotonic()
    assert TimedOut is type(await _failure(new_judge(timeout=timedelta(seconds=0.3))))
    assert 0.3 <= time.monotonic() - started


@pytest.mark.parametrize(
    ("value", "pause"),
    [
        ("7", timedelta(seconds=7)),
        ("0.5", timedelta(seconds=0.5)),
        ("999999", timedelta(minutes=10)),
        ("1e400", timedelta(minutes=10)),
        ("-3", timedelta(0)),
        ("Wed, 21 Oct 2015 07:28:00 GMT", timedelta(0)),
        ("Wed, 21 Oct 2099 07:28:00 GMT", timedelta(minutes=10)),
        ("soon", None),
        ("nan", None),
    ],
)
async def test_retry_after(judge_server: JudgeServer, new_judge: NewJudge, value: str, pause: timedelta | None) -> None:
    """Retry-After is honoured in seconds or as a date, up to ten minutes, and ignored when it is nonsense."""
    judge_server.script(refusal(429, retry_after=value))
    error = await _failure(new_judge())
    assert isinstance(error, RateLimited)
    assert pause == error.retry_after


async def test_retry_after_in_milliseconds(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """Azure's finer header wins."""
    judge_server.script(refusal(429, retry_after_ms="250", retry_after="1"))
    error = await _failure(new_judge())
    assert isinstance(error, RateLimited)
    assert timedelta(milliseconds=250) == error.retry_after


async def test_severities_of_a_filtered_prompt(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """What Azure's filter found in a refused prompt comes with the refusal, on the scale of the safety metrics."""
    results = {"violence": {"filtered": True, "severity": "high"}, "self_harm": {"filtered": False, "severity": "safe"}}
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": results}
    judge_server.script(Step(status=400, body={"error": {"code": "content_filter", "innererror": inner}}))
    error = await _failure(new_judge())
    assert isinstance(error, Rejected)
    assert {"violence": 6, "self_harm": 0} == error.severities


async def test_severities_of_a_filtered_reply(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """What it found in the judge's own reply comes with that."""
    step = completion("", finish_reason="content_filter")
    step.body["choices"][0]["content_filter_results"] = {"hate": {"filtered": True, "severity": "medium"}}  # type: ignore[index]
    judge_server.script(step)
    (reply,) = await _ask(new_judge())
    assert ("content_filter", {"hate_unfairness": 4}) == (reply.finish_reason, reply.severities)


async def test_cached_tokens(judge_server: JudgeServer) -> None:
    """Tokens that the endpoint had cached are counted as input and charged at their own price."""
    step = completion("{}")
    step.body["usage"]["prompt_tokens_details"] = {"cached_tokens": 60}  # type: ignore[index]
    judge_server.script(step, completion("{}"))
    prices = {"judge-1": Price(1.0, 4.0, cached=0.5)}
    judge = OpenAIJudge(
        model="alias", api_key=lambda: "k", base_url=judge_server.url, timeout=timedelta(seconds=10), prices=prices
    )
    first, second = await _ask(judge, times=2)
    assert (100, pytest.approx(110e-6), pytest.approx(140e-6)) == (first.input_tokens, first.cost_usd, second.cost_usd)


async def test_a_header_that_says_who_asks(judge_server: JudgeServer, new_judge: NewJudge) -> None:
    """A gateway that is watched can tell our calls from those of the apps."""
    judge_server.script(completion("{}"))
    await _ask(new_judge())
    (asked,) = judge_server.asked
    assert "judge" == {name.lower(): value for name, value in asked.headers.items()}["x-rag-monitor"]
