"""What endpoints say when they refuse, each in its own form."""

from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from types import MappingProxyType

import httpx2
import openai
import pytest

from monitor.errors import MonitorError, RateLimited, Rejected, Retryable, Unusable
from monitor.judging.endpoint.refusal import read, translated

_NOW = datetime(2026, 3, 4, tzinfo=UTC)
_TOO_LONG: Mapping[str, tuple[int, object]] = MappingProxyType(
    {
        "OpenAI": (400, {"error": {"code": "context_length_exceeded", "message": "x", "param": "messages"}}),
        "vLLM": (
            400,
            {"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400},
        ),
        "llama.cpp": (
            400,
            {
                "error": {
                    "code": 400,
                    "message": "the request exceeds the available context size, try increasing it",
                    "type": "exceed_context_size_error",
                    "n_prompt_tokens": 9000,
                    "n_ctx": 4096,
                }
            },
        ),
        "older llama.cpp": (500, {"error": {"code": 500, "message": "Context size has been exceeded."}}),
        "Bedrock": (400, {"message": "ValidationException: Input is too long for requested model."}),
        "Gemini": (
            400,
            [
                {
                    "error": {
                        "code": 400,
                        "message": "The input token count (1200000) exceeds the maximum number of tokens allowed.",
                        "status": "INVALID_ARGUMENT",
                    }
                }
            ],
        ),
        "Anthropic": (400, {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
        "xAI": (400, {"error": "This model's maximum prompt length is 131072 but the request contains more."}),
        "Groq": (413, {"error": {"message": "Please reduce the length of the messages or completion."}}),
        "Mistral": (
            400,
            {"message": "Prompt contains 40000 tokens, too large for model with 32768"},
        ),
        "a server's text": (400, "the context window is full"),
    }
)


def _error(status: int, body: object) -> openai.APIStatusError:
    request = httpx2.Request("POST", "http://127.0.0.1/v1/chat/completions")
    response = httpx2.Response(status, request=request, json=body)
    client = openai.OpenAI(api_key="k")
    with client:
        return client._make_status_error_from_response(response)  # noqa: SLF001 -- as the client makes it of a body


def _meaning(status: int, body: object) -> MonitorError:
    return translated(_error(status, body), "asking", _NOW)


@pytest.mark.parametrize(("status", "body"), _TOO_LONG.values(), ids=_TOO_LONG)
def test_too_long(status: int, body: object) -> None:
    """A prompt that is too long is told from other refusals in each provider's words."""
    error = _meaning(status, body)
    assert isinstance(error, Rejected)
    assert "context_length" == error.reason


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, [{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}], Unusable),
        (400, {"detail": "Invalid API key"}, Unusable),
        (429, [{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}], RateLimited),
        (400, {"error": {"message": "no", "code": ["a", {}], "param": 7, "innererror": []}}, Rejected),
        (400, [], Rejected),
        (400, None, Rejected),
        (500, [[[1]]], Retryable),
        (500, {"error": {"message": "out of memory"}}, Retryable),
    ],
)
def test_form(status: int, body: object, kind: type[MonitorError]) -> None:
    """A body of any form is read, and none is a fault of ours."""
    assert kind is type(_meaning(status, body))


def test_fastapi() -> None:
    """A parameter that a FastAPI server does not know is named in its place."""
    body = {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}
    assert "body.seed: Extra inputs are not permitted" == read(_error(HTTPStatus.UNPROCESSABLE_ENTITY, body)).message
