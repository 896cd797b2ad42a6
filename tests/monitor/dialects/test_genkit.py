"""Genkit's actions, one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.dialects.genkit import DIALECT
from monitor.model.spans import Attributes, Role

if TYPE_CHECKING:
    from tests.monitor.conftest import Make


@pytest.mark.parametrize(
    ("attributes", "role"),
    [
        ({"genkit:type": "action", "genkit:metadata:subtype": "flow"}, Role.CHAIN),
        ({"genkit:type": "action", "genkit:metadata:subtype": "model"}, Role.LLM),
        ({"genkit:type": "action", "genkit:metadata:subtype": "indexer"}, Role.DB),
        ({"genkit:type": "action", "genkit:metadata:subtype": "evaluator"}, Role.EVALUATION),
        ({"genkit:type": "promptTemplate"}, Role.NOISE),
        ({"genkit:type": "util"}, Role.CHAIN),
        ({"genkit:type": "flowStep"}, Role.CHAIN),
    ],
)
def test_types(make: Make, attributes: Attributes, role: Role) -> None:
    """The subtype of an action tells its role, else the span's type."""
    span = make.span(1, attributes)
    assert (True, role) == (DIALECT.claims(span), DIALECT.role(span))


def test_a_failed_model(make: Make) -> None:
    """The state tells of an error; the model asked for follows the plugin's name."""
    model = {
        "genkit:type": "action",
        "genkit:metadata:subtype": "model",
        "genkit:name": "openai/m",
        "genkit:state": "error",
    }
    read = DIALECT.read(
        make.span(1, {**model, "genkit:input": '{"messages": [{"role": "user", "content": [{"text": "Why?"}]}]}'})
    )
    assert ("error", "m", "Why?") == (
        read.error,
        read.request_model,
        read.messages[0].content if read.messages else None,
    )
