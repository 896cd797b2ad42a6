"""Langfuse observations, one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.dialects.langfuse import DIALECT, ROLES
from monitor.model.spans import Attributes, Role, Step

if TYPE_CHECKING:
    from tests.monitor.conftest import Make


def step(make: Make, kind: str, attributes: Attributes) -> Step:
    """An observation of a type."""
    return DIALECT.read(make.span(1, {"langfuse.observation.type": kind, **attributes}))


@pytest.mark.parametrize(("kind", "role"), [*ROLES.items(), ("something_new", Role.CHAIN)])
def test_types(make: Make, kind: str, role: Role) -> None:
    """Every type has its role; one nobody has heard of wraps others."""
    span = make.span(1, {"langfuse.observation.type": kind})
    assert (True, role, role) == (DIALECT.claims(span), DIALECT.role(span), DIALECT.read(span).role)


def test_spans_of_others(make: Make) -> None:
    """A session that Langfuse's SDK put on a span of another convention does not make it an observation."""
    assert not DIALECT.claims(make.span(1, {"langfuse.session.id": "s", "gen_ai.operation.name": "chat"}))


def test_what_the_app_set_for_the_trace(make: Make) -> None:
    """The trace's input and output are the app's own words and count before those of the observation."""
    read = step(
        make,
        "span",
        {
            "langfuse.observation.input": '{"args": [], "kwargs": {"request": {"body": 1}}}',
            "langfuse.trace.input": "Why?",
            "langfuse.trace.output": '{"answer": "So."}',
        },
    )
    assert ("Why?", "So.") == (read.query, read.response)


def test_an_error(make: Make) -> None:
    """An error is a level, without an exception event."""
    assert "error" == step(make, "generation", {"langfuse.observation.level": "ERROR"}).error


@pytest.mark.parametrize(
    "usage", ['{"input": 7, "output": 3}', '{"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}']
)
def test_tokens(make: Make, usage: str) -> None:
    """Usage comes in Langfuse's words or in the provider's."""
    read = step(make, "generation", {"langfuse.observation.usage_details": usage})
    assert (7, 3) == (read.input_tokens, read.output_tokens)


def test_an_image(make: Make) -> None:
    """Media that was stored elsewhere does not stand in for the text beside it."""
    messages = (
        '[{"role": "user", "content": [{"type": "text", "text": "What is it?"}, {"type": "image_url", '
        '"image_url": {"url": "@@@langfuseMedia:type=image/png|id=x|source=base64_data_uri@@@"}}]}]'
    )
    read = step(make, "generation", {"langfuse.observation.input": messages})
    assert ["What is it?\n[image]"] == [message.content for message in read.messages or ()]


def test_a_function_that_searches(make: Make) -> None:
    """Decorated functions are mere spans; below another its name may tell that one retrieves."""
    attributes = {"langfuse.observation.type": "span", "langfuse.observation.output": '["Text.", "More."]'}
    inner = DIALECT.read(make.span(2, attributes, parent=1, name="retrieve"))
    outer = DIALECT.read(make.span(1, attributes, name="retrieve"))
    assert (Role.RETRIEVAL, ["Text.", "More."], Role.CHAIN) == (
        inner.role,
        [found.content for found in inner.documents or ()],
        outer.role,
    )
