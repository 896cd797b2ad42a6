"""TruLens spans, one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.dialects.trulens import DIALECT, ROLES
from monitor.model.spans import Attributes, Role, Step

if TYPE_CHECKING:
    from tests.monitor.conftest import Make


def step(make: Make, kind: str, attributes: Attributes) -> Step:
    """A span of a type; keys without `ai.observability.`."""
    held = {f"ai.observability.{key}": value for key, value in attributes.items()}
    return DIALECT.read(make.span(1, {"ai.observability.span_type": kind, **held}))


@pytest.mark.parametrize(("kind", "role"), [*ROLES.items(), ("unknown", Role.CHAIN)])
def test_types(make: Make, kind: str, role: Role) -> None:
    """Every type has its role; one nobody has heard of wraps others."""
    span = make.span(1, {"ai.observability.span_type": kind})
    assert (True, role, role) == (DIALECT.claims(span), DIALECT.role(span), DIALECT.read(span).role)


def test_a_function_with_history(make: Make) -> None:
    """The arguments of a recorded function are attributes of their own."""
    read = step(
        make,
        "unknown",
        {
            "call.kwargs.question": "Why?",
            "call.kwargs.history": '[{"role": "user", "content": "Hi"}]',
            "call.return": '{"answer": "So."}',
        },
    )
    assert ("Why?", ["Hi"], "So.") == (read.query, [m.content for m in read.history or ()], read.response)


def test_contexts(make: Make) -> None:
    """Contexts are texts; when the function returned the same with ids and scores, those are kept."""
    texts = {"retrieval.query_text": "Why?", "retrieval.retrieved_contexts": ["Text."]}
    plain = step(make, "retrieval", texts)
    rich = step(make, "retrieval", {**texts, "call.return": '[{"id": "a", "text": "Text.", "score": 0.5}]'})
    assert ("Why?", [(None, "Text.")], [("a", "Text.")]) == (
        plain.retrieval_query,
        [(found.id, found.content) for found in plain.documents or ()],
        [(found.id, found.content) for found in rich.documents or ()],
    )


def test_nothing_found(make: Make) -> None:
    """An empty array is a retrieval that found nothing."""
    assert () == step(make, "retrieval", {"retrieval.retrieved_contexts": []}).documents


@pytest.mark.parametrize(
    ("told", "error"), [("ValueError: no such thing", "ValueError"), ("the model said no", "error")]
)
def test_an_error(make: Make, told: str, error: str) -> None:
    """What a function raised is kept as a class, never as a message."""
    assert error == step(make, "record_root", {"record_root.error": told}).error


def test_a_function_that_searches(make: Make) -> None:
    """A recorded function without a type is named by its path, whose last word may tell that it retrieves."""
    made = {"ai.observability.span_type": "unknown", "ai.observability.call.return": '["Text."]'}
    read = DIALECT.read(make.span(2, made, parent=1, name="app.Rag.retrieve"))
    assert (Role.RETRIEVAL, ["Text."]) == (read.role, [found.content for found in read.documents or ()])


def test_a_root_with_history(make: Make) -> None:
    """A root says what was asked; what had been said before stands among the arguments."""
    read = step(
        make,
        "record_root",
        {
            "record_root.input": "Why?",
            "call.kwargs.history": '[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]',
            "record_root.output": "So.",
        },
    )
    assert ("Why?", ["Hi", "Hello."], "So.") == (read.query, [m.content for m in read.history or ()], read.response)


def test_a_streamed_root(make: Make) -> None:
    """Of a stream the root keeps the last piece; the function's return has all of them."""
    pieces = ["", "On", " Friday", ".", ""]
    read = step(make, "record_root", {"record_root.output": ".", "call.return": pieces})
    assert "On Friday." == read.response
