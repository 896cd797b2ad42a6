"""OpenLLMetry's spans, one at a time and as turns."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from monitor.dialects.openllmetry import DIALECT
from monitor.model.spans import Attributes, AttributeValue, Role, Step

if TYPE_CHECKING:
    from tests.monitor.conftest import Assemble, Make


def step(make: Make, kind: str, name: str, attributes: Attributes) -> Step:
    """A span of a Traceloop kind."""
    named = {"traceloop.span.kind": kind, "traceloop.entity.name": name}
    return DIALECT.read(make.span(1, {**named, **attributes}))


def said(kind: str, content: str) -> AttributeValue:
    """A LangChain message as its constructor."""
    return {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", kind],
        "kwargs": {"content": content},
    }


@pytest.mark.parametrize(
    ("attributes", "role"),
    [
        ({"traceloop.span.kind": "workflow", "traceloop.entity.name": "search"}, Role.CHAIN),
        ({"traceloop.span.kind": "agent"}, Role.AGENT),
        ({"traceloop.span.kind": "tool"}, Role.TOOL),
        ({"traceloop.span.kind": "something_new"}, Role.CHAIN),
        ({"traceloop.span.kind": "task", "traceloop.entity.name": "RunnableSequence"}, Role.CHAIN),
        ({"traceloop.span.kind": "task", "traceloop.entity.name": "VectorIndexRetriever.task"}, Role.RETRIEVAL),
        ({"traceloop.span.kind": "task", "traceloop.entity.name": "retrieve_documents"}, Role.RETRIEVAL),
        ({"traceloop.span.kind": "task", "traceloop.entity.name": "kb_search"}, Role.RETRIEVAL),
        ({"traceloop.span.kind": "task", "traceloop.entity.name": "researcher"}, Role.CHAIN),
        ({"traceloop.span.kind": "task", "traceloop.entity.name": "LLMRerank.task"}, Role.RERANK),
        ({"traceloop.span.kind": "task", "traceloop.entity.name": "SimilarityPostprocessor.task"}, Role.NOISE),
        ({"traceloop.span.kind": "task", "traceloop.entity.name": "TokenTextSplitter.task"}, Role.NOISE),
        ({"traceloop.span.kind": "task", "traceloop.entity.name": "OpenAIEmbedding.task"}, Role.EMBEDDING),
        ({"traceloop.span.kind": "task", "gen_ai.operation.name": "execute_task"}, Role.CHAIN),
        ({"traceloop.span.kind": "task", "gen_ai.operation.name": "vector_db_retrieve"}, Role.RETRIEVAL),
        ({"traceloop.span.kind": "workflow", "gen_ai.operation.name": "embeddings"}, Role.EMBEDDING),
        ({"llm.request.type": "chat"}, Role.LLM),
        ({"llm.request.type": "embedding"}, Role.EMBEDDING),
        ({"llm.request.type": "rerank"}, Role.RERANK),
        ({"gen_ai.prompt.0.content": "Why?"}, Role.LLM),
        ({"gen_ai.completion.0.content": "So."}, Role.LLM),
    ],
)
def test_roles(make: Make, attributes: Attributes, role: Role) -> None:
    """The request or operation tells, then the component's name, then the kind."""
    span = make.span(1, attributes)
    assert (True, role, role) == (DIALECT.claims(span), DIALECT.role(span), DIALECT.read(span).role)


def test_spans_of_others(make: Make) -> None:
    """Properties that the SDK puts on every span, and a prompt that is not flattened, are no sign."""
    attributes = {
        "traceloop.association.properties.session_id": "s",
        "gen_ai.prompt": "x",
        "gen_ai.operation.name": "chat",
    }
    assert not DIALECT.claims(make.span(1, attributes))


@pytest.mark.parametrize(
    "keys", [("traceloop.entity.input", "traceloop.entity.output"), ("gen_ai.task.input", "gen_ai.task.output")]
)
def test_langchain(make: Make, keys: tuple[str, str]) -> None:
    """LangChain's inputs and outputs are wrapped; messages are constructors."""
    given = {
        "inputs": {"input": "Why?", "chat_history": [said("HumanMessage", "Hi"), said("AIMessage", "Hello")]},
        "tags": [],
    }
    made = {"outputs": {"input": "Why?", "answer": "So."}, "kwargs": {"tags": []}}
    read = step(make, "workflow", "chain", {keys[0]: json.dumps(given), keys[1]: json.dumps(made)})
    assert ("Why?", ["Hi", "Hello"], "So.") == (read.query, [m.content for m in read.history or ()], read.response)


