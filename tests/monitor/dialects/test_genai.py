"""Spans of the OpenTelemetry GenAI conventions, one at a time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from monitor.dialects.genai import DIALECT
from monitor.model.spans import Attributes, AttributeValue, Event, Role, Step
from monitor.model.turns import Citation, Message

if TYPE_CHECKING:
    from tests.monitor.conftest import Make

ASKED: AttributeValue = [
    {"role": "user", "parts": [{"type": "text", "content": "Hi"}]},
    {"role": "assistant", "parts": [{"type": "text", "content": "Hello"}]},
    {"role": "user", "parts": [{"type": "text", "content": "Why?"}]},
]
ANSWERED: AttributeValue = [
    {"role": "assistant", "parts": [{"type": "text", "content": "So."}], "finish_reason": "stop"}
]
HEARD = (
    Message(role="user", content="Hi"),
    Message(role="assistant", content="Hello"),
    Message(role="user", content="Why?"),
)


def step(make: Make, attributes: Attributes, *events: Event) -> Step:
    """A span with events."""
    return DIALECT.read(make.span(1, attributes, events=events))


@pytest.mark.parametrize(
    ("operation", "role"),
    [
        ("chat", Role.LLM),
        ("text_completion", Role.LLM),
        ("generate_content", Role.LLM),
        ("embeddings", Role.EMBEDDING),
        ("embedding", Role.EMBEDDING),
        ("retrieval", Role.RETRIEVAL),
        ("execute_tool", Role.TOOL),
        ("invoke_agent", Role.AGENT),
        ("invoke_workflow", Role.CHAIN),
        ("create_agent", Role.NOISE),
        ("something_new", Role.CHAIN),
    ],
)
def test_operations(make: Make, operation: str, role: Role) -> None:
    """Every operation has its role; one nobody has heard of wraps others."""
    span = make.span(1, {"gen_ai.operation.name": operation})
    assert (True, role, role) == (DIALECT.claims(span), DIALECT.role(span), DIALECT.read(span).role)


def test_an_operation_that_a_limit_dropped(make: Make) -> None:
    """What was set first is dropped first; the span is named after its operation."""
    left = {"gen_ai.provider.name": "openai", "gen_ai.request.model": "e"}
    spans = [make.span(1, left, name="embeddings e", dropped=dropped) for dropped in (2, 0)]
    assert [Role.EMBEDDING, Role.LLM] == [DIALECT.role(span) for span in spans]


def test_a_conversation_id_alone(make: Make) -> None:
    """An app's own request span that only carries the conversation is not claimed."""
    assert not DIALECT.claims(make.span(1, {"gen_ai.conversation.id": "c", "http.route": "/chat"}))


@pytest.mark.parametrize(
    ("attributes", "role"),
    [({"gen_ai.system": "openai", "gen_ai.request.model": "m"}, Role.LLM), ({"gen_ai.system": "openai"}, Role.NOISE)],
)
def test_emitters_before_operations(make: Make, attributes: Attributes, role: Role) -> None:
    """Without an operation, whoever names a model calls one."""
    assert role == step(make, attributes).role


@pytest.mark.parametrize("structured", [False, True])
def test_a_model_call(make: Make, *, structured: bool) -> None:
    """Messages are read from JSON text and from structured attributes alike; instructions are a system message."""
    attributes: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m-2",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.conversation.id": "c",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 2,
    }
    contents = {
        "gen_ai.system_instructions": [{"type": "text", "content": "Be kind."}],
        "gen_ai.input.messages": ASKED,
        "gen_ai.output.messages": ANSWERED,
    }
    attributes |= contents if structured else {key: json.dumps(value) for key, value in contents.items()}
    read = step(make, attributes)
    assert ((Message(role="system", content="Be kind."), *HEARD), "So.", "m-2", "m", (10, 2), "chatcmpl-1", "c") == (
        read.messages,
        read.output,
        read.model,
        read.request_model,
        (read.input_tokens, read.output_tokens),
        read.response_id,
        read.session_id,
    )


@pytest.mark.parametrize(
    "value",
    [
        "5 EUR.",
        '"5 EUR."',
        '{"content": "5 EUR."}',
        '[{"role": "assistant", "content": "5 EUR."}]',
        [{"content": "5 EUR."}],
    ],
)
def test_outputs_in_other_dress(make: Make, value: AttributeValue) -> None:
    """The answer is read from text, JSON text, an object and lists without parts."""
    assert "5 EUR." == step(make, {"gen_ai.operation.name": "chat", "gen_ai.output.messages": value}).output


