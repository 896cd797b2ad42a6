"""Observations of Spring AI, one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.dialects.spring_ai import DIALECT
from monitor.model.spans import Attributes, Role

if TYPE_CHECKING:
    from tests.monitor.conftest import Make


@pytest.mark.parametrize(
    ("attributes", "role"),
    [
        ({"spring.ai.kind": "chat_client"}, Role.CHAIN),
        ({"spring.ai.kind": "advisor"}, Role.NOISE),
        ({"spring.ai.kind": "vector_store", "db.operation.name": "query"}, Role.RETRIEVAL),
        ({"spring.ai.kind": "vector_store", "db.operation.name": "add"}, Role.DB),
        ({"spring.ai.kind": "tool_call"}, Role.TOOL),
        ({"gen_ai.operation.name": "chat", "gen_ai.system": "openai"}, Role.LLM),
        ({"gen_ai.operation.name": "embedding", "gen_ai.system": "openai"}, Role.EMBEDDING),
    ],
)
def test_kinds(make: Make, attributes: Attributes, role: Role) -> None:
    """The kind of an observation tells what it does, or its operation where it has none."""
    span = make.span(1, attributes, scope="org.springframework.boot")
    assert (True, role) == (DIALECT.claims(span), DIALECT.role(span))


def test_texts_found_in_an_event(make: Make) -> None:
    """Milestone releases put the documents found into an event, under the name of the text searched for."""
    event = make.event("db.vector.content.query.response", {"db.vector.query.content": ["Parcels take two days."]})
    attributes = {"spring.ai.kind": "vector_store", "db.vector.query.content": "parcels"}
    read = DIALECT.read(make.span(1, attributes, events=[event]))
    assert ("parcels", ["Parcels take two days."]) == (
        read.retrieval_query,
        [citation.content for citation in read.documents or ()],
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('Chat Client Prompt Content:\n["system":"Be "kind".", "user":"Why, "so"?"]', ('Why, "so"?', None)),
        ('Chat Client Completion:\n["So [1], "and", so."]', (None, 'So [1], "and", so.')),
        ("Chat Client Completion:\n[]", (None, None)),
        ("Calling EmbeddingModel for document id = 1", (None, None)),
    ],
)
def test_content_in_the_log(make: Make, body: str, expected: tuple[str | None, str | None]) -> None:
    """What is exported of the log is read as the attributes of earlier releases; nothing in it is escaped."""
    span = make.span(1, {"spring.ai.kind": "chat_client"}, events=[make.event("", {}, body=body, log=True)])
    read = DIALECT.read(span)
    assert expected == (read.query, read.response)


def test_documents_in_the_log(make: Make) -> None:
    """The texts found, none for an empty list."""
    found = {
        body: DIALECT.read(
            make.span(1, {"spring.ai.kind": "vector_store"}, events=[make.event("", {}, body=body, log=True)])
        ).documents
        for body in ('Vector Store Query Response:\n["A "mill"", "B"]', "Vector Store Query Response:\n[]")
    }
    assert [['A "mill"', "B"], []] == [[citation.content for citation in held or ()] for held in found.values()]
    assert None not in found.values()


def test_values_that_are_none(make: Make) -> None:
    """Micrometer writes `none` where a failed call left no model."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.response.model": "none"}
    read = DIALECT.read(make.span(1, attributes, scope="org.springframework.boot"))
    assert (None, "m") == (read.model, read.request_model)


def test_a_current_release(make: Make) -> None:
    """Documents that went to the log are not known, which is not the same as none found."""
    read = DIALECT.read(make.span(1, {"spring.ai.kind": "vector_store", "db.vector.query.content": "parcels"}))
    assert ("parcels", None) == (read.retrieval_query, read.documents)
