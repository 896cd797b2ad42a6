"""Dialects that keep free-form values: whatever stands in them, nothing is raised and the role is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor import plugins
from monitor.dialects import confident, langfuse, langsmith, mlflow, openlit, openllmetry, trulens
from monitor.model.spans import AttributeValue, Role

if TYPE_CHECKING:
    from tests.monitor.conftest import Make

KINDS: dict[str, tuple[str, list[str]]] = {
    "confident": (confident.KIND, [*confident.ROLES, ""]),
    "langfuse": (langfuse.KIND, [*langfuse.ROLES, "new"]),
    "langsmith": (langsmith.KIND, [*langsmith.ROLES, "new"]),
    "mlflow": (mlflow.KIND, [f'"{kind}"' for kind in mlflow.ROLES]),
    "openlit": ("gen_ai.operation.name", ["chat", "retrieval", "invoke_workflow", "vectordb", "embeddings"]),
    "openllmetry": (openllmetry.KIND, [*openllmetry.KINDS, "new"]),
    "trulens": (trulens.KIND, [*trulens.ROLES, "unknown"]),
    "vector_db": ("db.system", ["chroma", "qdrant"]),
}
KEYS: dict[str, list[str]] = {
    "confident": [confident.TRACE_CONTEXT, confident.INPUT, confident.OUTPUT, confident.CONTEXT],
    "langfuse": [langfuse.INPUT, langfuse.OUTPUT, langfuse.TRACE_INPUT, "langfuse.observation.usage_details"],
    "langsmith": [langsmith.INPUT, langsmith.OUTPUT, "langsmith.metadata.usage_metadata"],
    "mlflow": [mlflow.INPUT, mlflow.OUTPUT, "mlflow.chat.tokenUsage", "mlflow.llm.model", "invocation_params"],
    "openlit": [
        openlit.ARGS, openlit.KWARGS, openlit.WORKFLOW_INPUT, openlit.WORKFLOW_OUTPUT, openlit.PROMPT,
        openlit.COMPLETION, "gen_ai.prompt.0.content", "gen_ai.output.messages", "gen_ai.retrieval.documents",
    ],
    "openllmetry": [
        *openllmetry.INPUTS, *openllmetry.OUTPUTS, "traceloop.entity.name", "llm.request.type",
        "gen_ai.operation.name", "gen_ai.prompt.0.content", "gen_ai.prompt.0.role", "gen_ai.completion.0.content",
        "gen_ai.completion.0.tool_calls.0.name",
    ],
    "trulens": [
        "ai.observability.record_root.input", "ai.observability.record_root.error", trulens.RETURN,
        trulens.ARGUMENTS + "query", *trulens.CONTEXTS,
    ],
    "vector_db": ["db.vector.query.content", "db.vector.query.response.documents", "db.collection.name"],
}  # fmt: skip
TEXTS = st.text(max_size=20) | st.sampled_from(
    [
        "retrieve", "VectorIndexRetriever.task", "chat", "rerank", "__REDACTED__", "NaN", "null", "[[[[[]]]]]",
        '{"args": ["Why?", [{"role": 5}]], "kwargs": []}', '{"inputs": {"messages": [{"lc": 1, "kwargs": {}}]}',
        '{"outputs": {"documents": [{"metadata": "{", "id": {}, "score": "x"}]}}', "('Why?', [", "{'a': object}",
        '{"choices": [{"message": {"content": [{}], "tool_calls": [1]}}], "model": {}}', '{"generations": [[]]}',
        '{"messages": [{"type": "ai", "response_metadata": {"model_name": 5}}]}', "system: a\nuser: b", '["a", 5]',
        '{"output": {"output": {"output": {"output": null}}}}',
    ]
)  # fmt: skip
VALUES: st.SearchStrategy[AttributeValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("name", KINDS)
@given(held=st.data())
@settings(max_examples=40, deadline=None)
def test_any_value(make: Make, name: str, held: st.DataObject) -> None:
    """No value makes the dialect raise, and what it says of a span's role it keeps to unless the span is noise."""
    dialect = plugins.load("dialects", name, "test").DIALECT
    key, kinds = KINDS[name]
    attributes = {key: held.draw(st.sampled_from(kinds)), "telemetry.sdk.name": name}
    attributes |= held.draw(st.dictionaries(st.sampled_from(KEYS[name]), VALUES, max_size=6))
    events = [make.event("db.query.result", {"db.query.result.document": held.draw(VALUES)})]
    span = make.span(1, attributes, events=events if held.draw(st.booleans()) else ())
    assert dialect.claims(span)
    assert dialect.read(span).role in {dialect.role(span), Role.NOISE}
