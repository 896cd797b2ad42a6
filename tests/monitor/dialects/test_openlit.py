"""OpenLIT's spans, where they differ from the GenAI convention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.dialects.openlit import DIALECT, transcript
from monitor.model.spans import Attributes, AttributeValue, Role, Step

if TYPE_CHECKING:
    from tests.monitor.conftest import Assemble, Make

FOUND = '[{"content": "Text.", "id": "text.md"}]'


def step(make: Make, attributes: Attributes, *, scope: str = "openlit.instrumentation.langchain") -> Step:
    """A span of OpenLIT's."""
    return DIALECT.read(make.span(1, attributes, scope=scope))


@pytest.mark.parametrize(
    ("attributes", "scope", "role"),
    [
        ({"gen_ai.operation.name": "chat"}, "openlit.instrumentation.openai", Role.LLM),
        ({"gen_ai.operation.name": "vectordb"}, "openlit.instrumentation.chroma", Role.DB),
        ({"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": FOUND}, "openlit", Role.RETRIEVAL),
        ({"gen_ai.operation.name": "retrieval", "gen_ai.graph.message_count": 3}, "openlit", Role.NOISE),
        ({"gen_ai.operation.name": "create_agent"}, "openlit.instrumentation.langgraph", Role.NOISE),
        ({"function.args": "('Why?',)", "gen_ai.output.messages": "So."}, "openlit", Role.CHAIN),
        ({}, "openlit", Role.CHAIN),
    ],
)
def test_roles(make: Make, attributes: Attributes, scope: str, role: Role) -> None:
    """Decorated functions are chains, reading a graph's own state is no retrieval."""
    span = make.span(1, attributes, scope=scope)
    assert (True, role, role) == (DIALECT.claims(span), DIALECT.role(span), DIALECT.read(span).role)


def test_a_decorated_function(make: Make) -> None:
    """The arguments are printed, the result is a plain text in place of messages."""
    args = "('Why?', [{'role': 'user', 'content': \"It's me.\"}])"
    read = step(
        make, {"function.args": args, "function.kwargs": "{}", "gen_ai.output.messages": "So."}, scope="openlit"
    )
    assert ("Why?", ["It's me."], "So.") == (read.query, [m.content for m in read.history or ()], read.response)


@pytest.mark.parametrize(
    "args", ["(<app.Rag object at 0x7f01>, 'Why?', [])", "('Why?', [{'role': 'user', 'con", "(<app.Rag at 7>, 'Why?')"]
)
def test_arguments_that_are_no_literals(make: Make, args: str) -> None:
    """Methods print their object, and a limit may cut the rest; the question is still the first text."""
    assert "Why?" == step(make, {"function.args": args}, scope="openlit").query


def test_named_arguments(make: Make) -> None:
    """Arguments by name are read like the others."""
    read = step(make, {"function.args": "()", "function.kwargs": "{'query': 'Why?', 'k': 3}"}, scope="openlit")
    assert "Why?" == read.query


def test_a_prompt_in_one_text(make: Make) -> None:
    """Releases before 1.40 write all messages into one text, on an event or on the span."""
    prompt = "system: Be kind.\nuser: Why?\nOr not?"
    call = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    on_span = step(make, {**call, "gen_ai.prompt": prompt, "gen_ai.completion": "So."})
    events = [
        make.event("gen_ai.content.prompt", {"gen_ai.prompt": prompt}),
        make.event("gen_ai.content.completion", {"gen_ai.completion": "So."}),
    ]
    on_events = DIALECT.read(make.span(1, call, scope="openlit.instrumentation.openai", events=events))
    for read in (on_span, on_events):
        assert (["Be kind.", "Why?\nOr not?"], "So.") == ([m.content for m in read.messages or ()], read.output)


def test_a_text_without_roles() -> None:
    """A prompt that is no transcript is one message."""
    assert [("user", "Why? user: me")] == [(m.role, m.content) for m in transcript("Why? user: me")]


def test_a_streamed_workflow(make: Make) -> None:
    """A LangGraph stream has its input flattened and its output as messages."""
    attributes = {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Why?",
        "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "So."}]}]',
    }
    read = step(make, attributes)
    assert ("Why?", "So.") == (read.query, read.response)


def test_a_workflow_that_prints_its_messages(make: Make) -> None:
    """What was printed is read, but not trusted over what a model call says."""
    attributes: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.input": '{"messages": ["content=\'Why?\' additional_kwargs={} response_metadata={}"]}',
        "gen_ai.workflow.output": '{"answer": "So."}',
    }
    read = step(make, attributes)
    assert ("Why?", "So.") == (read.query, read.response)


def test_the_source_of_a_document(make: Make) -> None:
    """What OpenLIT calls the id is the source."""
    read = step(make, {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": FOUND})
    assert [("text.md", "Text.")] == [(found.source, found.content) for found in read.documents or ()]


def test_decoys_are_no_turns(make: Make, assemble: Assemble) -> None:
    """Reading a graph's state and creating an agent are nobody's question."""
    for operation in ("retrieval", "create_agent"):
        attributes = {"gen_ai.operation.name": operation, "gen_ai.graph.message_count": 2}
        assert () == assemble([make.span(1, attributes, scope="openlit.instrumentation.langgraph")]).turns


def test_a_question_that_was_only_embedded(make: Make, assemble: Assemble) -> None:
    """A function that failed records no arguments; what it searched for stands in the embedding."""
    embedding = {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "Why?"}]}]',
    }
    spans = [
        make.span(1, {}, scope="openlit", status=2),
        make.span(2, embedding, parent=1, scope="openlit.instrumentation.openai"),
        make.span(3, {"gen_ai.operation.name": "chat"}, parent=1, at=0.5, status=2),
    ]
    (turn,) = assemble(spans).turns
    assert ("Why?", "error", frozenset({"query_from_retrieval"})) == (turn.query, turn.error, turn.flags)


def test_a_call_without_attributes(make: Make) -> None:
    """A call that failed may be left with its name only."""
    span = make.span(1, {}, name="chat m-mini", scope="openlit.instrumentation.anthropic", status=2)
    read = DIALECT.read(span)
    assert (Role.LLM, "m-mini", "error") == (read.role, read.request_model, read.error)


@pytest.mark.parametrize(
    "made", [[{"id": "d", "content": "Text.", "score": 0.5}], "[{'id': 'd', 'content': 'Text.', 'score': 0.5}]"]
)
def test_a_function_that_found_documents(make: Make, made: AttributeValue) -> None:
    """What a decorated function returned, as such or printed; documents are no answer."""
    read = step(make, {"function.args": "('Why?',)", "gen_ai.output.messages": made}, scope="openlit")
    assert ("Why?", None, ["d"]) == (read.query, read.response, [c.id for c in read.documents or ()])
