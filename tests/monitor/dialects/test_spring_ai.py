"""Observations of Spring AI, one at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from monitor.dialects.spring_ai import DIALECT
from monitor.model.spans import Attributes, AttributeValue, Event, Role, Span

if TYPE_CHECKING:
    from tests.monitor.conftest import Make, Turns


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
        ('Chat Client Completion:\n["Either "so", "thus", or "not"."]', (None, 'Either "so", "thus", or "not".')),
        ('Chat Client Completion:\n["One choice.", "Another."]', (None, "One choice.")),
        ("Chat Client Completion:\n[]", (None, None)),
        ("Calling EmbeddingModel for document id = 1", (None, None)),
    ],
)
def test_content_in_the_log(make: Make, body: str, expected: tuple[str | None, str | None]) -> None:
    """What is exported of the log is read as the attributes of earlier releases; nothing in it is escaped."""
    span = make.span(1, {"spring.ai.kind": "chat_client"}, events=[make.event("", {}, body=body, log=True)])
    read = DIALECT.read(span)
    assert expected == (read.query, read.response)


def conversation(make: Make, client: str | None, model: str) -> list[Span]:
    """A chat client's call of a model, as the log of both tells it; the client's prompt may not be logged."""

    def logged(body: str) -> Event:
        return make.event("", {}, body=body, log=True)

    logs = [logged('Chat Client Completion:\n["Yes."]')]
    if client is not None:
        logs.append(logged(f"Chat Client Prompt Content:\n[{client}]"))
    call: dict[str, AttributeValue] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    answered = [logged(f"Chat Model Prompt Content:\n[{model}]"), logged('Chat Model Completion:\n["Yes."]')]
    scope = "org.springframework.boot"
    return [
        make.span(1, {"spring.ai.kind": "chat_client"}, scope=scope, events=logs),
        make.span(2, {"spring.ai.kind": "advisor"}, parent=1, scope=scope),
        make.span(3, call, parent=2, scope=scope, events=answered),
    ]


TOLD = [("user", "Why?"), ("assistant", 'It says "so", "yes".')]


@pytest.mark.parametrize(
    ("client", "model", "history"),
    [
        ('"system":"Be kind.", "user":"And?"', '"Be kind.", "Why?", "It says "so", "yes".", "And?"', TOLD),
        ('"system":"Be kind.", "user":"And?"', '"Why?", "It says "so", "yes".", "Be kind.", "And?"', TOLD),
        ('"system":"Be kind.", "user":"And?"', '"Be kind.", "So.", "Why?", "It says "so", "yes".", "And?"', None),
        ('"system":"A.", "system":"B.", "user":"And?"', '"A.", "B.", "And?"', []),
        ('"system":"Be kind.", "user":"And?"', '"Be kind. MEMORY: Why?", "And?"', []),
        ('"user":"And?"', '"Why?", "It says "so", "yes".", "And?"', TOLD),
        (None, '"Be kind.", "Why?", "It says "so", "yes".", "And?"', TOLD),
        (None, '"Why?", "It says "so", "yes".", "And?"', TOLD),
    ],
)
def test_a_memory_in_the_log(
    make: Make, turns: Turns, client: str | None, model: str, history: list[tuple[str, str]] | None
) -> None:
    """The log of the client tells which texts are instructions, also of a memory whose window begins with an answer."""
    (turn,) = turns(conversation(make, client, model))
    expected = [("assistant", "So."), *TOLD] if history is None else history
    assert expected == [(message.role, message.content) for message in turn.history]
    assert ("And?", "Yes.") == (turn.query, turn.response)


def test_a_question_that_another_call_rewrote(make: Make, turns: Turns) -> None:
    """The template of the call that rewrote it does not overrule what the chat client was asked."""
    template = "Conversation history:\nUSER: And?\n\nFollow-up query:\nAnd?\n\nStandalone query:\n"
    rewriting = [
        replace(span, span_id=make.id(number), parent_id=make.id(parent), start_ns=span.start_ns + number)
        for span, number, parent in zip(
            conversation(make, f'"user":"{template}"', f'"{template}"'), (4, 5, 6), (1, 4, 5), strict=True
        )
    ]
    said = make.event("", {}, body='Chat Model Completion:\n["And?"]', log=True)
    rewriting[2] = replace(rewriting[2], events=(rewriting[2].events[0], said))
    answering = conversation(make, '"user":"And?"', '"And?"')
    answering[2] = replace(answering[2], start_ns=answering[2].start_ns + 10)
    (turn,) = turns([*answering, *rewriting])
    assert ("And?", "Yes.") == (turn.query, turn.response)


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
