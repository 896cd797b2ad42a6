"""Spans of LlamaIndex's observer, one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.dialects.llamaindex import DIALECT
from monitor.model.spans import Role

if TYPE_CHECKING:
    from tests.monitor.conftest import Make


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("CondensePlusContextChatEngine.chat", Role.CHAIN),
        ("RetrieverQueryEngine.aquery", Role.CHAIN),
        ("FunctionAgent.run", Role.AGENT),
        ("BM25Retriever.retrieve", Role.RETRIEVAL),
        ("BM25Retriever._retrieve", Role.NOISE),
        ("OpenAIEmbedding.get_query_embedding", Role.EMBEDDING),
        ("FunctionTool.acall", Role.TOOL),
        ("TokenTextSplitter.split_text", Role.NOISE),
    ],
)
def test_methods(make: Make, name: str, role: Role) -> None:
    """Without events, class and method tell what a span does."""
    assert role == DIALECT.role(make.span(1, {}, name=name, scope="llamaindex.opentelemetry.tracer"))


@pytest.mark.parametrize(
    ("event", "role"),
    [
        ("ReRankEndEvent", Role.RERANK),
        ("LLMCompletionStartEvent", Role.LLM),
        ("SparseEmbeddingEndEvent", Role.EMBEDDING),
        ("QueryStartEvent", Role.CHAIN),
        ("AgentToolCallEvent", Role.TOOL),
    ],
)
def test_events(make: Make, event: str, role: Role) -> None:
    """Events tell it whatever the class is called."""
    span = make.span(1, {}, name="Mine.do", scope="llamaindex.opentelemetry.tracer", events=[make.event(event, {})])
    assert role == DIALECT.role(span)


def test_a_completion(make: Make) -> None:
    """A prompt and a text; the model's own words for model and tokens."""
    fields = {
        "prompt": "Rephrase.",
        "response.text": "Rephrased.",
        "response.raw.model": "m-2",
        "response.raw.usage.prompt_tokens": 3,
        "response.raw.usage.completion_tokens": 1,
        "response.raw.id": "r-1",
    }
    read = DIALECT.read(make.span(1, {}, events=[make.event("LLMCompletionEndEvent", fields)]))
    assert ("Rephrase.", "Rephrased.", "m-2", 3, 1, "r-1") == (
        read.messages[0].content if read.messages else None,
        read.output,
        read.model,
        read.input_tokens,
        read.output_tokens,
        read.response_id,
    )


def test_a_call_for_tools(make: Make) -> None:
    """A model that asks for a tool says nothing."""
    fields = {"response.message.blocks": '[{"block_type": "tool_call", "tool_name": "find", "tool_kwargs": {}}]'}
    read = DIALECT.read(make.span(1, {}, events=[make.event("LLMChatEndEvent", fields)]))
    assert (None, 1) == (read.output, read.tool_calls)
