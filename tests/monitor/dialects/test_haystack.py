"""Spans of Haystack's tracing, one at a time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from monitor.dialects.haystack import DIALECT
from monitor.model.spans import Role, Step

if TYPE_CHECKING:
    from tests.monitor.conftest import Make


def component(make: Make, kind: str, given: object = None, made: object = None) -> Step:
    """One component's span."""
    attributes = {
        "haystack.component.type": kind,
        "haystack.component.input": json.dumps(given),
        "haystack.component.output": json.dumps(made),
    }
    return DIALECT.read(make.span(1, attributes, name="haystack.component.run"))


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        ("QdrantHybridRetriever", Role.RETRIEVAL),
        ("SentenceTransformersSimilarityRanker", Role.RERANK),
        ("DocumentJoiner", Role.RERANK),
        ("AzureOpenAIChatGenerator", Role.LLM),
        ("OpenAIDocumentEmbedder", Role.EMBEDDING),
        ("ToolInvoker", Role.TOOL),
        ("DocumentWriter", Role.NOISE),
    ],
)
def test_components(make: Make, kind: str, role: Role) -> None:
    """The class of a component tells what it does."""
    assert role == component(make, kind).role


@pytest.mark.parametrize("name", ["haystack.pipeline.run", "haystack.async_pipeline.run", "haystack.agent.run"])
def test_what_wraps_components(make: Make, name: str) -> None:
    """Pipelines and agents may be turns."""
    span = make.span(1, {"haystack.pipeline.input_data": "{}"}, name=name)
    assert (True, True) == (DIALECT.claims(span), DIALECT.role(span) in {Role.CHAIN, Role.AGENT})


def test_a_generator_of_plain_text(make: Make) -> None:
    """Prompt and replies are texts, and what the model says of them stands beside."""
    meta = [{"model": "m-2", "usage": {"prompt_tokens": 5, "completion_tokens": 2}}]
    read = component(make, "OpenAIGenerator", {"prompt": "Why?"}, {"replies": ["So.", "Or so."], "meta": meta})
    assert ("Why?", "So.", "m-2", 5, 2) == (
        read.messages[0].content if read.messages else None,
        read.output,
        read.model,
        read.input_tokens,
        read.output_tokens,
    )


def test_printed_replies(make: Make) -> None:
    """Older releases print their messages; the model is told inside, and a value that was cut is flagged."""
    reply = "ChatMessage(content='So.', role=<ChatRole.ASSISTANT: 'assistant'>, name=None, meta={'model': 'm-2'})"
    read = component(make, "OpenAIChatGenerator", None, {"replies": [reply]})
    cut = make.span(1, {"haystack.pipeline.input_data": '{"a": {"query": "Wh'}, name="haystack.pipeline.run")
    assert ("So.", "m-2", True) == (read.output, read.model, "truncated" in DIALECT.read(cut).flags)


def test_a_call_for_tools_and_their_results(make: Make) -> None:
    """Tool calls and results are parts of chat messages."""
    asks = {"role": "assistant", "content": [{"tool_call": {"tool_name": "find", "arguments": {}}}]}
    chosen = component(make, "OpenAIChatGenerator", {"messages": []}, {"replies": [asks]})
    found = json.dumps([{"id": "d1", "content": "Parcels."}])
    told = {"_role": "tool", "_content": [{"tool_call_result": {"result": found, "error": False}}]}
    results = component(make, "ToolInvoker", {}, {"tool_messages": [told]})
    assert (None, 1, ["d1"]) == (chosen.output, chosen.tool_calls, [c.id for c in results.documents or ()])


def test_nothing_found(make: Make) -> None:
    """An empty list is a retrieval that found nothing; without content tracing nobody knows."""
    assert () == component(make, "InMemoryBM25Retriever", {"query": "q"}, {"documents": []}).documents
    assert component(make, "InMemoryBM25Retriever").documents is None


@pytest.mark.parametrize(
    "printed",
    [
        "{'retriever': {'query': 'Why?', 'top_k': 3}, 'prompt_builder': {'question': 'Why?'}}",
        "{'llm': {'streaming_callback': <function f at 0x7f>}, 'prompt_builder': {'question': 'Why?'}}",
        "{'llm': {'messages': [ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[TextContent(text='Why?')])]}}",
    ],
)
def test_a_printed_input(make: Make, printed: str) -> None:
    """What is no JSON Haystack prints as Python does; the question is in it and not the whole of it."""
    assert (
        "Why?"
        == DIALECT.read(make.span(1, {"haystack.pipeline.input_data": printed}, name="haystack.pipeline.run")).query
    )
