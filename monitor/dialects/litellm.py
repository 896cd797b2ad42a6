"""LiteLLM's `otel` callback: a call in GenAI names, and the provider's request and reply again as Python prints them.

A call has a span of its own, unless another one is open: then the attributes stand on that (the proxy's server span, or
one of the app). Both may be named by the app (`generation_name`); the second, `raw_gen_ai_request`, says nothing new.
"""

from __future__ import annotations

from dataclasses import replace

from monitor.extract import genai
from monitor.extract.attributes import text
from monitor.extract.convention import Convention, Setup
from monitor.extract.operations import decoded_value
from monitor.extract.session_and_user import SessionAndUserKeys, session_in_input, user_in_input
from monitor.model.spans import Role, Span, Step

NAME = "litellm"

TABLE = replace(genai.TABLE, streaming=("llm.is_streaming",))

SCOPE, REQUEST = "litellm", "llm.request.type"
OWN = ("litellm.call_id", "litellm.provider.model", "metadata.requester_metadata")
"""Keys of the callback and of no other instrumentation."""
FLATTENED = ("gen_ai.prompt.", "gen_ai.completion.")
"""What former releases wrote, as OpenLLMetry does."""
SERVER = frozenset(("Received Proxy Server Request", "Failed Proxy Server Request"))


def claims(span: Span) -> bool:
    """Return whether the callback made the span, or wrote a call on it; messages that are flattened are not its own."""
    attributes = span.attributes
    if REQUEST in attributes or genai.OPERATION in attributes:
        has_messages = genai.INPUT in attributes or genai.OUTPUT in attributes
        return any(key in attributes for key in OWN) or (span.scope == SCOPE and has_messages)
    return span.scope == SCOPE and not any(
        key.startswith(("gen_ai.prompt.", "gen_ai.completion.")) for key in attributes
    )


def role(span: Span) -> Role:
    """Return the role of the call; the proxy's request carries one, and what else the callback writes is noise."""
    if genai.OPERATION in span.attributes:
        return genai.role(span)
    request = text(span.attributes, REQUEST)
    if request is not None:
        return Role.EMBEDDING if "embedding" in request else Role.LLM
    return Role.TRANSPORT if span.name in SERVER else Role.NOISE


def read(span: Span) -> Step:
    """Translate one span; ids that came with the request stand in its metadata."""
    span_role = role(span)
    genai_step = genai.read(span)
    metadata = decoded_value(span.attributes.get("metadata.requester_metadata")).value
    return replace(
        genai_step,
        dialect=NAME,
        role=span_role,
        session_id=genai_step.session_id or session_in_input(metadata),
        user_id=genai_step.user_id or user_in_input(metadata),
        streaming=genai_step.streaming or TABLE.step(span, span_role, NAME).streaming,
    )


DIALECT = Convention(
    name=NAME,
    priority=57,
    url="https://docs.litellm.ai/docs/observability/opentelemetry_integration",
    versions="litellm 1.108, its callback otel in SDK and proxy",
    setup=Setup(
        lines=(
            "pip install litellm opentelemetry-exporter-otlp-proto-http\n"
            "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf OTEL_EXPORTER_OTLP_ENDPOINT=http://rag-monitor:4318\n"
            'litellm.callbacks = ["otel"]  # proxy: callbacks: ["otel"] below litellm_settings'
        ),
        remark="leave turn_off_message_logging and OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT unset",
        session='completion(..., user=..., metadata={"requester_metadata": {"session_id": ...}}); proxy: metadata',
        documents="put them into the prompt below a heading such as Context:",
    ),
    session_and_user=SessionAndUserKeys(user_id=("llm.user", "metadata.user_api_key_end_user_id")),
    claims=claims,
    role=role,
    read=read,
)
