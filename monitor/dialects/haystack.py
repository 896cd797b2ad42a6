"""Haystack's own tracing: `haystack.pipeline.run`, `haystack.component.run` and, for agents, `haystack.agent.run`.

All components share one span name, their class tells what they do. Since release 3 an agent's steps are no components:
`haystack.agent.step.llm` and `.tool`, with keys of the same name. Content is JSON text and off unless the app sets
HAYSTACK_CONTENT_TRACING_ENABLED.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from monitor.extract.attributes import integer, is_mapping, is_sequence, text
from monitor.extract.chain_io import chain_input, chain_output, first_answer
from monitor.extract.convention import Convention, FacetKeys, Setup, Table
from monitor.extract.documents import documents, tool_documents
from monitor.extract.json_text import broken_off, unwrap
from monitor.extract.messages import messages_of, prompt_messages
from monitor.extract.operations import decoded_value
from monitor.model.spans import Attributes, AttributeValue, Role, Span, Step

NAME = "haystack"

TABLE = Table(facets=(("pipeline", "haystack.pipeline.name"),))

TYPE = "haystack.component.type"
INPUT, OUTPUT = "haystack.component.input", "haystack.component.output"
WHOLE = (
    ("haystack.pipeline.input_data", "haystack.pipeline.output_data"),
    ("haystack.agent.input", "haystack.agent.output"),
)
STEPS = {"haystack.agent.step.llm": Role.LLM, "haystack.agent.step.tool": Role.TOOL}
CONTENT = (INPUT, OUTPUT, *WHOLE[0], *WHOLE[1], *(f"{step}.{end}" for step in STEPS for end in ("input", "output")))
COMPONENTS = (
    ("Retriever", Role.RETRIEVAL),
    ("Ranker", Role.RERANK),
    ("Joiner", Role.RERANK),
    ("Generator", Role.LLM),
    ("Embedder", Role.EMBEDDING),
    ("ToolInvoker", Role.TOOL),
    ("Agent", Role.AGENT),
)
"""Ends of component classes and what they do; all others prepare, clean or write."""
_MODEL = re.compile(r"'model': '([^']{1,200})'")


def claims(span: Span) -> bool:
    """Return whether the span is one of Haystack's."""
    return TYPE in span.attributes or span.name.startswith("haystack.")


def role(span: Span) -> Role:
    """Return the role of the component's class, or of what wraps components."""
    if span.name.startswith("haystack.component."):
        kind = str(span.attributes.get(TYPE, ""))
        return next((component_role for end, component_role in COMPONENTS if kind.endswith(end)), Role.NOISE)
    if span.name == "haystack.agent.run":
        return Role.AGENT
    if span.name in STEPS:
        return STEPS[span.name]
    return Role.CHAIN if span.name.endswith("pipeline.run") else Role.NOISE


def read(span: Span) -> Step:
    """Translate one span."""
    step = TABLE.step(span, role(span), NAME)
    if broken_off(span.attributes, CONTENT):
        step = replace(step, flags=step.flags | {"truncated"})
    reader = _READERS.get(step.role)
    return step if reader is None else reader(step, span.attributes)


def _chain(step: Step, attributes: Attributes) -> Step:
    keys = next((keys for keys in WHOLE if keys[0] in attributes or keys[1] in attributes), (INPUT, OUTPUT))
    ask, answer = (
        chain_input(_with_present_keys(decoded_value(attributes.get(keys[0])).value)),
        chain_output(_with_present_keys(decoded_value(attributes.get(keys[1])).value)),
    )
    return replace(
        step,
        query=ask.query,
        history=ask.history,
        response=answer.response,
        shapeless=answer.shapeless,
        documents=answer.documents,
        unsure=frozenset() if ask.query_certain else frozenset({"query"}),
    )


def _content(step: Step, attributes: Attributes) -> tuple[AttributeValue, AttributeValue]:
    """What a component was given and made; a step of an agent has keys of its own."""
    name = step.span.name
    keys = (f"{name}.input", f"{name}.output") if name in STEPS else (INPUT, OUTPUT)
    return decoded_value(attributes.get(keys[0])).value, decoded_value(attributes.get(keys[1])).value


def _model_call(step: Step, attributes: Attributes) -> Step:
    inputs, outputs = map(_with_present_keys, _content(step, attributes))
    prompt = (inputs.get("messages") or inputs.get("prompt")) if is_mapping(inputs) else inputs
    replies = outputs.get("replies") if is_mapping(outputs) else outputs
    messages = messages_of(replies[:1] if is_sequence(replies) else replies, default_role="assistant")
    meta = _meta(outputs)
    usage = meta.get("usage")
    usage = usage if is_mapping(usage) else {}
    return replace(
        step,
        messages=prompt_messages(messages_of(prompt)),
        output=first_answer(messages),
        tool_calls=sum(m.tool_calls for m in messages) + _calls(replies),
        model=text(meta, "model") or _printed_model(attributes),
        input_tokens=integer(usage, "prompt_tokens", "input_tokens"),
        output_tokens=integer(usage, "completion_tokens", "output_tokens"),
    )