def test_messages_cut_by_a_limit(make: Make) -> None:
    """What stands before the cut is read, and the cut is flagged."""
    cut = json.dumps(ASKED)[:-20]
    read = step(make, {"gen_ai.operation.name": "chat", "gen_ai.input.messages": cut})
    assert (HEARD[:2], frozenset({"truncated"})) == (read.messages[:2], read.flags)


def test_a_call_for_tools(make: Make) -> None:
    """A call that only asks for tools has no text."""
    made = [{"role": "assistant", "parts": [{"type": "tool_call", "name": "search", "arguments": {}}]}]
    read = step(make, {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(made)})
    assert (None, 1) == (read.output, read.tool_calls)


LEGACY = {"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "m"}


def test_one_log_record_a_message(make: Make) -> None:
    """Up to 1.36 every message is a log record with a body."""
    read = step(
        make,
        LEGACY,
        make.event("gen_ai.system.message", {}, at=1, body={"content": "Be kind."}, log=True),
        make.event("gen_ai.user.message", {}, at=2, body={"content": "Why?"}, log=True),
        make.event(
            "gen_ai.choice",
            {},
            at=3,
            body={"index": 1, "message": {"role": "assistant", "content": "Other."}},
            log=True,
        ),
        make.event(
            "gen_ai.choice", {}, at=4, body={"index": 0, "message": {"role": "assistant", "content": "So."}}, log=True
        ),
    )
    assert ((Message(role="system", content="Be kind."), Message(role="user", content="Why?")), "So.") == (
        read.messages,
        read.output,
    )


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(("gen_ai.user.message", {}, '{"role": "user", "content": "Why?"}'), id="json-body"),
        pytest.param(
            ("gen_ai.user.message", {"gen_ai.event.content": '{"content": "Why?"}'}, None), id="azure-span-event"
        ),
        pytest.param(("", {"event.name": "gen_ai.user.message"}, {"content": "Why?"}), id="name-in-attribute"),
        pytest.param(("gen_ai.user.message", {"content": "Why?"}, None), id="content-attribute"),
        pytest.param(
            ("gen_ai.content.prompt", {"gen_ai.prompt": '[{"role": "user", "content": "Why?"}]'}, None),
            id="one-prompt-event",
        ),
    ],
)
def test_events_in_other_dress(make: Make, event: tuple[str, Attributes, AttributeValue]) -> None:
    """Emitters put the message into the body, into JSON text, or into attributes."""
    name, attributes, body = event
    assert (Message(role="user", content="Why?"),) == step(
        make, LEGACY, make.event(name, attributes, body=body)
    ).messages


def test_events_of_gemini(make: Make) -> None:
    """Gemini's history comes in events of the user, its streamed answer as one choice per chunk."""

    def body(role: str, text: str, **more: AttributeValue) -> AttributeValue:
        return {"content": {"role": role, "parts": [{"text": text, "thought": None}]}, **more}

    read = step(
        make,
        LEGACY,
        make.event("gen_ai.user.message", {}, body=body("user", "Hi")),
        make.event("gen_ai.user.message", {}, body=body("model", "Hello!")),
        make.event("gen_ai.user.message", {}, body=body("user", "Why?")),
        make.event("gen_ai.choice", {}, body=body("model", "So ", index=0)),
        make.event("gen_ai.choice", {}, body=body("model", "it is.", index=1, finish_reason="STOP")),
    )
    assert [("user", "Hi"), ("assistant", "Hello!"), ("user", "Why?")] == [
        (m.role, m.content) for m in read.messages or ()
    ]
    assert "So it is." == read.output


def test_empty_bodies(make: Make) -> None:
    """With content switched off, records without bodies say only that there were messages."""
    read = step(
        make, LEGACY, make.event("gen_ai.user.message", {}), make.event("gen_ai.choice", {}, body={"message": {}})
    )
    assert ((Message(role="user", content=""),), None) == (read.messages, read.output)


