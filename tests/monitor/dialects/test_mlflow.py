"""MLflow spans, one at a time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from monitor.dialects.mlflow import DIALECT, ROLES
from monitor.model.spans import AttributeValue, Role, Step

if TYPE_CHECKING:
    from tests.monitor.conftest import Make


def step(make: Make, kind: str, **attributes: AttributeValue) -> Step:
    """A span of a type; attributes as `mlflow.<name>`, in JSON as MLflow writes them."""
    held = {f"mlflow.{name}": json.dumps(value) for name, value in attributes.items()}
    return DIALECT.read(make.span(1, {"mlflow.spanType": json.dumps(kind), **held}))


@pytest.mark.parametrize(("kind", "role"), [*ROLES.items(), ("SOMETHING_NEW", Role.CHAIN)])
def test_types(make: Make, kind: str, role: Role) -> None:
    """Every type has its role, quotation marks and all; one nobody has heard of wraps others."""
    span = make.span(1, {"mlflow.spanType": f'"{kind}"'})
    assert (True, role, role) == (DIALECT.claims(span), DIALECT.role(span), DIALECT.read(span).role)


def test_texts_lose_their_quotation_marks(make: Make) -> None:
    """Plain texts are JSON too."""
    read = step(make, "CHAIN", spanInputs="Why?", spanOutputs='He said "so".')
    assert ("Why?", 'He said "so".') == (read.query, read.response)


def test_a_call(make: Make) -> None:
    """The model that answered is the reply's; the span names the one that was asked for."""
    reply: AttributeValue = {"model": "m-2", "choices": [{"message": {"role": "assistant", "content": "So."}}]}
    read = DIALECT.read(
        make.span(
            1,
            {
                "mlflow.spanType": '"CHAT_MODEL"',
                "mlflow.llm.model": '"m"',
                "mlflow.spanInputs": '{"messages": [{"role": "user", "content": "Why?"}]}',
                "mlflow.spanOutputs": json.dumps(reply),
                "mlflow.chat.tokenUsage": '{"input_tokens": 7, "output_tokens": 3}',
            },
            events=[make.event("mlflow.chunk.item.0", {})],
        )
    )
    assert ("m-2", "m", "So.", 7, 3, True) == (
        read.model,
        read.request_model,
        read.output,
        read.input_tokens,
        read.output_tokens,
        read.streaming,
    )


def test_documents(make: Make) -> None:
    """MLflow's documents have a page_content, metadata and an id."""
    read = step(make, "RETRIEVER", spanInputs={"query": "Why?"}, spanOutputs=[{"page_content": "Text.", "id": "a"}])
    assert ("Why?", "a") == (read.retrieval_query, read.documents[0].id if read.documents else None)


def test_nothing_found(make: Make) -> None:
    """An empty list is a retrieval that found nothing."""
    assert () == step(make, "RETRIEVER", spanOutputs=[]).documents


def test_a_function_that_searches(make: Make) -> None:
    """A traced function has no type; below another its name may tell that one retrieves."""
    made = {"mlflow.spanType": '"UNKNOWN"', "mlflow.spanOutputs": '["Text."]'}
    read = DIALECT.read(make.span(2, made, parent=1, name="retrieve"))
    assert (Role.RETRIEVAL, ["Text."]) == (read.role, [found.content for found in read.documents or ()])