def _retrieval(step: Step, attributes: Attributes) -> Step:
    inputs = decoded_value(attributes.get(INPUT)).value
    read = documents(decoded_value(attributes.get(OUTPUT)).value, trusted=True)
    return replace(step, retrieval_query=chain_input(inputs).query, documents=None if read is None else read.citations)


def _embedding(step: Step, attributes: Attributes) -> Step:
    inputs = decoded_value(attributes.get(INPUT)).value
    query = text(inputs, "text") if is_mapping(inputs) else None
    return replace(step, retrieval_query=query, model=text(_meta(unwrap(attributes.get(OUTPUT))), "model"))


def _tool(step: Step, attributes: Attributes) -> Step:
    """Results stand in tool messages: `{"tool_messages": [{"content": [{"tool_call_result": {...}}]}]}`, or alone."""
    inputs, outputs = _content(step, attributes)
    results = [_result(part) for part in _parts(outputs)] or [outputs]
    tool = text(attributes, "haystack.tool.name")
    listed = (tool_documents(tool, unwrap(result)) for result in results)
    read = next(filter(None, listed), None)
    return replace(
        step,
        tool=tool,
        retrieval_query=chain_input(inputs).query if step.span.name in STEPS else None,
        documents=None if read is None else read.citations,
    )


_READERS: Mapping[Role, Callable[[Step, Attributes], Step]] = {
    Role.CHAIN: _chain,
    Role.AGENT: _chain,
    Role.LLM: _model_call,
    Role.RETRIEVAL: _retrieval,
    Role.RERANK: _retrieval,
    Role.EMBEDDING: _embedding,
    Role.TOOL: _tool,
}


def _with_present_keys(value: AttributeValue) -> AttributeValue:
    """The value with the keys of Haystack's messages before 2.9 (`_role`, `_content`) as they are called now."""
    if is_mapping(value):
        return {
            key[1:] if key in {"_role", "_content", "_meta"} else key: _with_present_keys(inner)
            for key, inner in value.items()
        }
    return [_with_present_keys(inner) for inner in value] if is_sequence(value) else value


def _meta(output: AttributeValue) -> Mapping[str, AttributeValue]:
    """What the model said of its reply: beside the replies, or in a chat message."""
    if not is_mapping(output):
        return {}
    meta = output.get("meta")
    if is_sequence(meta) and meta:
        meta = meta[0]
    if is_mapping(meta):
        return meta
    replies = output.get("replies")
    first = replies[0] if is_sequence(replies) and replies else None
    own = first.get("meta") if is_mapping(first) else None
    return own if is_mapping(own) else {}


def _printed_model(attributes: Attributes) -> str | None:
    """Before messages could say themselves as JSON they were printed."""
    output = attributes.get(OUTPUT)
    match = _MODEL.search(output) if isinstance(output, str) else None
    return match[1] if match else None


def _parts(output: AttributeValue) -> tuple[Mapping[str, AttributeValue], ...]:
    messages = _with_present_keys(output.get("tool_messages")) if is_mapping(output) else None
    contents = [m.get("content") for m in messages if is_mapping(m)] if is_sequence(messages) else []
    return tuple(part for content in contents if is_sequence(content) for part in content if is_mapping(part))


def _result(part: Mapping[str, AttributeValue]) -> AttributeValue:
    result = part.get("tool_call_result")
    return result.get("result") if is_mapping(result) else None


def _calls(replies: AttributeValue) -> int:
    first = replies[0] if is_sequence(replies) and replies else None
    content = first.get("content") if is_mapping(first) else None
    return sum("tool_call" in part for part in content if is_mapping(part)) if is_sequence(content) else 0


DIALECT = Convention(
    name=NAME,
    priority=72,
    url="https://docs.haystack.deepset.ai/docs/tracing",
    versions="haystack-ai 2.2 to 3.4",
    setup=Setup(
        lines=(
            "pip install haystack-ai opentelemetry-sdk  # from release 3 on opentelemetry-haystack too\n"
            'tracing.enable_tracing(OpenTelemetryTracer(trace.get_tracer("shop")))'
        ),
        content="HAYSTACK_CONTENT_TRACING_ENABLED=true",
        session="set session.id on a span of your own around the turn",
        documents="components whose class ends with Retriever",
    ),
    facet_keys=FacetKeys(arguments=(INPUT,), component=(TYPE,), reranker=(TYPE,)),
    claims=claims,
    role=role,
    read=read,
)