def test_a_graph(make: Make) -> None:
    """A LangGraph run returns all messages; the last one answers."""
    given = {"inputs": {"messages": [said("HumanMessage", "Why?")]}}
    made = {"outputs": {"messages": [said("HumanMessage", "Why?"), said("AIMessage", "So.")]}}
    attributes = {"traceloop.entity.input": json.dumps(given), "traceloop.entity.output": json.dumps(made)}
    read = step(make, "workflow", "graph", attributes)
    assert ("Why?", "So.") == (read.query, read.response)


def test_a_chain_that_streams(make: Make) -> None:
    """It is begun without its input, which then stands beside its output."""
    made = {"outputs": "So.", "kwargs": {"inputs": {"input": "Why?"}}}
    attributes = {"traceloop.entity.input": '{"inputs": {"input": ""}}', "traceloop.entity.output": json.dumps(made)}
    assert "Why?" == step(make, "workflow", "chain", attributes).query


def test_a_decorated_function(make: Make) -> None:
    """The SDK's decorators record arguments, and a text in quotation marks."""
    given = {"args": ["Why?", [{"role": "user", "content": "Hi"}]], "kwargs": {}}
    attributes = {"traceloop.entity.input": json.dumps(given), "traceloop.entity.output": '"So."'}
    read = step(make, "workflow", "ask", attributes)
    assert ("Why?", ["Hi"], "So.") == (read.query, [m.content for m in read.history or ()], read.response)


def test_llamaindex_nodes(make: Make) -> None:
    """A retriever's nodes are JSON texts in a JSON array."""
    node = json.dumps({"node": {"id_": "a", "text": "Text.", "metadata": {"title": "T"}}, "score": 0.5})
    attributes = {
        "traceloop.entity.input": '{"str_or_query_bundle": "Why?"}',
        "traceloop.entity.output": json.dumps([node]),
    }
    read = step(make, "task", "VectorIndexRetriever.task", attributes)
    assert read.documents is not None
    assert ("Why?", "a", "Text.", 0.5) == (
        read.retrieval_query,
        read.documents[0].id,
        read.documents[0].content,
        read.documents[0].score,
    )


@pytest.mark.parametrize(
    "given",
    [
        {"input_str": "{'query': 'Why?'}", "tags": [], "metadata": {}, "inputs": {"query": "Why?"}},
        {"input_str": "{'query': 'Why?'}", "tags": [], "metadata": {}, "inputs": None},
    ],
)
@pytest.mark.parametrize(
    "made",
    [
        {
            "output": {
                "lc": 1,
                "id": ["ToolMessage"],
                "kwargs": {"type": "tool", "content": '[{"id": "a", "text": "T"}]'},
            }
        },
        {"output": 'content=\'[{"id": "a", "text": "T"}]\' name=\'kb\' tool_call_id=\'c\'', "kwargs": {}, "tags": []},
    ],
)
def test_a_tool(make: Make, given: AttributeValue, made: AttributeValue) -> None:
    """A tool of LangChain's agents that found documents, in releases that write its message or print it."""
    attributes = {"traceloop.entity.input": json.dumps(given), "traceloop.entity.output": json.dumps(made)}
    read = step(make, "tool", "kb", attributes)
    assert ("kb", "Why?", "a") == (read.tool, read.retrieval_query, read.documents[0].id if read.documents else None)


