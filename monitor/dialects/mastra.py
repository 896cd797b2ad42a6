"""Mastra's exporters for OpenTelemetry: `mastra.span.type`, inputs and outputs of an agent's run as JSON or text.

Releases before 1 write `input` and `output` on every span, later ones `mastra.{type}.input` and, on model calls and
tools, GenAI names. A generation wraps its steps, a step the inference that counts tokens; chunks repeat both.
"""

from __future__ import annotations

from dataclasses import replace

from monitor.extract import genai
from monitor.extract.attributes import is_mapping, is_sequence, mapping, text
from monitor.extract.convention import Convention, Setup, Table
from monitor.extract.operations import DecodedValue, decoded_value, step_with_io
from monitor.extract.session_and_user import SessionAndUserKeys
from monitor.model.spans import Attributes, AttributeValue, Role, Span, Step

NAME = "mastra"

TABLE = Table(
    session_id=("gen_ai.conversation.id", "threadId"),
    model=("gen_ai.response.model", "modelId"),
    request_model=("gen_ai.request.model",),
    input_tokens=("gen_ai.usage.input_tokens",),
    output_tokens=("gen_ai.usage.output_tokens",),
    response_id=("gen_ai.response.id",),
    facets=(("provider", "gen_ai.provider.name"), ("provider", "gen_ai.system"), ("agent", "gen_ai.agent.id")),
)

KIND = "mastra.span.type"
ROLES = {
    "agent_run": Role.AGENT,
    "workflow_run": Role.CHAIN,
    "workflow_step": Role.CHAIN,
    "generic": Role.CHAIN,
    "llm_generation": Role.LLM,
    "model_generation": Role.LLM,
    "model_step": Role.LLM,
    "model_inference": Role.LLM,
    "tool_call": Role.TOOL,
    "mcp_tool_call": Role.TOOL,
    "client_tool_call": Role.TOOL,
    "provider_tool_call": Role.TOOL,
    "rag_embedding": Role.EMBEDDING,
    "rag_vector_operation": Role.DB,
}
INPUTS = ("gen_ai.tool.call.arguments", genai.INPUT, "input")
OUTPUTS = ("gen_ai.tool.call.result", genai.OUTPUT, "output")
_TOOLS = ("toolCalls", "tool_calls")


def claims(span: Span) -> bool:
    """Return whether the span names its Mastra type."""
    return KIND in span.attributes


def role(span: Span) -> Role:
    """Return the role of the span's type; chunks, processors and what nobody has heard of say nothing by themselves."""
    return ROLES.get(_kind(span), Role.NOISE)


def read(span: Span) -> Step:
    """Translate one span; a failed run may have kept only its error's name."""
    attributes, kind = span.attributes, _kind(span)
    step = TABLE.step(span, role(span), NAME)
    if step.role is Role.TOOL:
        step = replace(step, tool=text(attributes, "gen_ai.tool.name"))
    inputs = _body(decoded_value(_first(attributes, f"mastra.{kind}.input", *INPUTS)))
    outputs = decoded_value(_first(attributes, f"mastra.{kind}.output", *OUTPUTS))
    step = step_with_io(step, inputs, outputs)
    if step.role is Role.LLM and is_mapping(outputs.value) and not step.output:
        calls = next((outputs.value[key] for key in _TOOLS if outputs.value.get(key)), ())
        step = replace(step, tool_calls=max(step.tool_calls, len(calls) if is_sequence(calls) else 0))
    if step.role is Role.LLM and step.request_model is None:
        step = replace(step, request_model=text(mapping(attributes, "modelMetadata"), "modelId"))
    return step


def _kind(span: Span) -> str:
    return str(span.attributes.get(KIND, "")).lower()


def _first(attributes: Attributes, *keys: str) -> AttributeValue:
    return next((attributes[key] for key in keys if attributes.get(key)), None)


def _body(inputs: DecodedValue) -> DecodedValue:
    """A step's input is the request's body, or stands in one."""
    body = inputs.value.get("body") if is_mapping(inputs.value) else None
    return inputs if body is None else DecodedValue(body, inputs.cut)


DIALECT = Convention(
    name=NAME,
    priority=58,
    url="https://mastra.ai/reference/observability/tracing/exporters/otel",
    versions="@mastra/otel-exporter 0.3 to 1.4, its AI tracing",
    setup=Setup(
        lines=(
            'new OtelExporter({ resourceAttributes: { "service.version": "1.4.2" }, provider: { custom: {\n'
            '  endpoint: "http://rag-monitor:4318/v1/traces", protocol: "http/protobuf" } } })'
        ),
        remark=(
            "give no span processor that removes input and output; without service.version the release is Mastra's"
        ),
        session="tracingOptions: { metadata: { sessionId, userId } }, or memory: { thread, resource }",
        documents="let the tool that retrieves return objects with id and content",
    ),
    session_and_user=SessionAndUserKeys(metadata_prefixes=("mastra.metadata.",)),
    claims=claims,
    role=role,
    read=read,
)
