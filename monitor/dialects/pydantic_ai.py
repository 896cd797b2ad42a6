"""Pydantic AI's own spans, scope `pydantic-ai`, in all versions of its `InstrumentationSettings`.

Model calls speak OpenTelemetry GenAI (version 1: messages as JSON in `events`, or as log records); a run keeps the
whole conversation in one attribute, and where in it the run began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from monitor.extract import genai
from monitor.extract.attributes import integer, is_mapping, is_sequence, text
from monitor.extract.chain_io import chain_input, chain_output, clean_answer, documents_from_tools, first_answer
from monitor.extract.convention import Convention, FacetKeys, Setup
from monitor.extract.documents import tool_documents
from monitor.extract.json_text import broken_off, unwrap
from monitor.extract.messages import ParsedMessage, before_last_user, conversation, messages_of, prompt_messages
from monitor.model.spans import Attributes, AttributeValue, Role, Span, Step

NAME = "pydantic_ai"

TABLE = replace(
    genai.TABLE,
    request_model=("gen_ai.request.model", "model_name"),
    facets=(*genai.TABLE.facets, ("agent", "agent_name")),
)

SCOPE = "pydantic-ai"
CONVERSATIONS = ("pydantic_ai.all_messages", "all_messages_events")
BEGAN_AT = "pydantic_ai.new_message_index"
RESULT = "final_result"
EVENTS = "events"
TOOL_CALLS = (("tool_arguments", "tool_response"), ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result"))
"""Keys of arguments and result: versions 1 and 2, then 3 and later."""


def claims(span: Span) -> bool:
    """Return whether the span comes from the library, or keeps a run's conversation under its keys."""
    return span.scope == SCOPE or any(key in span.attributes for key in CONVERSATIONS)


def role(span: Span) -> Role:
    """Return the role of the operation; up to version 2 runs and tools name none."""
    if span.attributes.get("logfire.span_type") == "pending_span":
        return Role.NOISE
    operation = genai.operation_of(span)
    if operation is not None:
        return genai.ROLES.get(operation, Role.CHAIN)
    if "agent_name" in span.attributes or any(key in span.attributes for key in (*CONVERSATIONS, RESULT)):
        return Role.AGENT
    return Role.TOOL if "gen_ai.tool.name" in span.attributes else Role.NOISE


def read(span: Span) -> Step:
    """Translate one span."""
    span_role = role(span)
    reader = _READERS.get(span_role)
    if reader is not None:
        step = TABLE.step(span, span_role, NAME)
        cut = broken_off(span.attributes, CONVERSATIONS)
        return reader(replace(step, flags=step.flags | {"truncated"}) if cut else step, span.attributes)
    step = replace(genai.read(span), role=span_role, dialect=NAME)
    return _from_events(step, span.attributes) if span_role is Role.LLM else step


def _run(step: Step, attributes: Attributes) -> Step:
    earlier, new = _conversation(attributes)
    asking = next((m for m in new if m.role == "user" and m.content.strip()), None)
    query = asking.content.strip() if asking is not None else None
    response, shapeless = _result(attributes)
    if response is None and shapeless is None and step.error is None and RESULT not in attributes:
        response = clean_answer(new[-1].content) if new and new[-1].role == "assistant" else None
    return replace(
        step,
        query=query,
        history=conversation(earlier) if query is not None else None,
        documents=documents_from_tools(new),
        response=response,
        shapeless=shapeless,
    )


def _tool(step: Step, attributes: Attributes) -> Step:
    arguments_key, result_key = next((keys for keys in TOOL_CALLS if keys[1] in attributes), TOOL_CALLS[0])
    tool = text(attributes, "gen_ai.tool.name")
    read = tool_documents(tool, unwrap(attributes.get(result_key)))
    return replace(
        step,
        tool=tool,
        retrieval_query=chain_input(unwrap(attributes.get(arguments_key))).query,
        documents=None if read is None else read.citations,
    )


def _from_events(step: Step, attributes: Attributes) -> Step:
    """Version 1: every message that went in is an event, and `gen_ai.choice` is what came out."""
    events = unwrap(attributes.get(EVENTS))
    if step.messages or step.output or not is_sequence(events):
        return step
    prompt = messages_of([event for event in events if not _is_choice(event)])
    replies = messages_of([event for event in events if _is_choice(event)], default_role="assistant")
    return replace(
        step,
        messages=prompt_messages(prompt),
        output=first_answer(replies),
        tool_calls=sum(m.tool_calls for m in replies),
    )


_READERS: Mapping[Role, Callable[[Step, Attributes], Step]] = {
    Role.AGENT: _run,
    Role.TOOL: _tool,
}


def _conversation(attributes: Attributes) -> tuple[tuple[ParsedMessage, ...], tuple[ParsedMessage, ...]]:
    """The messages before the run and those of the run; without an index the last question begins the run."""
    for key in CONVERSATIONS:
        messages = unwrap(attributes.get(key))
        if is_sequence(messages):
            began = integer(attributes, BEGAN_AT)
            if began is not None:
                at = _place(messages, began)
                return messages_of(messages[:at]), messages_of(messages[at:])
            whole = messages_of(messages)
            earlier, _ = before_last_user(whole)
            return earlier, whole[len(earlier) :]
    return (), ()


def _place(messages: Sequence[AttributeValue], began: int) -> int:
    """Where a run began: the index counts requests and responses, and a request's system prompt stands by itself."""
    exchanged = 0
    for at, message in enumerate(messages):
        answers = is_mapping(message) and message.get("role") == "assistant"
        before = messages[at - 1] if at else None
        if at == 0 or answers or (is_mapping(before) and before.get("role") == "assistant"):
            exchanged += 1
        if exchanged > began:
            return at
    return began if exchanged < began else len(messages)


def _result(attributes: Attributes) -> tuple[str | None, str | None]:
    """The result as text, else compact JSON of a structured one in which no answer was found."""
    written = text(attributes, RESULT)
    output = unwrap(written)
    if is_mapping(output) or is_sequence(output):
        answer = chain_output(output)
        return answer.response, answer.shapeless
    return clean_answer(written or ""), None


def _is_choice(event: AttributeValue) -> bool:
    return is_mapping(event) and event.get("event.name") == genai.CHOICE


DIALECT = Convention(
    name=NAME,
    priority=60,
    url="https://ai.pydantic.dev/logfire/",
    versions="pydantic-ai 0.1 to 2, instrumentation versions 1 to 5",
    setup=Setup(
        lines=("pip install pydantic-ai\nAgent.instrument_all()"),
        remark="leave include_content of InstrumentationSettings at True",
        session="agent.run(..., conversation_id=...), or session.id on a span of your own",
        documents="let the tool that retrieves return objects with id and content",
    ),
    facet_keys=FacetKeys(arguments=("tool_arguments",)),
    claims=claims,
    role=role,
    read=read,
)
