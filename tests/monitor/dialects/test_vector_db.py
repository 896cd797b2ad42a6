"""Operations on vector databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.dialects.vector_db import DIALECT
from monitor.model.spans import Attributes, AttributeValue, Role

if TYPE_CHECKING:
    from tests.monitor.conftest import Assemble, Make


@pytest.mark.parametrize(
    ("attributes", "scope", "claimed"),
    [
        ({"db.system": "chroma"}, "app", True),
        ({"db.system.name": "Qdrant"}, "app", True),
        ({"db.vector.query.top_k": 3}, "app", True),
        ({"gen_ai.operation.name": "vectordb", "db.system.name": "chroma"}, "openlit.instrumentation.chroma", True),
        ({"db.operation": "query"}, "opentelemetry.instrumentation.milvus", True),
        ({"db.system": "postgresql", "db.statement": "select 1"}, "opentelemetry.instrumentation.asyncpg", False),
        ({"gen_ai.operation.name": "chat"}, "openlit.instrumentation.openai", False),
    ],
)
def test_databases(make: Make, attributes: Attributes, scope: str, claimed: bool) -> None:  # noqa: FBT001 -- a case
    """Databases of vectors are told from others, which say nothing of a turn."""
    assert claimed == DIALECT.claims(make.span(1, attributes, scope=scope))


def test_what_a_query_found(make: Make) -> None:
    """One event per result, nearest first; a distance is not a similarity."""
    result: dict[str, AttributeValue] = {
        "db.query.result.id": "a",
        "db.query.result.distance": 0.25,
        "db.query.result.metadata": '{"title": "T"}',
        "db.query.result.document": "Text.",
    }
    read = DIALECT.read(make.span(1, {"db.system": "chroma"}, events=[make.event("db.query.result", result)]))
    assert read.documents is not None
    (found,) = read.documents
    assert (Role.DB, "a", "Text.", 0.25, "distance", "T") == (
        read.role,
        found.id,
        found.content,
        found.score,
        found.score_kind,
        found.title,
    )


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("db.search.result", {"db.search.result.id": "a", "db.search.result.entity": '{"text": "Text."}'}),
        ("db.pinecone.query.result", {"db.query.result.id": "a", "db.query.result.metadata": '{"text": "Text."}'}),
        ("db.vector.content.query.response", {"db.vector.query.content": ["Text."]}),
        ("db.search.result", {"db.search.result.id": 3, "db.search.result.entity": "{'text': 'Text.', 'doc': 'kb-1'}"}),
        ("db.query.result", {"db.query.result.id": "a", "db.query.result.metadata": "{'text': 'Text.'}"}),
        ("db.query.result", {"id": 3, "text": "Text."}),
        ("db.query.result", {"_id": "a", "_score": 0.5, "text": "Text."}),
    ],
)
def test_other_events(make: Make, name: str, fields: dict[str, AttributeValue]) -> None:
    """Milvus, Pinecone, Marqo and early Spring AI say the same in other words, objects as Python prints them."""
    read = DIALECT.read(make.span(1, {"db.system": "other"}, events=[make.event(name, fields)]))
    assert ["Text."] == [found.content for found in read.documents or ()]
    assert "metadata_unread" not in read.flags


def test_a_query_that_only_counts(make: Make) -> None:
    """A span that says how many results came, not which, leaves the documents unknown."""
    attributes: dict[str, AttributeValue] = {
        "db.system": "qdrant",
        "qdrant.search.collection_name": "kb",
        "db.vector.query.top_k": 4,
    }
    read = DIALECT.read(make.span(1, attributes))
    assert (None, {"index": "kb", "top_k": "4"}) == (read.documents, read.facets)


def test_a_query_that_found_nothing(make: Make) -> None:
    """OpenLLMetry's Chroma queries list every result, so none is an empty retrieval; adding is no retrieval."""
    scope = "opentelemetry.instrumentation.chromadb"
    empty, failed, added = (
        DIALECT.read(make.span(1, {"db.system": "chroma", "db.operation": operation}, scope=scope, status=status))
        for operation, status in (("query", 0), ("query", 2), ("add", 0))
    )
    assert ((), None, None) == (empty.documents, failed.documents, added.documents)


@pytest.mark.parametrize("key", ["db.pinecone.query.result_count", "db.milvus.search.result_count"])
def test_a_count_of_none(make: Make, key: str) -> None:
    """A search that says it found no row is an empty retrieval, unless it failed."""
    empty, failed = (DIALECT.read(make.span(1, {"db.system": "x", key: 0}, status=status)) for status in (0, 2))
    assert ((), None) == (empty.documents, failed.documents)


def test_what_was_searched_for(make: Make) -> None:
    """Spring AI's vector stores name the query text, and the documents where an app adds them."""
    attributes: dict[str, AttributeValue] = {
        "spring.ai.kind": "vector_store",
        "db.vector.query.content": "Why?",
        "db.vector.query.response.documents": '[{"id": "a", "text": "Text."}]',
    }
    read = DIALECT.read(make.span(1, attributes))
    assert ("Why?", "a") == (read.retrieval_query, read.documents[0].id if read.documents else None)


def test_filling_a_database_is_no_turn(make: Make, assemble: Assemble) -> None:
    """Writing to a collection is nobody's question."""
    assert () == assemble([make.span(1, {"db.system": "chroma", "db.operation": "add"}, name="chroma.add")]).turns