def test_flattened_messages(make: Make) -> None:
    """Messages of releases up to 0.5x, in numeric order, with parts and tool calls."""
    parts = '[{"type": "text", "text": "Why?"}, {"type": "image_url", "image_url": {"url": "http://x/y.png"}}]'
    attributes: dict[str, AttributeValue] = {
        "llm.request.type": "chat",
        "gen_ai.prompt.10.role": "user",
        "gen_ai.prompt.10.content": parts,
        "gen_ai.prompt.2.role": "system",
        "gen_ai.prompt.2.content": "Be kind.",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.tool_calls.0.name": "search",
        "gen_ai.completion.0.tool_calls.0.arguments": "{}",
        "gen_ai.completion.0.tool_calls.1.name": "search",
        "gen_ai.usage.prompt_tokens": 7,
        "gen_ai.usage.completion_tokens": 3,
    }
    read = DIALECT.read(make.span(1, attributes, events=[make.event("llm.content.completion.chunk", {})]))
    assert (["Be kind.", "Why?\n[image]"], None, 2, 7, 3, True) == (
        [message.content for message in read.messages or ()],
        read.output,
        read.tool_calls,
        read.input_tokens,
        read.output_tokens,
        read.streaming,
    )


def test_messages_of_the_convention(make: Make) -> None:
    """A release between the two writes its own type of request and the convention's messages."""
    attributes = {
        "llm.request.type": "chat",
        "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "Why?"}]}]',
        "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "So."}]}]',
    }
    read = DIALECT.read(make.span(1, attributes))
    assert (["Why?"], "So.") == ([message.content for message in read.messages or ()], read.output)


def test_messages_of_a_call_on_its_parent(make: Make, assemble: Assemble) -> None:
    """LangChain's log records hang on the step around the call; they are the call's messages."""
    events = [
        make.event("gen_ai.user.message", {}, body={"content": "Why?"}, log=True),
        make.event("gen_ai.choice", {}, at=0.1, body={"index": 0, "message": {"content": "So."}}, log=True),
    ]
    spans = [
        make.span(1, {"gen_ai.operation.name": "invoke_agent"}),
        make.span(2, {"traceloop.span.kind": "task", "traceloop.entity.name": "generate"}, parent=1, events=events),
        make.span(3, {"gen_ai.operation.name": "chat", "gen_ai.response.model": "m"}, parent=2),
    ]
    (turn,) = assemble(spans).turns
    assert ("Why?", "So.", "m") == (turn.query, turn.response, turn.model)


def test_a_failed_task(make: Make) -> None:
    """LangChain notes failure as a status of the task."""
    assert "error" == step(make, "workflow", "chain", {"gen_ai.task.status": "failure"}).error


def test_without_content(make: Make, assemble: Assemble) -> None:
    """With TRACELOOP_TRACE_CONTENT off a turn has its session, model and tokens."""
    properties: dict[str, AttributeValue] = {"traceloop.association.properties.session_id": "s"}
    call: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.response.model": "m",
        "gen_ai.usage.input_tokens": 7,
        **properties,
    }
    spans = [
        make.span(1, {"traceloop.span.kind": "workflow", "traceloop.entity.name": "ask", **properties}),
        make.span(2, {"traceloop.span.kind": "task", "traceloop.entity.name": "retrieve", **properties}, parent=1),
        make.span(3, call, parent=1, at=0.5),
    ]
    (turn,) = assemble(spans).turns
    assert (None, None, "s", "m", 7, frozenset({"no_content"})) == (
        turn.query,
        turn.response,
        turn.session_id,
        turn.model,
        turn.input_tokens,
        turn.flags,
    )


