"""Spans of Pydantic AI, one at a time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from monitor.dialects.pydantic_ai import DIALECT
from monitor.model.spans import Attributes, Role, Step
from monitor.model.turns import Message

if TYPE_CHECKING:
    from tests.monitor.conftest import Make

TALK = [
    {"role": "user", "parts": [{"type": "text", "content": "Hi"}]},
    {"role": "assistant", "parts": [{"type": "text", "content": "Hello"}]},
    {"role": "user", "parts": [{"type": "text", "content": "Why?"}]},
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "c"}]},
    {"role": "user", "parts": [{"type": "tool_call_response", "id": "c", "result": "x"}]},
    {"role": "user", "parts": [{"type": "text", "content": "Answer with one word."}]},
    {"role": "assistant", "parts": [{"type": "text", "content": "So."}]},
]


def step(make: Make, attributes: Attributes, **more: str) -> Step:
    """A span of the library."""
    return DIALECT.read(make.span(1, attributes, scope="pydantic-ai", name=more.get("name", "agent run")))


def test_a_run_begins_where_it_says(make: Make) -> None:
    """The first words of the person in the run are the query, whatever the library asks of the model later."""
    read = step(
        make, {"agent_name": "a", "pydantic_ai.all_messages": json.dumps(TALK), "pydantic_ai.new_message_index": 2}
    )
    assert (Role.AGENT, "Why?", (Message(role="user", content="Hi"), Message(role="assistant", content="Hello"))) == (
        read.role,
        read.query,
        read.history,
    )


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("So.", ("So.", None)),
        ('{"answer": "So.", "sources": []}', ("So.", None)),
        ('{"days": 3}', (None, '{"days":3}')),
    ],
)
def test_results(make: Make, result: str, expected: tuple[str | None, str | None]) -> None:
    """A structured result answers by its answer, else as compact JSON."""
    read = step(make, {"agent_name": "a", "final_result": result})
    assert expected == (read.response, read.shapeless)


def test_a_run_without_a_result(make: Make) -> None:
    """A streamed run has none; the conversation ends with the answer."""
    assert "So." == step(make, {"agent_name": "a", "pydantic_ai.all_messages": json.dumps(TALK)}).response


def test_a_conversation_that_was_cut(make: Make) -> None:
    """What stands before the cut is read, and the cut is flagged."""
    read = step(make, {"agent_name": "a", "pydantic_ai.all_messages": json.dumps(TALK[:3])[:-3]})
    assert ("Why?", True) == (read.query, "truncated" in read.flags)


def test_what_is_no_step(make: Make) -> None:
    """Spans around several tools, and pending ones, say nothing."""
    pending = step(make, {"agent_name": "a", "logfire.span_type": "pending_span"})
    tools = step(make, {"tools": ["find"]}, name="running 2 tools")
    assert (Role.NOISE, Role.NOISE) == (pending.role, tools.role)


def test_a_system_prompt_counts_with_its_request(make: Make) -> None:
    """The index counts requests and responses; a system prompt is part of the first request."""
    talk = [{"role": "system", "parts": [{"type": "text", "content": "Be brief."}]}, *TALK]
    read = step(
        make, {"agent_name": "a", "pydantic_ai.all_messages": json.dumps(talk), "pydantic_ai.new_message_index": 2}
    )
    assert ("Why?", ["Hi", "Hello"]) == (read.query, [message.content for message in read.history or ()])


def test_documents_of_a_run(make: Make) -> None:
    """Release 0.2 keeps what tools returned in the conversation only; what came before is another run's."""
    events = [
        {"role": "user", "content": "Hi", "event.name": "gen_ai.user.message"},
        {"role": "tool", "content": [{"id": "old", "content": "A mill."}], "event.name": "gen_ai.tool.message"},
        {"role": "assistant", "content": "Hello", "event.name": "gen_ai.assistant.message"},
        {"role": "user", "content": "Why?", "event.name": "gen_ai.user.message"},
        {"role": "tool", "content": [{"id": "d", "content": "It turns."}], "event.name": "gen_ai.tool.message"},
    ]
    read = step(make, {"agent_name": "a", "all_messages_events": json.dumps(events), "final_result": "So."})
    assert ("Why?", "So.", ["d"]) == (read.query, read.response, [c.id for c in read.documents or ()])
