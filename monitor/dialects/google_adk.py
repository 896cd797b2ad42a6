"""Google's Agent Development Kit: requests and responses of Gemini as JSON under `gcp.vertex.agent.*`.

Agents and tools name their GenAI operation, model calls (`call_llm`) do not; what a tool returned is a message of the
user's to the model. Release 2 calls models as GenAI says (`generate_content`), with content on the span or in its
event, where a streamed answer is a message per piece.
"""

from __future__ import annotations

from dataclasses import replace

from monitor.extract import genai
from monitor.extract.attributes import is_mapping, is_sequence, mapping, text
from monitor.extract.chain_io import chain_input, first_answer
from monitor.extract.convention import Convention, Setup
from monitor.extract.documents import tool_documents
from monitor.extract.json_text import broken_off, unwrap
from monitor.extract.messages import ParsedMessage, messages_of, prompt_messages
from monitor.model.spans import AttributeValue, Role, Span, Step

NAME = "google_adk"

BASE = "gcp.vertex.agent."
REQUEST, RESPONSE = BASE + "llm_request", BASE + "llm_response"
ARGUMENTS, RESULT = BASE + "tool_call_args", BASE + "tool_response"
TABLE = replace(genai.TABLE, session_id=("gen_ai.conversation.id", BASE + "session_id"))
_ITEMS = {
    "function_call": "tool_call",
    "functionCall": "tool_call",
    "function_response": "tool_call_response",
    "functionResponse": "tool_call_response",
}
"""What Gemini calls the parts of a message that are no text, and what GenAI calls them."""


def claims(span: Span) -> bool:
    """Return whether the span carries attributes of the kit."""
    return span.scope == BASE.rstrip(".") or text(span.attributes, "gen_ai.system") == BASE.rstrip(".")


def role(span: Span) -> Role:
    """Return the role of the span's operation; a span with a request to a model calls it."""
    operation = text(span.attributes, genai.OPERATION)
    if REQUEST in span.attributes and operation != "execute_tool":
        return Role.LLM
    if operation is None:
        return Role.CHAIN if span.name.startswith("invocation") else Role.NOISE
    return genai.ROLES.get(operation, Role.CHAIN)


def read(span: Span) -> Step:
    """Translate one span."""
    step = TABLE.step(span, role(span), NAME)
    if broken_off(span.attributes, (REQUEST, RESPONSE)):
        step = replace(step, flags=step.flags | {"truncated"})
    if step.role is Role.LLM:
        return _model_call(step) if REQUEST in span.attributes else replace(genai.read(span), dialect=NAME)
    if step.role is Role.TOOL:
        return _tool(step)
    return replace(genai.read(span), dialect=NAME) if genai.OPERATION in span.attributes else step


def _model_call(step: Step) -> Step:
    request, response = mapping(step.span.attributes, REQUEST), mapping(step.span.attributes, RESPONSE)
    settings = request.get("config")
    instruction = settings.get("system_instruction") if is_mapping(settings) else None
    prompt = messages_of(instruction, default_role="system") + _messages(request.get("contents"))
    replies = _messages([response.get("content")])
    return replace(
        step,
        messages=prompt_messages(prompt),
        output=first_answer(replies),
        tool_calls=sum(m.tool_calls for m in replies),
        model=step.model or text(response, "model_version"),
    )


def _tool(step: Step) -> Step:
    attributes = step.span.attributes
    result = next((attributes[key] for key in (RESULT, "gen_ai.tool.call.result") if key in attributes), None)
    arguments = next((attributes[key] for key in (ARGUMENTS, "gen_ai.tool.call.arguments") if key in attributes), None)
    tool = text(attributes, "gen_ai.tool.name")
    read = tool_documents(tool, unwrap(result))
    return replace(
        step,
        tool=tool,
        retrieval_query=chain_input(unwrap(arguments)).query,
        documents=None if read is None else read.citations,
    )


def _messages(contents: AttributeValue) -> tuple[ParsedMessage, ...]:
    messages = contents if is_sequence(contents) else ()
    return tuple(
        message
        for content in messages
        if is_mapping(content)
        for message in messages_of({**content, "parts": _parts(content)})
    )


def _parts(content: AttributeValue) -> AttributeValue:
    parts = content.get("parts") if is_mapping(content) else None
    return [_part(part) for part in parts] if is_sequence(parts) else parts


def _part(part: AttributeValue) -> AttributeValue:
    if not is_mapping(part):
        return part
    kind = next((key for key in _ITEMS if part.get(key)), None)
    body = part[kind] if kind is not None else None
    return part if kind is None else {"type": _ITEMS[kind], **(body if is_mapping(body) else {})}


DIALECT = Convention(
    name=NAME,
    priority=95,
    url="https://google.github.io/adk-docs/observability/",
    versions="google-adk 1.5 to 2.13",
    setup=Setup(
        lines=(
            "pip install google-adk opentelemetry-exporter-otlp-proto-http\n"
            "trace.set_tracer_provider(provider)  # before the first agent runs"
        ),
        content="OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY",
        remark="release 2 wants OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental as well; 1 records content",
        session="the id of the session that the runner is given",
        documents="let the tool that retrieves return objects with id and content",
    ),
    claims=claims,
    role=role,
    read=read,
)
