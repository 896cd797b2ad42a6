"""LiteLLM's callback, one span at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.dialects.litellm import DIALECT
from monitor.model.spans import Attributes, AttributeValue, Role

if TYPE_CHECKING:
    from tests.monitor.conftest import Make, Turns

CALL: dict[str, AttributeValue] = {
    "gen_ai.operation.name": "chat",
    "llm.request.type": "completion",
    "litellm.call_id": "1",
    "gen_ai.request.model": "m",
    "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "Why?"}]}]',
    "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "So."}]}]',
}


@pytest.mark.parametrize(
    ("name", "scope", "attributes", "role"),
    [
        ("litellm_request", "litellm", CALL, Role.LLM),
        ("answer", "litellm", CALL, Role.LLM),
        ("POST /chat", "shop", CALL, Role.LLM),
        ("Received Proxy Server Request", "litellm", {**CALL, "http.route": "/v1/chat/completions"}, Role.LLM),
        ("litellm_request", "litellm", {"llm.request.type": "aembedding", "litellm.call_id": "1"}, Role.EMBEDDING),
        ("Received Proxy Server Request", "litellm", {"http.route": "/v1/models"}, Role.TRANSPORT),
        ("raw_gen_ai_request", "litellm", {"llm.openai.messages": "[{'role': 'user'}]"}, Role.NOISE),
        ("answer", "litellm", {"llm.openai.messages": "[{'role': 'user'}]"}, Role.NOISE),
        ("raw_gen_ai_request", "litellm", {}, Role.NOISE),
        ("redis", "litellm", {"call_type": "async_set_cache"}, Role.NOISE),
    ],
)
def test_roles(make: Make, name: str, scope: str, attributes: Attributes, role: Role) -> None:
    """A call is known by what it says, whatever its span is called; the provider's own words are none."""
    span = make.span(1, attributes, name=name, scope=scope)
    assert (True, role) == (DIALECT.claims(span), DIALECT.role(span))


@pytest.mark.parametrize(
    ("scope", "attributes"),
    [
        ("opentelemetry.instrumentation.openai.v1", {"llm.request.type": "chat", "gen_ai.request.model": "m"}),
        ("litellm", {"llm.request.type": "completion", "gen_ai.prompt.0.content": "Why?"}),
        ("app", {"question": "Why?"}),
    ],
)
def test_spans_of_others(make: Make, scope: str, attributes: Attributes) -> None:
    """OpenLLMetry's calls, and flattened messages, which it reads, are left to it."""
    assert not DIALECT.claims(make.span(1, attributes, scope=scope))


@pytest.mark.parametrize(
    ("attributes", "session", "user"),
    [
        ({"metadata.requester_metadata": "{'session_id': 's', 'user_id': 'u'}"}, "s", "u"),
        ({"metadata.requester_metadata": '{"thread_id": "s"}', "llm.user": "u"}, "s", "u"),
        ({"metadata.requester_metadata": "", "metadata.user_api_key_end_user_id": "u"}, None, "u"),
        ({"metadata.user_api_key_user_id": "owner-of-the-key"}, None, None),
    ],
)
def test_whose_conversation(
    make: Make, turns: Turns, attributes: dict[str, AttributeValue], session: str | None, user: str | None
) -> None:
    """The ids that the request carried, printed or as JSON; who owns the key of the proxy asked nothing."""
    (turn,) = turns([make.span(1, {**CALL, **attributes}, name="litellm_request", scope="litellm")])
    assert (session, None if user is None else f"user:{user}") == (turn.session_id, turn.user_id)


def test_a_call_inside_a_chain(make: Make, turns: Turns) -> None:
    """The provider's words below a call neither hide it nor count as a second one."""
    raw: dict[str, AttributeValue] = {
        "llm.openai.messages": "[{'role': 'user', 'content': 'Why?'}]",
        "llm.openai.choices": "[{'message': {'content': 'So.', 'role': 'assistant'}}]",
    }
    spans = [
        make.chain(1, None, None),
        make.span(2, {**CALL, "gen_ai.usage.input_tokens": 5}, parent=1, name="litellm_request", scope="litellm"),
        make.span(3, raw, parent=2, name="raw_gen_ai_request", scope="litellm"),
    ]
    (turn,) = turns(spans)
    assert ("Why?", "So.", 5) == (turn.query, turn.response, turn.input_tokens)
    assert "generic" not in turn.flags