@pytest.mark.parametrize("outer", ["openinference", "openllmetry"])
def test_an_app_that_is_instrumented_twice(make: Make, assemble: Assemble, outer: str) -> None:
    """Two conventions interleaved in one trace tell one turn, its documents and tokens once."""
    found = json.dumps({"documents": [{"page_content": "Text.", "metadata": {"doc_id": "a"}}]})
    workflow: dict[str, AttributeValue] = {
        "traceloop.span.kind": "workflow",
        "traceloop.entity.input": '{"inputs": {"question": "Why?"}}',
        "traceloop.entity.output": '{"outputs": {"answer": "So."}}',
    }
    retrieve: dict[str, AttributeValue] = {
        "traceloop.span.kind": "task",
        "gen_ai.operation.name": "vector_db_retrieve",
        "traceloop.entity.input": '{"query": "Why?"}',
        "traceloop.entity.output": found,
    }
    chat: dict[str, AttributeValue] = {
        "llm.request.type": "chat",
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Context: Text.\n\nQuestion: Why?",
        "gen_ai.completion.0.content": "So.",
        "gen_ai.usage.prompt_tokens": 7,
    }
    call = make.call(5, [("user", "Context: Text.\n\nQuestion: Why?")], "So.")
    call = replace(call, attributes={**call.attributes, "llm.token_count.prompt": 7})
    theirs = [make.chain(1, "Why?", "So."), make.retrieval(3, "Why?", {"a": "Text."}, at=0.1, lasts=0.1), call]
    ours = [make.span(2, workflow), make.span(4, retrieve, at=0.1, lasts=0.1), make.span(6, chat, at=0.5)]
    first, second = (theirs, ours) if outer == "openinference" else (ours, theirs)
    top = first[0]
    spans = [top, replace(second[0], parent_id=top.span_id)]
    for one, other in zip(first[1:], second[1:], strict=True):
        spans += [replace(one, parent_id=second[0].span_id), replace(other, parent_id=one.span_id)]
    (turn,) = assemble(spans).turns
    assert ("Why?", "So.", 7, ["Text."], ("Why?",)) == (
        turn.query,
        turn.response,
        turn.input_tokens,
        [citation.content for citation in turn.citations or ()],
        turn.retrieval_queries,
    )


def test_a_retriever_of_any_name(make: Make) -> None:
    """LlamaIndex gives retrievers a query bundle; one that returns a list retrieved, one that answers is an engine."""
    given = '{"str_or_query_bundle": "Why?"}'
    listed = step(make, "task", "Shelf.task", {"traceloop.entity.input": given, "traceloop.entity.output": "[]"})
    engine = step(make, "task", "Engine.task", {"traceloop.entity.input": given, "traceloop.entity.output": '"So."'})
    assert (Role.RETRIEVAL, (), Role.CHAIN) == (listed.role, listed.documents, engine.role)


def test_ids_in_settings(make: Make, assemble: Assemble) -> None:
    """Before 0.43 ids were only written into the chain's input, beside its inputs."""
    given = {"inputs": {"question": "Why?"}, "metadata": {"session_id": "s-1", "user_id": "u-1"}}
    attributes = {
        "traceloop.span.kind": "workflow",
        "traceloop.entity.input": json.dumps(given),
        "traceloop.entity.output": '{"outputs": "So."}',
    }
    (turn,) = assemble([make.span(1, attributes)]).turns
    assert ("s-1", "user:u-1") == (turn.session_id, turn.user_id)


def test_a_streamed_answer_without_a_text(make: Make, assemble: Assemble) -> None:
    """Where the call keeps no text and only the model asked for, the parser that was handed its message knows more."""
    message = {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "AIMessageChunk"],
        "kwargs": {"content": "So.", "response_metadata": {"model_name": "m-2024"}},
    }
    chain = {"traceloop.span.kind": "workflow", "traceloop.entity.name": "chain"}
    parser = {"traceloop.span.kind": "task", "traceloop.entity.name": "StrOutputParser"}
    (turn,) = assemble(
        [
            make.span(
                1,
                chain
                | {"traceloop.entity.input": '{"inputs": "Why?"}', "traceloop.entity.output": '{"outputs": "So."}'},
            ),
            make.span(
                2,
                {"llm.request.type": "chat", "gen_ai.request.model": "m", "gen_ai.response.model": "m"},
                parent=1,
                at=0.1,
            ),
            make.span(
                3,
                parser
                | {
                    "traceloop.entity.input": '{"inputs": {"input": ""}}',
                    "traceloop.entity.output": json.dumps({"outputs": "So.", "kwargs": {"inputs": message}}),
                },
                parent=1,
                at=0.2,
            ),
        ]
    ).turns
    assert ("Why?", "So.", "m-2024") == (turn.query, turn.response, turn.model)


@pytest.mark.parametrize("kind", ["llm", "task", "workflow", "agent", "generation"])
def test_messages_under_any_kind(make: Make, kind: str) -> None:
    """Flattened messages make a model call of a span, whatever kind it says."""
    attributes = {
        "traceloop.span.kind": kind,
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Fee?",
        "gen_ai.completion.0.content": "5 EUR.",
    }
    step = DIALECT.read(make.span(1, attributes))
    assert (Role.LLM, "5 EUR.") == (step.role, step.output)
