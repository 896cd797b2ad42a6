"""Properties of turns to slice by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from monitor.model.spans import AttributeValue, Span

if TYPE_CHECKING:
    from tests.monitor.conftest import Make, Turns

ASKED = "How long does the warranty of the pump last?"


def retrieval(make: Make, number: int, searched: str, name: str, **attributes: AttributeValue) -> Span:
    """A retriever below the root."""
    span = make.retrieval(number, searched, {f"d{number}": "The warranty of the pump is two years."}, parent=1)
    return replace(span, name=name, attributes={**span.attributes, **attributes})


def facets(make: Make, turns: Turns, *steps: Span, query: str = ASKED) -> Mapping[str, str]:
    """The facets of a turn with these steps."""
    (turn,) = turns([make.chain(1, query, "It lasts for two years."), *steps])
    return turn.facets


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("VectorStoreRetriever",), "vector"),
        (("BM25Retriever",), "keyword"),
        (("QdrantHybridRetriever",), "hybrid"),
        (("QueryFusionRetriever", "BM25Retriever"), "fusion"),
        (("VectorStoreRetriever", "BM25Retriever"), "hybrid"),
        (("retrieve",), None),
    ],
)
def test_search_type(make: Make, turns: Turns, names: tuple[str, ...], expected: str | None) -> None:
    """Names of retrievers tell how was searched; both kinds side by side are hybrid."""
    steps = [retrieval(make, number, ASKED, name) for number, name in enumerate(names, 2)]
    assert expected == facets(make, turns, *steps).get("search_type")


def test_an_embedded_question(make: Make, turns: Turns) -> None:
    """A retrieval beside an embedding searched for a vector, with that model."""
    kind: dict[str, AttributeValue] = {"openinference.span.kind": "EMBEDDING", "embedding.model_name": "e-1"}
    turn_facets = facets(make, turns, make.span(2, kind, parent=1), retrieval(make, 3, ASKED, "retrieve"))
    assert ("vector", "e-1") == (turn_facets["search_type"], turn_facets["query_embedding_model"])


@pytest.mark.parametrize(
    ("searched", "name", "expected"),
    [
        ((ASKED,), "retrieve", "none"),
        ((ASKED,), "condense_question", "none"),
        (("pump warranty duration",), "retrieve", "rewriting"),
        ((f"{ASKED} The user owns an Aurora.",), "retrieve", "augmentation"),
        ((ASKED, "pump warranty"), "retrieve", "augmentation"),
        (("warranty", "lifetime of a pump"), "retrieve", "decomposition"),
        (("A pump is covered by the maker's warranty, " * 5,), "retrieve", "hyde"),
        (("pump warranty",), "HyDERetriever", "hyde"),
        (("pump", "warranty"), "MultiQueryRetriever", "augmentation"),
    ],
)
def test_query_translation(make: Make, turns: Turns, searched: tuple[str, ...], name: str, expected: str) -> None:
    """What was searched for is held against what was asked; names of spans tell which way it changed."""
    turn_facets = facets(make, turns, *(retrieval(make, number, text, name) for number, text in enumerate(searched, 2)))
    several = str(len(searched)) if len(searched) > 1 else None
    assert (expected, several) == (turn_facets["query_translation"], turn_facets.get("sub_queries"))


@pytest.mark.parametrize(
    ("key", "value"),
    [("db.vector.query.top_k", 4), ("retrieval.top_k", "4"), ("input.value", '{"query": "x", "top_k": 4}')],
)
def test_top_k(make: Make, turns: Turns, key: str, value: AttributeValue) -> None:
    """As an attribute or an argument of what searched."""
    step = retrieval(make, 2, ASKED, "retrieve")
    assert "4" == facets(make, turns, replace(step, attributes={**step.attributes, key: value}))["top_k"]


def test_how_a_model_samples(make: Make, turns: Turns) -> None:
    """A model's top-k is no property of the retrieval."""
    call = make.call(3, [("user", ASKED)], "Two years.", parent=1)
    call = replace(call, attributes={**call.attributes, "gen_ai.request.top_k": 40})
    assert "top_k" not in facets(make, turns, retrieval(make, 2, ASKED, "retrieve"), call)


def test_where_was_searched(make: Make, turns: Turns) -> None:
    """The collection, and the model that its vectors were made with where somebody says."""
    extra: dict[str, AttributeValue] = {"db.collection.name": "manuals", "index.embedding_model": "e-2"}
    step = retrieval(make, 2, ASKED, "retrieve")
    turn_facets = facets(make, turns, replace(step, attributes={**step.attributes, **extra}))
    assert ("manuals", "e-2") == (turn_facets["index"], turn_facets["index_embedding_model"])


def test_reranker(make: Make, turns: Turns) -> None:
    """A reranker is named by its model."""
    attributes: dict[str, AttributeValue] = {
        "openinference.span.kind": "RERANKER",
        "reranker.model_name": "rerank-3",
        "reranker.output_documents.0.document.id": "d2",
    }
    turn_facets = facets(make, turns, retrieval(make, 2, ASKED, "retrieve"), make.span(3, attributes, parent=1, at=0.5))
    assert "rerank-3" == turn_facets["reranker"]


def test_prompt_template(make: Make, turns: Turns) -> None:
    """A template is named by eight characters that change with its text and not with what is put into it."""

    def of(template: str) -> str:
        call = make.call(3, [("user", ASKED)], "It lasts for two years.", parent=1)
        attributes = {**call.attributes, "llm.prompt_template.template": template}
        return facets(make, turns, replace(call, attributes=attributes))["prompt_template"]

    assert (8, True, True) == (len(of("A {x}")), of("A {x}") == of("A {x}"), of("A {x}") != of("B {x}"))


def test_languages(make: Make, turns: Turns) -> None:
    """Of question, answer and documents; too little text has none."""
    turn_facets = facets(make, turns, retrieval(make, 2, ASKED, "r"), query="Wie lange ist die Garantie für die Pumpe?")
    assert ("de", "en", "en") == (
        turn_facets["query_language"],
        turn_facets["response_language"],
        turn_facets["documents_language"],
    )
    assert "query_language" not in facets(make, turns, query="Garantie?")
    assert "ja" == facets(make, turns, query="保証はどのくらいですか")["query_language"]


def test_an_image(make: Make, turns: Turns) -> None:
    """A question about a picture."""
    assert "true" == facets(make, turns, query="What is it?\n[image]")["has_image"]
