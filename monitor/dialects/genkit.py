"""Genkit: `genkit:type` and `genkit:metadata:subtype`, input and output of every action as JSON."""

from __future__ import annotations

from dataclasses import replace

from monitor.extract.attributes import integer, is_mapping, mapping, text
from monitor.extract.convention import Convention, Setup, Table
from monitor.extract.operations import decoded_value, step_with_io
from monitor.model.spans import Role, Span, Step

NAME = "genkit"

TABLE = Table(facets=(("agent", "genkit:metadata:flow:name"),))

KIND, SUBTYPE = "genkit:type", "genkit:metadata:subtype"
ROLES = {
    "flow": Role.CHAIN,
    "model": Role.LLM,
    "background-model": Role.LLM,
    "retriever": Role.RETRIEVAL,
    "reranker": Role.RERANK,
    "embedder": Role.EMBEDDING,
    "indexer": Role.DB,
    "tool": Role.TOOL,
    "tool.v2": Role.TOOL,
    "evaluator": Role.EVALUATION,
    "prompt": Role.NOISE,
    "executable-prompt": Role.CHAIN,
    "promptTemplate": Role.NOISE,
}
INPUT, OUTPUT = "genkit:input", "genkit:output"


def claims(span: Span) -> bool:
    """Return whether the span names its Genkit type."""
    return KIND in span.attributes


def role(span: Span) -> Role:
    """Return the role of the action's subtype, else of its type; flow steps and utilities wrap others."""
    kind = text(span.attributes, SUBTYPE) or text(span.attributes, KIND) or ""
    return ROLES.get(kind, Role.CHAIN)


def read(span: Span) -> Step:
    """Translate one action; a model is named `plugin/model`, and its reply may hold the provider's own."""
    attributes = span.attributes
    step = TABLE.step(span, role(span), NAME)
    inputs, outputs = decoded_value(attributes.get(INPUT)), decoded_value(attributes.get(OUTPUT))
    failed = attributes.get("genkit:state") == "error"
    step = replace(step, error=step.error or ("error" if failed else None))
    if step.role is Role.TOOL:
        step = replace(step, tool=text(attributes, "genkit:name"))
    if step.role is not Role.LLM:
        return step_with_io(step, inputs, outputs)
    usage = mapping(outputs.value, "usage") if is_mapping(outputs.value) else {}
    name = text(attributes, "genkit:name")
    step = replace(
        step,
        request_model=name.rpartition("/")[2] if name else None,
        input_tokens=integer(usage, "inputTokens"),
        output_tokens=integer(usage, "outputTokens"),
    )
    return step_with_io(step, inputs, outputs)


DIALECT = Convention(
    name=NAME,
    priority=59,
    url="https://genkit.dev/docs/observability/getting-started/",
    versions="genkit 1",
    setup=Setup(
        lines=(
            "OTEL_EXPORTER_OTLP_ENDPOINT=http://rag-monitor:4318\n"
            'new NodeSDK({ serviceName: "shop", traceExporter: new OTLPTraceExporter() }).start()'
        ),
        session="sessionId and userId in the input of the flow around a turn",
        documents="ai.retrieve() of a retriever; documents say their id in metadata",
    ),
    claims=claims,
    role=role,
    read=read,
)
