"""Confident AI and DeepEval: `confident.span.*` on each span, `confident.trace.*` for the whole turn."""

from __future__ import annotations

from dataclasses import replace

from monitor.extract.attributes import text
from monitor.extract.component_names import role_by_name
from monitor.extract.convention import Convention, Setup, Table
from monitor.extract.documents import documents
from monitor.extract.operations import DecodedValue, decoded_value, step_with_io
from monitor.extract.session_and_user import SessionAndUserKeys
from monitor.model.spans import Role, Span, Step

NAME = "confident"

TABLE = Table(
    request_model=("confident.llm.model",),
    input_tokens=("confident.llm.input_token_count",),
    output_tokens=("confident.llm.output_token_count",),
    facets=(
        ("agent", "confident.agent.name"),
        ("top_k", "confident.retriever.top_k"),
        ("query_embedding_model", "confident.retriever.embedder"),
        ("prompt_template", "confident.llm.prompt.alias"),
        ("prompt_version", "confident.llm.prompt.version"),
    ),
)

KIND = "confident.span.type"
ROLES = {
    "agent": Role.AGENT,
    "llm": Role.LLM,
    "retriever": Role.RETRIEVAL,
    "tool": Role.TOOL,
}
INPUT, OUTPUT, CONTEXT = "confident.span.input", "confident.span.output", "confident.span.retrieval_context"
TRACE_INPUT, TRACE_OUTPUT = "confident.trace.input", "confident.trace.output"
TRACE_CONTEXT = "confident.trace.retrieval_context"
_MARKS = (KIND, INPUT, OUTPUT, CONTEXT, TRACE_INPUT, TRACE_OUTPUT, TRACE_CONTEXT)
_PLAIN = {"", "custom"}


def claims(span: Span) -> bool:
    """Return whether the span names its type or holds content in Confident's keys."""
    return not span.attributes.keys().isdisjoint(_MARKS)


def role(span: Span) -> Role:
    """Return the role of the span's type, without one by its name; types nobody has heard of wrap others."""
    kind = str(span.attributes.get(KIND, "")).lower()
    if kind in _PLAIN and span.parent_id is not None:
        return role_by_name(span.name) or Role.CHAIN
    return ROLES.get(kind, Role.CHAIN)


def read(span: Span) -> Step:
    """Translate one span; what was set for the trace is the root's own word."""
    attributes = span.attributes
    step = TABLE.step(span, role(span), NAME)
    inputs, outputs = attributes.get(INPUT), attributes.get(OUTPUT)
    context = documents(attributes.get(CONTEXT), trusted=True)
    if step.role in {Role.CHAIN, Role.AGENT}:
        inputs = text(attributes, TRACE_INPUT) or inputs
        outputs = text(attributes, TRACE_OUTPUT) or outputs
        context = context or documents(attributes.get(TRACE_CONTEXT), trusted=True)
    if step.role is Role.TOOL:
        step = replace(step, tool=text(attributes, "confident.tool.name", "confident.span.name"))
    # A retriever's output is only a text made of its context.
    step = step_with_io(
        step,
        decoded_value(inputs),
        DecodedValue() if context and step.role is Role.RETRIEVAL else decoded_value(outputs),
    )
    return step if context is None else replace(step, documents=context.citations)


DIALECT = Convention(
    name=NAME,
    priority=62,
    url="https://www.confident-ai.com/docs/integrations/opentelemetry",
    versions="deepeval 3",
    setup=Setup(
        lines=(
            "confident.span.input, confident.span.output and confident.span.retrieval_context\n"
            "on spans of your own, or deepeval's OpenTelemetry exporter"
        ),
        session="confident.trace.thread_id and confident.trace.user_id",
        documents="confident.span.retrieval_context, an array of texts",
    ),
    session_and_user=SessionAndUserKeys(
        session_id=("confident.trace.thread_id",), user_id=("confident.trace.user_id",)
    ),
    claims=claims,
    role=role,
    read=read,
)