def test_one_event_with_everything(make: Make) -> None:
    """The details event holds structured messages; what the span says itself counts first."""
    details = {"gen_ai.input.messages": ASKED, "gen_ai.output.messages": ANSWERED, "gen_ai.response.model": "other"}
    event = make.event("gen_ai.client.inference.operation.details", details, log=True)
    read = step(make, {"gen_ai.operation.name": "chat", "gen_ai.response.model": "m"}, event)
    assert (HEARD, "So.", "m") == (read.messages, read.output, read.model)


def test_an_agent(make: Make) -> None:
    """An agent's input is the conversation: its last question, and what came before."""
    read = step(
        make,
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "support",
            "gen_ai.input.messages": json.dumps(ASKED),
            "gen_ai.output.messages": '[{"role": "assistant", "content": "So."}]',
        },
    )
    assert ("Why?", HEARD[:2], "So.", "support") == (read.query, read.history, read.response, read.facets["agent"])


def test_documents_without_ids(make: Make) -> None:
    """Documents that have neither id nor text are counted, with the score they got."""
    read = step(
        make,
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.retrieval.documents": '[{"id": null, "score": 0.5}, {"id": null}]',
        },
    )
    assert (Citation(score=0.5), Citation()) == read.documents


def test_a_workflow_told_as_one_message(make: Make) -> None:
    """A framework's state in, and its result, may be the JSON text of one message each."""

    def message(role: str, text: str) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])

    read = step(
        make,
        {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.input.messages": message("user", '{"question": "Why?"}'),
            "gen_ai.output.messages": message("assistant", '{"context": [{"id": "k", "text": "A."}], "answer": "So."}'),
        },
    )
    assert ("Why?", "So.", ["k"]) == (read.query, read.response, [c.id for c in read.documents or ()])


def test_a_workflow_without_a_question(make: Make) -> None:
    """A state that holds no question is none; what a person tells an agent stays as it is."""
    given = """[{"role": "user", "parts": [{"type": "text", "content": "{\\"input\\": \\"\\"}"}]}]"""
    read = [
        step(make, {"gen_ai.operation.name": operation, "gen_ai.input.messages": given}).query
        for operation in ("invoke_workflow", "invoke_agent")
    ]
    assert [None, '{"input": ""}'] == read


