"""Confident AI's spans, one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.dialects.confident import DIALECT, ROLES
from monitor.model.spans import Attributes, Role, Step

if TYPE_CHECKING:
    from tests.monitor.conftest import Make


def step(make: Make, kind: str, attributes: Attributes) -> Step:
    """A span of a type."""
    return DIALECT.read(make.span(1, {"confident.span.type": kind, **attributes}))


@pytest.mark.parametrize(("kind", "role"), [*ROLES.items(), ("custom", Role.CHAIN)])
def test_types(make: Make, kind: str, role: Role) -> None:
    """Every type has its role; one nobody has heard of wraps others."""
    span = make.span(1, {"confident.span.type": kind})
    assert (True, role, role) == (DIALECT.claims(span), DIALECT.role(span), DIALECT.read(span).role)


def test_a_span_of_another_convention(make: Make) -> None:
    """A thread id that was put on another convention's span does not make it one of Confident's."""
    assert not DIALECT.claims(make.span(1, {"confident.trace.thread_id": "s", "gen_ai.operation.name": "chat"}))


def test_what_was_set_for_the_trace(make: Make) -> None:
    """A root without a type tells the turn."""
    read = DIALECT.read(
        make.span(
            1,
            {
                "confident.trace.input": "Why?",
                "confident.trace.output": "So.",
                "confident.trace.retrieval_context": ["Text."],
            },
        )
    )
    assert ("Why?", "So.", "Text.") == (
        read.query,
        read.response,
        read.documents[0].content if read.documents else None,
    )


def test_a_retriever(make: Make) -> None:
    """A retriever's context is its documents, whatever text it put out; no context is an empty retrieval."""
    found = step(
        make, "retriever", {"confident.span.output": "one text", "confident.span.retrieval_context": ["a", "b"]}
    )
    empty = step(make, "retriever", {"confident.span.input": "Why?", "confident.span.retrieval_context": []})
    assert (["a", "b"], (), "Why?") == (
        [one.content for one in found.documents or ()],
        empty.documents,
        empty.retrieval_query,
    )


def test_a_tool(make: Make) -> None:
    """A tool has a name, and its result may be documents."""
    made = '[{"id": "a", "text": "Text."}]'
    read = step(make, "tool", {"confident.tool.name": "search", "confident.span.output": made})
    assert ("search", "a") == (read.tool, read.documents[0].id if read.documents else None)


def test_a_custom_span_that_searches(make: Make) -> None:
    """Below another, the name of a span without a telling type may tell that it retrieves."""
    made = {"confident.span.type": "custom", "confident.span.output": '["Text."]'}
    read = DIALECT.read(make.span(2, made, parent=1, name="retrieve"))
    assert (Role.RETRIEVAL, ["Text."]) == (read.role, [found.content for found in read.documents or ()])
