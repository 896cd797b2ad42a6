"""Logfire's instrumentation of model clients: `request_data` and `response_data` as JSON, scopes `logfire.*`.

A streamed answer comes as a log entry of its own, which Logfire records as a span without duration. Pending spans,
which Logfire sends to show what is running, repeat the start of a span that comes again. A span of an app's own around
a turn, for its session alone, says nothing else.
"""

from __future__ import annotations

from dataclasses import replace

from monitor.extract import genai
from monitor.extract.attributes import integer, is_mapping, mapping, text
from monitor.extract.chain_io import first_answer
from monitor.extract.convention import Convention, Setup
from monitor.extract.json_text import broken_off
from monitor.extract.messages import messages_of, prompt_messages
from monitor.extract.session_and_user import is_only_whose
from monitor.model.spans import Role, Span, Step

NAME = "logfire"

TABLE = genai.TABLE

REQUEST, RESPONSE = "request_data", "response_data"
PENDING = "pending_span"
_ON_EVERY_SPAN = ("logfire.", "code.", "thread.")


def claims(span: Span) -> bool:
    """Return whether the span holds a client's request as Logfire records it, is a pending one, or says nothing."""
    kind = span.attributes.get("logfire.span_type")
    if REQUEST in span.attributes:
        return kind is not None or span.scope.startswith("logfire")
    return kind == PENDING or (kind is not None and is_only_whose(span.attributes, *_ON_EVERY_SPAN))


def role(span: Span) -> Role:
    """Return what the request asks for."""
    if span.attributes.get("logfire.span_type") == PENDING or REQUEST not in span.attributes:
        return Role.NOISE
    if text(span.attributes, genai.OPERATION) == "embeddings":
        return Role.EMBEDDING
    request = mapping(span.attributes, REQUEST)
    asks = any(key in request for key in ("messages", "prompt", "instructions", "stream", "system"))
    return Role.LLM if asks or "gen_ai.response.model" in span.attributes or "input" not in request else Role.EMBEDDING


def read(span: Span) -> Step:
    """Translate one span; what it says in the words of OpenTelemetry GenAI fills the gaps."""
    span_role = role(span)
    step = TABLE.step(span, span_role, NAME)
    request, response = mapping(span.attributes, REQUEST), mapping(span.attributes, RESPONSE)
    if broken_off(span.attributes, (REQUEST, RESPONSE)):
        step = replace(step, flags=step.flags | {"truncated"})
    step = replace(step, request_model=step.request_model or text(request, "model"))
    if span_role is Role.EMBEDDING:
        return replace(step, retrieval_query=text(request, "input"))
    if span_role is not Role.LLM:
        return step
    prompt = messages_of(request.get("system"), default_role="system")
    prompt += messages_of(request.get("messages") or request.get("prompt") or request.get("input"))
    body = response.get("message") or response.get("combined_chunk_content") or response.get("text")
    replies = messages_of(body, default_role="assistant")
    genai_step = genai.read(span)
    usage = response.get("usage")
    usage = usage if is_mapping(usage) else {}
    return replace(
        step,
        messages=prompt_messages(prompt) or genai_step.messages,
        output=first_answer(replies) or genai_step.output,
        tool_calls=sum(m.tool_calls for m in replies) or genai_step.tool_calls,
        input_tokens=step.input_tokens or integer(usage, "prompt_tokens", "input_tokens"),
        output_tokens=step.output_tokens or integer(usage, "completion_tokens", "output_tokens"),
        streaming=request.get("stream") is True or None,
    )


DIALECT = Convention(
    name=NAME,
    priority=65,
    url="https://logfire.pydantic.dev/docs/integrations/llms/openai/",
    versions="logfire 0.30 to 5",
    setup=Setup(
        lines=(
            "OTEL_EXPORTER_OTLP_ENDPOINT=http://rag-monitor:4318\n"
            'keep = logfire.ScrubbingOptions(callback=lambda m: m.value if m.path[-1] == "session.id" else None)\n'
            "logfire.configure(send_to_logfire=False, scrubbing=keep); logfire.instrument_openai()"
        ),
        remark="scrubbing replaces session ids too where no callback keeps them",
        session='with logfire.span("turn", **{"session.id": ...}): around each turn',
        documents="an attribute retrieved_documents on the span that retrieves",
        languages=("python",),
    ),
    claims=claims,
    role=role,
    read=read,
)