def test_a_list_of_messages_told_as_one(make: Make) -> None:
    """An agent's list of messages may be the JSON text of one."""
    said = [("user", "Hi"), ("assistant", "Hello!"), ("user", "Why?")]
    text = json.dumps([{"role": role, "content": content, "name": None} for role, content in said])
    given = json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]}])
    read = step(make, {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": given})
    assert ("Why?", [m for _, m in said[:2]]) == (read.query, [m.content for m in read.history or ()])


def test_an_agent_that_ended_in_an_error(make: Make) -> None:
    """A message that was finished by an error is none."""
    made = '[{"role": "assistant", "parts": [{"type": "text", "content": "Failed."}], "finish_reason": "error"}]'
    read = step(make, {"gen_ai.operation.name": "invoke_agent", "gen_ai.output.messages": made})
    assert (None, "error") == (read.response, read.error)


def test_a_retrieval(make: Make) -> None:
    """Retrieval spans give ids and scores, where a score may be null."""
    read = step(
        make,
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.retrieval.query.text": "Why?",
            "gen_ai.retrieval.documents": '[{"id": "a", "score": 0.5}, {"id": "b", "score": null}]',
        },
    )
    assert ("Why?", (Citation(id="a", score=0.5, rank=1), Citation(id="b", rank=2))) == (
        read.retrieval_query,
        read.documents,
    )


@pytest.mark.parametrize(("value", "expected"), [("[]", ()), (None, None)])
def test_a_retrieval_without_documents(make: Make, value: str | None, expected: tuple[()] | None) -> None:
    """An empty list is a retrieval that found nothing; without the attribute nobody knows."""
    assert expected == step(make, {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": value}).documents


def test_a_tool(make: Make) -> None:
    """A tool's result may be documents, its argument what was searched for."""
    read = step(
        make,
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.arguments": '{"query": "Why?"}',
            "gen_ai.tool.call.result": '[{"id": "a", "text": "x"}]',
        },
    )
    assert ("search", "Why?", "a") == (read.tool, read.retrieval_query, read.documents[0].id)


def test_an_error_type(make: Make) -> None:
    """The error's class is the last name of its path."""
    span = make.span(1, {"gen_ai.operation.name": "chat", "error.type": "openai.InternalServerError"}, status=2)
    assert "InternalServerError" == DIALECT.read(span).error


def test_streaming(make: Make) -> None:
    """A time to the first chunk tells that the answer was streamed."""
    read = step(make, {"gen_ai.operation.name": "chat", "gen_ai.client.operation.time_to_first_chunk": 0.2})
    assert (True, None) == (read.streaming, step(make, {"gen_ai.operation.name": "chat"}).streaming)


def test_a_first_chunk_of_a_whole_reply(make: Make) -> None:
    """OpenLIT writes a time to the first chunk for replies that came whole, too; what was asked for counts."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.server.time_to_first_token": 0.02}
    whole, unsaid = (step(make, {**attributes, **said}).streaming for said in ({"gen_ai.request.stream": False}, {}))
    assert (False, True) == (whole, unsaid)


def test_an_agent_in_span_events(make: Make) -> None:
    """Agents of some SDKs put messages into events of their span, with the parts as JSON text."""
    read = step(
        make,
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.system": "strands-agents"},
        make.event("gen_ai.user.message", {"content": '[{"text": "Why?"}]'}),
        make.event("gen_ai.choice", {"message": '[{"text": "So."}]', "finish_reason": "end_turn"}),
    )
    assert ("Why?", "So.") == (read.query, read.response)


def test_json_that_a_person_sent(make: Make) -> None:
    """A question that is JSON of anything else stays as it is."""
    asked = make.event("gen_ai.user.message", {"content": "[1, 2]"})
    read = step(make, {"gen_ai.operation.name": "chat", "gen_ai.system": "x"}, asked)
    assert (Message(role="user", content="[1, 2]"),) == read.messages


@pytest.mark.parametrize(
    "result",
    [
        '[{"text": "[{\\"id\\": \\"k\\", \\"content\\": \\"A mill.\\"}]"}]',
        '[{"json": {"id": "k", "content": "A mill."}}]',
    ],
)
def test_a_tool_told_by_events(make: Make, result: str) -> None:
    """Strands keeps a tool's input and result in events, the result as parts of a message."""
    events = [
        make.event("gen_ai.tool.message", {"role": "tool", "content": '{"query": "mill"}', "id": "c"}),
        make.event("gen_ai.choice", {"message": result, "id": "c"}),
    ]
    read = DIALECT.read(make.span(1, {"gen_ai.operation.name": "execute_tool"}, events=events))
    assert ("mill", (Citation(id="k", content="A mill.", rank=1),)) == (read.retrieval_query, read.documents)


@pytest.mark.parametrize("prefix", ["gen_ai", "gen_ai.content"])
def test_a_prompt_as_an_attribute(make: Make, prefix: str) -> None:
    """Some emitters write prompt and answer as one attribute each, as text or as messages."""
    written = {f"{prefix}.prompt": '[{"role": "user", "content": "Why?"}]', f"{prefix}.completion": "So."}
    read = DIALECT.read(make.span(1, {"gen_ai.operation.name": "chat", **written}))
    assert ([("user", "Why?")], "So.") == ([(m.role, m.content) for m in read.messages or ()], read.output)


@pytest.mark.parametrize("key", ["gen_ai.workflow.name", "gen_ai.agent.name"])
def test_a_workflow_by_either_name(make: Make, key: str) -> None:
    """Since 0.1.0 a workflow is named as an agent is, under the operation that it had."""
    read = DIALECT.read(make.span(1, {"gen_ai.operation.name": "invoke_workflow", key: "helpdesk"}))
    assert (Role.CHAIN, "helpdesk") == (read.role, read.facets["agent"])


def test_how_many_documents_were_wanted(make: Make) -> None:
    """Since 0.1.0 a retrieval says it in words of its own."""
    read = DIALECT.read(make.span(1, {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.top_k": 4}))
    assert "4" == read.facets["top_k"]


@pytest.mark.parametrize(("total", "expected"), [(None, 12), (40, 40)])
def test_tokens_by_modality(make: Make, total: int | None, expected: int) -> None:
    """They add up where the total is missing."""
    attributes: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.text.input_tokens": 9,
        "gen_ai.usage.audio.input_tokens": 3,
    }
    if total is not None:
        attributes["gen_ai.usage.input_tokens"] = total
    assert expected == DIALECT.read(make.span(1, attributes)).input_tokens
