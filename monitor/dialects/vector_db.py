"""Vector databases: what a query found, on span events (OpenLLMetry), and which collection was asked.

Known are Chroma, Pinecone, Milvus, Marqo and others as OpenLLMetry describes them (objects as JSON or as Python prints
them), Qdrant, OpenLIT's `vectordb` operations (which say how many rows came back, not which), and Spring AI's vector
stores.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from monitor.extract.attributes import integer, is_mapping
from monitor.extract.convention import Convention, FacetKeys, Setup, Table
from monitor.extract.documents import Documents, documents
from monitor.extract.json_text import unwrap
from monitor.extract.operations import decoded_value, step_with_documents
from monitor.model.spans import AttributeValue, Event, Role, Span, Step

NAME = "vector_db"

TABLE = Table(
    retrieval_query=("db.vector.query.content",),
    facets=(
        ("index", "db.collection.name"),
        ("index", "db.chroma.collection.name"),
        ("index", "qdrant.search.collection_name"),
        ("index", "qdrant.query.collection_name"),
        ("index", "qdrant.search_batch.collection_name"),
        ("index", "db.milvus.search.collection_name"),
        ("index", "db.weaviate.collection.name"),
        ("top_k", "db.vector.query.top_k"),
        ("top_k", "db.chroma.query.n_results"),
        ("top_k", "db.pinecone.query.top_k"),
        ("top_k", "db.milvus.search.limit"),
    ),
)

_SYSTEMS = frozenset((
    "chroma", "chromadb", "qdrant", "pinecone", "weaviate", "milvus", "lancedb", "marqo", "vespa", "pgvector",
    "astra", "astradb", "faiss", "vald", "deeplake", "turbopuffer",
))  # fmt: skip
_SCOPES = re.compile(
    r"(?:opentelemetry\.instrumentation\.|openlit\.instrumentation\.)?"
    r"(?:chroma(?:db)?|qdrant(?:[_-]client)?|pinecone|weaviate|milvus|pymilvus|lancedb|marqo|astra)"
)
_CHROMA = "opentelemetry.instrumentation.chromadb"
_RESULT = re.compile(r"db\.(?:\w+\.)?(?:query|search|retrieve)\.result")
_COUNT = re.compile(r"(?:db\.)?(?:\w+\.)?(?:query|search)\.result_count")
_PREFIX = re.compile(r"\A(?:db\.)?(?:\w+\.)?(?:query|search|retrieve)\.result\.")
_FOUND = ("db.vector.query.response.documents", "db.retrieval.documents")
_SPRING_EVENT, _SPRING_CONTENT = "db.vector.content.query.response", "db.vector.query.content"


def claims(span: Span) -> bool:
    """Return whether the span is an operation on a vector database; other databases are only transport."""
    attributes = span.attributes
    system = str(attributes.get("db.system.name") or attributes.get("db.system") or "").lower()
    if system in _SYSTEMS or attributes.get("gen_ai.operation.name") == "vectordb":
        return True
    if any(key.startswith("db.vector.") for key in attributes):
        return True
    return any(_RESULT.fullmatch(event.name) for event in span.events) or (
        bool(_SCOPES.fullmatch(span.scope)) and any(key.startswith("db.") for key in attributes)
    )


def role(span: Span) -> Role:  # noqa: ARG001 -- every span of this kind does the same
    """Return that the span asks or fills a database."""
    return Role.DB


def read(span: Span) -> Step:
    """Translate one operation; documents are known only when it says which ones it found."""
    step = TABLE.step(span, Role.DB, NAME)
    read = _from_events(span.events)
    for key in _FOUND:
        if read is None and key in span.attributes:
            read = documents(unwrap(span.attributes[key]), trusted=True)
    if read is None and step.error is None and _found_nothing(span):
        read = Documents(())
    return step_with_documents(step, read)


def _found_nothing(span: Span) -> bool:
    """Whether a search counted no row, or would have written an event for each."""
    attributes = span.attributes
    if any(_COUNT.fullmatch(key) and integer(attributes, key) == 0 for key in attributes):
        return True
    return span.scope == _CHROMA and attributes.get("db.operation") == "query"


def _from_events(events: Sequence[Event]) -> Documents | None:
    """One event per result, or one event with the texts of all."""
    rows: list[AttributeValue] = []
    for event in events:
        if _RESULT.fullmatch(event.name):
            # Milvus' `query` and Marqo write a row as it is, others below a prefix; `_id` and `_score` are Marqo's.
            fields = {_PREFIX.sub("", key).lstrip("_"): value for key, value in event.attributes.items()}
            entity, metadata = (decoded_value(fields.get(key)).value for key in ("entity", "metadata"))
            rows.append({**(entity if is_mapping(entity) else {}), **fields, "metadata": metadata})
        elif event.name == _SPRING_EVENT:
            texts = event.attributes.get(_SPRING_CONTENT)
            rows += [texts] if isinstance(texts, str) else list(texts) if isinstance(texts, list | tuple) else []
    return documents(rows, trusted=True) if rows else None


DIALECT = Convention(
    name=NAME,
    priority=106,
    url="https://opentelemetry.io/docs/specs/semconv/database/",
    versions="OpenLLMetry 0.33 to 0.62, OpenLIT 1.34 to 1.45, Spring AI 1.0",
    setup=Setup(
        lines=(
            "pip install opentelemetry-instrumentation-chromadb  # or -qdrant, -pinecone, -weaviate, -milvus\n"
            "ChromaInstrumentor().instrument()"
        ),
        content=None,
        session="set session.id on the span around the turn",
        documents="Chroma emits what it found; others only count",
    ),
    facet_keys=FacetKeys(component=("db.operation.name",)),
    claims=claims,
    role=role,
    read=read,
)
