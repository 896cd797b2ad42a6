"""Spans of Mastra's exporters, one at a time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from monitor.dialects.mastra import DIALECT
from monitor.model.spans import Attributes, Role

if TYPE_CHECKING:
    from tests.monitor.conftest import Make, Turns


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        ("agent_run", Role.AGENT),
        ("workflow_step", Role.CHAIN),
        ("llm_generation", Role.LLM),
        ("model_inference", Role.LLM),
        ("mcp_tool_call", Role.TOOL),
        ("model_chunk", Role.NOISE),
        ("processor_run", Role.NOISE),
        ("something_new", Role.NOISE),
    ],
)
def test_types(make: Make, kind: str, role: Role) -> None:
    """The type of a span tells its role, whatever operation it names."""
    span = make.span(1, {"mastra.span.type": kind, "gen_ai.operation.name": "chat"})
    assert (True, role) == (DIALECT.claims(span), DIALECT.role(span))


def test_releases_before_1(make: Make, turns: Turns) -> None:
    """They wrote plain `input` and `output`; a generation counts for its steps, which know the model that answered."""
    asks = [{"role": "user", "content": "Why?"}]
    call = {"mastra.span.type": "model_generation", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 90}
    step = {"mastra.span.type": "model_step", "modelId": "m-2", "input": json.dumps({"body": {"messages": asks}})}
    spans = [
        make.span(1, {"mastra.span.type": "agent_run", "input": json.dumps(asks), "output": '{"text": "So."}'}),
        make.span(2, {**call, "input": json.dumps({"messages": asks}), "output": '{"text": "So."}'}, parent=1),
        make.span(3, {**step, "output": '{"text": "", "toolCalls": [{"toolName": "find"}]}'}, parent=2),
        make.span(4, {**step, "output": '{"text": "So.", "toolCalls": []}'}, parent=2, at=0.5),
    ]
    (turn,) = turns(spans)
    assert ("Why?", "So.", "m-2", 90) == (turn.query, turn.response, turn.model, turn.input_tokens)
    assert [0, 1] == sorted(DIALECT.read(span).tool_calls for span in spans[2:])


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, ("t", None)),
        ({"mastra.metadata.userId": "u", "gen_ai.conversation.id": "s"}, ("s", "user:u")),
        ({"mastra.metadata.sessionId": "s"}, ("s", None)),
    ],
)
def test_a_thread(make: Make, turns: Turns, attributes: Attributes, expected: tuple[str | None, str | None]) -> None:
    """A thread is the session; ids in the run's metadata come first."""
    run = {"mastra.span.type": "agent_run", "threadId": "t", "input": "Why?", "output": "So."}
    (turn,) = turns([make.span(1, {**run, **attributes})])
    assert expected == (turn.session_id, turn.user_id)
