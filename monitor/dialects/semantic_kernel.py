"""Semantic Kernel: OpenTelemetry GenAI with older operation names, and content in log records of its own loggers.

Up to 1.37 model calls are `chat.completions` and an agent's messages stand under `gen_ai.agent.invocation_*`. Spans of
the loop around tool calls and of kernel functions without an operation say nothing of a turn.
"""

from __future__ import annotations

from dataclasses import replace

from monitor.extract import genai
from monitor.extract.convention import Convention, Setup
from monitor.model.spans import AttributeValue, Role, Span, Step

NAME = "semantic_kernel"

TABLE = genai.TABLE

SCOPES = ("semantic_kernel", "Microsoft.SemanticKernel")
ROLES = {
    **genai.ROLES,
    "chat.completions": Role.LLM,
    "chat.streaming_completions": Role.LLM,
    "text.completions": Role.LLM,
    "text.streaming_completions": Role.LLM,
}
FORMER = {
    "gen_ai.agent.invocation_input": genai.INPUT,
    "gen_ai.agent.invocation_output": genai.OUTPUT,
    "gen_ai.tool.arguments": "gen_ai.tool.call.arguments",
    "gen_ai.tool.result": "gen_ai.tool.call.result",
}
"""Keys of releases up to 1.37, and what they are called now."""


def claims(span: Span) -> bool:
    """Return whether the span comes from one of the library's tracers."""
    return span.scope.startswith(SCOPES)


def role(span: Span) -> Role:
    """Return the role of the span's operation; without one it is part of the machinery."""
    operation = genai.operation_of(span)
    return Role.NOISE if operation is None else ROLES.get(operation, Role.CHAIN)


def read(span: Span) -> Step:
    """Translate one span under the names of today."""
    span_role = role(span)
    renamed: dict[str, AttributeValue] = {
        now: span.attributes[former]
        for former, now in FORMER.items()
        if former in span.attributes and not span.attributes.get(now)
    }
    if span_role is Role.LLM:
        renamed[genai.OPERATION] = "chat"
    step = genai.read(replace(span, attributes={**span.attributes, **renamed}) if renamed else span)
    return replace(step, span=span, role=span_role, dialect=NAME, streaming=_streams(span) or step.streaming)


def _streams(span: Span) -> bool:
    return "streaming" in str(span.attributes.get(genai.OPERATION, ""))


DIALECT = Convention(
    name=NAME,
    priority=80,
    url="https://learn.microsoft.com/en-us/semantic-kernel/concepts/enterprise-readiness/observability/",
    versions="semantic-kernel 1.19 to 1.45 for Python, Microsoft.SemanticKernel 1.x for .NET",
    setup=Setup(
        lines=(
            "pip install semantic-kernel opentelemetry-exporter-otlp\n"
            "set_tracer_provider(provider); set_logger_provider(logs)"
        ),
        content="SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true",
        remark="questions are log records only: attach a LoggingHandler to the root logger and export logs",
        session="set session.id on a span of your own around the turn",
        documents="let the function that retrieves return objects with id and content",
    ),
    claims=claims,
    role=role,
    read=read,
)
