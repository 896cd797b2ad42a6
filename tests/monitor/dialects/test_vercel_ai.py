"""Spans of the Vercel AI SDK, one at a time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from monitor.dialects.vercel_ai import DIALECT
from monitor.model.spans import Attributes, Role, Step

if TYPE_CHECKING:
    from tests.monitor.conftest import Make


def step(make: Make, operation: str, attributes: Attributes) -> Step:
    """A span of an operation."""
    return DIALECT.read(make.span(1, {"ai.operationId": operation, **attributes}))


@pytest.mark.parametrize(
    ("operation", "role"),
    [
        ("ai.generateText", Role.CHAIN),
        ("ai.streamObject", Role.CHAIN),
        ("ai.generateObject.doGenerate", Role.LLM),
        ("ai.streamText.doStream", Role.LLM),
        ("ai.toolCall", Role.TOOL),
        ("ai.embedMany.doEmbed", Role.EMBEDDING),
        ("ai.rerank", Role.RERANK),
        ("ai.rerank.doRerank", Role.RERANK),
        ("ai.somethingNew", Role.CHAIN),
    ],
)
def test_operations(make: Make, operation: str, role: Role) -> None:
    """The last part of an operation tells its role, under either attribute and by the span's name alone."""
    spans = [
        make.span(1, {"ai.operationId": operation}),
        make.span(1, {"operation.name": f"{operation} helpdesk", "ai.model.id": "m"}),
        make.span(1, {"ai.model.id": "m"}, name=operation),
    ]
    assert [(True, role)] * 3 == [(DIALECT.claims(span), DIALECT.role(span)) for span in spans]


def test_names_of_others(make: Make) -> None:
    """An app's own operation is not claimed for its name."""
    assert not DIALECT.claims(make.span(1, {"operation.name": "ai.rank"}))


@pytest.mark.parametrize(
    "prompt",
    [
        {"prompt": "Why?"},
        {"system": "Be kind.", "prompt": [{"role": "user", "content": "Why?"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Why?"}]}]},
    ],
)
def test_prompts(make: Make, prompt: dict[str, object]) -> None:
    """A prompt is text or messages; it holds all that was said before."""
    read = step(make, "ai.generateText", {"ai.prompt": json.dumps(prompt)})
    assert ("Why?", (), frozenset(), False) == (read.query, read.history, read.unsure, read.streaming)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ({"ai.response.text": "So."}, ("So.", None)),
        ({"ai.result.text": "So."}, ("So.", None)),
        ({"ai.result.object": '{"answer": "So."}'}, ("So.", None)),
        ({"ai.response.object": '{"days": 3}'}, (None, '{"days":3}')),
        ({"ai.response.text": ""}, (None, None)),
    ],
)
def test_results(make: Make, made: Attributes, expected: tuple[str | None, str | None]) -> None:
    """Objects answer by their answer, else as compact JSON."""
    read = step(make, "ai.generateObject", made)
    assert expected == (read.response, read.shapeless)


def test_reranking(make: Make) -> None:
    """The ranking names places in the list of documents."""
    read = step(
        make,
        "ai.rerank",
        {
            "ai.documents": ['{"id": "a", "text": "A"}', '"B"'],
            "ai.ranking": [
                '{"originalIndex": 1, "relevanceScore": 0.9}',
                '{"originalIndex": 0, "relevanceScore": 0.1}',
            ],
        },
    )
    assert [(None, "B", 0.9), ("a", "A", 0.1)] == [(c.id, c.content, c.score) for c in read.documents or ()]


def test_reranking_that_kept_nothing(make: Make) -> None:
    """An empty ranking keeps no document; places without documents to look up say nothing."""
    kept = {
        ranking: step(make, "ai.rerank", {"ai.ranking": ranking, "ai.documents": candidates}).documents
        for ranking, candidates in (("[]", ['"B"']), ('[{"originalIndex": 0}]', []))
    }
    assert [(), None] == list(kept.values())


def test_what_was_searched_for(make: Make) -> None:
    """One embedded value is a search."""
    assert "parcel" == step(make, "ai.embed", {"ai.value": '"parcel"'}).retrieval_query
