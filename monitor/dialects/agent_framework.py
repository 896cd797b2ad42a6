"""Microsoft Agent Framework: OpenTelemetry GenAI for agents, models and tools, and spans of its workflow engine.

A workflow run wraps the agents in it; executors and messages between them say nothing of a turn.
"""

from __future__ import annotations

from dataclasses import replace

from monitor.extract import genai
from monitor.extract.convention import Convention, Setup
from monitor.model.spans import Role, Span, Step

NAME = "agent_framework"

TABLE = replace(genai.TABLE, facets=(*genai.TABLE.facets, ("agent", "workflow.name")))

SCOPES = ("agent_framework", "Microsoft.Agents.AI", "Experimental.Microsoft.Agents.AI", "Microsoft.Agents.AI.Workflows")
WORKFLOWS = {"workflow.run": Role.CHAIN, "workflow_invoke": Role.CHAIN}
"""Names of spans around a whole run, in Python and in .NET."""


def claims(span: Span) -> bool:
    """Return whether the span comes from one of the framework's tracers."""
    return span.scope.startswith(SCOPES)


def role(span: Span) -> Role:
    """Return the role of the span's operation, else what its place in a workflow is."""
    operation = genai.operation_of(span)
    if operation is not None:
        return genai.ROLES.get(operation, Role.CHAIN)
    return WORKFLOWS.get(span.name.partition(" ")[0], Role.NOISE)


def read(span: Span) -> Step:
    """Translate one span."""
    span_role = role(span)
    if genai.operation_of(span) is None:
        return TABLE.step(span, span_role, NAME)
    return replace(genai.read(span), role=span_role, dialect=NAME)


DIALECT = Convention(
    name=NAME,
    priority=85,
    url="https://learn.microsoft.com/en-us/agent-framework/user-guide/agents/agent-observability",
    versions="agent-framework 1.0 to 1.23 for Python, Microsoft.Agents.AI for .NET",
    setup=Setup(
        lines=(
            "pip install agent-framework opentelemetry-exporter-otlp-proto-http\n"
            "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf OTEL_EXPORTER_OTLP_ENDPOINT=http://rag-monitor:4318\n"
            "ENABLE_INSTRUMENTATION=true\n"
            "configure_otel_providers()"
        ),
        content="ENABLE_SENSITIVE_DATA=true",
        session="set session.id on a span of your own around the turn",
        documents="let the tool that retrieves return objects with id and content",
    ),
    claims=claims,
    role=role,
    read=read,
)
