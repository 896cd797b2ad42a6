"""What OpenTelemetry's GenAI conventions say of a span, for the dialect `genai` and for those that build on it.

Content is on span attributes (latest), in one `gen_ai.client.inference.operation.details` event, or in one event per
message (up to 1.36; as span events or as log records that were joined to the span). The span wins, events fill gaps.
Since the conventions have a repository of their own (0.1.0) a workflow is named as an agent is, and tokens may be told
by modality: https://github.com/open-telemetry/semantic-conventions-genai/blob/main/CHANGELOG.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from monitor.extract.attributes import integer, is_mapping, is_sequence, number, text, visible_text
from monitor.extract.chain_io import ChainInput, ChainOutput, chain_input, chain_output, first_answer
from monitor.extract.convention import Table
from monitor.extract.documents import Documents, documents, tool_documents
from monitor.extract.json_text import parse, unwrap
from monitor.extract.messages import ParsedMessage, before_last_user, conversation, messages_of, prompt_messages
from monitor.model.spans import Attributes, AttributeValue, Event, Role, Span, Step
from monitor.model.turns import Citation

NAME = "genai"

TABLE = Table(
    session_id=("gen_ai.conversation.id",),
    model=("gen_ai.response.model",),
    request_model=("gen_ai.request.model",),
    input_tokens=("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    output_tokens=("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    response_id=("gen_ai.response.id",),
    retrieval_query=("gen_ai.retrieval.query.text",),
    streaming=("gen_ai.request.stream", "gen_ai.request.is_stream", "gen_ai.is_streaming"),
    facets=(
        ("provider", "gen_ai.provider.name"),
        ("provider", "gen_ai.system"),
        ("agent", "gen_ai.workflow.name"),
        ("agent", "gen_ai.agent.name"),
        ("data_source", "gen_ai.data_source.id"),
        ("top_k", "gen_ai.retrieval.top_k"),
    ),
)

OPERATION = "gen_ai.operation.name"
ROLES = {
    "chat": Role.LLM,
    "completion": Role.LLM,
    "text_completion": Role.LLM,
    "generate_content": Role.LLM,
    "embeddings": Role.EMBEDDING,
    "embedding": Role.EMBEDDING,
    "retrieval": Role.RETRIEVAL,
    "rerank": Role.RERANK,
    "execute_tool": Role.TOOL,
    "invoke_agent": Role.AGENT,
    "invoke_workflow": Role.CHAIN,
    "create_agent": Role.NOISE,
}
INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
INSTRUCTIONS = "gen_ai.system_instructions"
DETAILS = "gen_ai.client.inference.operation.details"
CHOICE = "gen_ai.choice"
MESSAGE_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
PROMPT_EVENTS = {"gen_ai.content.prompt": "gen_ai.prompt", "gen_ai.content.completion": "gen_ai.completion"}
PROMPTS = ("gen_ai.prompt", "gen_ai.content.prompt")
COMPLETIONS = ("gen_ai.completion", "gen_ai.content.completion")
"""Whole prompts and answers as span attributes, as Quarkus's LangChain4j and other emitters of 1.2x have them."""
_CONTEXTS = tuple(f"gen_ai.prompt.variable.{name}" for name in ("context", "documents", "docs", "sources"))
TOOL_REASONS = frozenset(("tool_calls", "tool_call", "tool_use", "function_call"))
_MODALITIES = ("text", "image", "audio", "video", "document")
_FIRST_CHUNK = ("gen_ai.client.operation.time_to_first_chunk", "gen_ai.server.time_to_first_token")


def claims(span: Span) -> bool:
    """Return whether the span or one of its events speaks of a GenAI operation; a conversation id alone does not."""
    attributes = span.attributes
    return (
        OPERATION in attributes
        or "gen_ai.provider.name" in attributes
        or "gen_ai.system" in attributes
        or any(_name(event) in _EVENT_NAMES for event in span.events)
    )


def operation_of(span: Span) -> str | None:
    """Return the operation; an attribute limit drops it first, and spans are named `{operation} {model}`."""
    operation = text(span.attributes, OPERATION)
    if operation is None and span.dropped_attributes:
        first = span.name.partition(" ")[0]
        return first if first in ROLES else None
    return operation


def role(span: Span) -> Role:
    """Return the role of the span's operation; operations nobody has heard of wrap others.

    Emitters before 1.27 name no operation: whoever names a model or exchanges messages calls one.
    """
    operation = operation_of(span)
    if operation is not None:
        return ROLES.get(operation, Role.CHAIN)
    speaks = any(_name(event) in _EVENT_NAMES for event in span.events)
    has_model_or_messages = any(
        key in span.attributes for key in ("gen_ai.request.model", "gen_ai.response.model", INPUT, OUTPUT)
    )
    return Role.LLM if speaks or has_model_or_messages else Role.NOISE


def read(span: Span) -> Step:
    """Translate one span with its events."""
    attributes = _with_details(span)
    if attributes is not span.attributes:
        span = replace(span, attributes=attributes)
    step = TABLE.step(span, role(span), NAME)
    step = replace(
        step,
        input_tokens=_tokens(step.input_tokens, attributes, "input"),
        output_tokens=_tokens(step.output_tokens, attributes, "output"),
    )
    reader = _READERS.get(step.role)
    return step if reader is None else reader(step, attributes)


def _tokens(total: int | None, attributes: Attributes, end: str) -> int | None:
    """The total; where a span tells only how many there were of text, sound and the like, their sum."""
    if total is not None:
        return total
    counts = [integer(attributes, f"gen_ai.usage.{modality}.{end}_tokens") for modality in _MODALITIES]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _model_call(step: Step, attributes: Attributes) -> Step:
    messages, cut = _messages(attributes)
    prompt = _instructions(attributes) + messages
    replies = _replies(attributes)
    if not prompt:
        prompt = _from_events(step.span.events, MESSAGE_EVENTS) or _written(attributes, PROMPTS, "user")
    if not replies:
        replies = _choices(step.span.events) or _written(attributes, COMPLETIONS, "assistant")
    output = first_answer(replies)
    context = visible_text(attributes, *_CONTEXTS)
    has_first_chunk = any(key in attributes for key in _FIRST_CHUNK)
    return replace(
        step,
        messages=prompt_messages(prompt),
        output=output,
        shapeless=context,
        tool_calls=sum(m.tool_calls for m in replies) or _calls_tools(attributes),
        streaming=True if step.streaming is None and has_first_chunk else step.streaming,
        flags=step.flags | {"truncated"} if cut else step.flags,
    )


def _written(attributes: Attributes, keys: Sequence[str], default: str) -> tuple[ParsedMessage, ...]:
    return next((messages_of(unwrap(attributes[key]), default_role=default) for key in keys if attributes.get(key)), ())


def _calls_tools(attributes: Attributes) -> int:
    """Without content, the finish reason tells that tools were called, though not how many."""
    reasons = attributes.get("gen_ai.response.finish_reasons")
    return int(is_sequence(reasons) and any(reason in TOOL_REASONS for reason in reasons))


def _agent(step: Step, attributes: Attributes) -> Step:
    prompt, cut = _messages(attributes)
    replies = messages_of(attributes.get(OUTPUT), default_role="assistant")
    if not prompt and not replies:
        prompt, replies = _from_events(step.span.events, MESSAGE_EVENTS), _choices(step.span.events)
    earlier, last = before_last_user(prompt)
    ask = ChainInput(query=last.content.strip() or None if last else None, history=conversation(earlier) or None)
    ask = _inside(ask, state=step.role is Role.CHAIN)
    response = first_answer(m for m in reversed(replies) if m.role == "assistant")
    answer = chain_output(_structured(response)) if step.role is Role.CHAIN else ChainOutput()
    failed = _failed(attributes)
    return replace(
        step,
        query=ask.query,
        history=ask.history,
        response=None if failed else answer.response or response,
        documents=answer.documents or ask.documents,
        error=step.error or ("error" if failed else None),
        flags=step.flags | {"truncated"} if cut else step.flags,
    )


def _inside(ask: ChainInput, *, state: bool) -> ChainInput:
    """Instrumentations of frameworks write a state, or a list of messages, as the JSON text of one message."""
    value = _structured(ask.query)
    inner = chain_input(value)
    if inner.query is None:
        return replace(ask, query=None) if state and value is not None else ask
    return replace(inner, history=inner.history or ask.history)


def _structured(text: str | None) -> AttributeValue:
    parsed = parse(text) if text is not None else None
    value = parsed.value if parsed is not None else None
    return value if is_mapping(value) or (is_sequence(value) and value and all(map(is_mapping, value))) else None


def _failed(attributes: Attributes) -> bool:
    """Whether a message that was made ends with the finish reason `error`."""
    reasons, messages = attributes.get("gen_ai.response.finish_reasons"), unwrap(attributes.get(OUTPUT))
    ends = (
        [message.get("finish_reason") for message in messages if is_mapping(message)] if is_sequence(messages) else []
    )
    return "error" in ends or (is_sequence(reasons) and "error" in reasons)


def _retrieval(step: Step, attributes: Attributes) -> Step:
    listed = unwrap(attributes.get("gen_ai.retrieval.documents"))
    read = documents(listed, trusted=True)
    if read is not None:
        return replace(step, documents=read.citations)
    # LangChain's documents may have no id, and none has its text here.
    nameless = [document for document in listed if is_mapping(document)] if is_sequence(listed) else []
    return replace(step, documents=tuple(Citation(score=number(document, "score")) for document in nameless) or None)


def _tool(step: Step, attributes: Attributes) -> Step:
    arguments, result = attributes.get("gen_ai.tool.call.arguments"), attributes.get("gen_ai.tool.call.result")
    for event in step.span.events if arguments is None and result is None else ():
        name = _name(event)
        if name == "gen_ai.tool.message":
            arguments = event.attributes.get("content")
        elif name == CHOICE:
            result = event.attributes.get("message")
    query = chain_input(unwrap(arguments)).query
    tool = text(attributes, "gen_ai.tool.name")
    read = tool_documents(tool, unwrap(result))
    return replace(
        step,
        tool=tool,
        retrieval_query=query,
        documents=None if read is None else read.citations,
        shapeless=result if isinstance(result, str) and not _are_described(read) else None,
    )


def _are_described(read: Documents | None) -> bool:
    """Whether documents are more than the text that a tool returned."""
    return read is not None and any(citation.id or citation.source or citation.title for citation in read.citations)


def _embedding(step: Step, attributes: Attributes) -> Step:
    """A single text that was embedded is what somebody searched for; several are a corpus."""
    texts = [m.content for m in _messages(attributes)[0] if m.content]
    return replace(step, retrieval_query=texts[0].strip()) if len(texts) == 1 else step


_READERS: Mapping[Role, Callable[[Step, Attributes], Step]] = {
    Role.LLM: _model_call,
    Role.AGENT: _agent,
    Role.CHAIN: _agent,
    Role.RETRIEVAL: _retrieval,
    Role.RERANK: _retrieval,
    Role.TOOL: _tool,
    Role.EMBEDDING: _embedding,
}


def _name(event: Event) -> str:
    """The event's name; before log records had one it stood in the attribute `event.name`."""
    return event.name if event.name in _EVENT_NAMES else str(event.attributes.get("event.name", event.name))


_BODY = frozenset(("content", "role", "message", "tool_calls", "index"))
_EVENT_NAMES = frozenset((*MESSAGE_EVENTS, *PROMPT_EVENTS, CHOICE, DETAILS))


def _with_details(span: Span) -> Attributes:
    """The span's attributes, and below them what the details event says in the same words."""
    merged: dict[str, AttributeValue] = {}
    for event in span.events:
        if _name(event) == DETAILS:
            merged |= event.attributes
            if is_mapping(event.body):
                merged |= event.body
    if not merged:
        return span.attributes
    return merged | {key: value for key, value in span.attributes.items() if value not in (None, "")}


def _messages(attributes: Attributes) -> tuple[tuple[ParsedMessage, ...], bool]:
    """The messages that went in, and whether an attribute limit cut them."""
    value = attributes.get(INPUT)
    parsed = parse(value) if isinstance(value, str) else None
    return messages_of(value if parsed is None else parsed.value), parsed is not None and parsed.cut is not None


def _replies(attributes: Attributes) -> tuple[ParsedMessage, ...]:
    """What came out: of several choices each with its own end, or one answer in pieces that have none but the last."""
    messages = unwrap(attributes.get(OUTPUT))
    replies = messages_of(attributes.get(OUTPUT) if messages is None else messages, default_role="assistant")
    if is_sequence(messages) and len(replies) == len(messages) and _in_pieces(messages):
        whole = "".join(m.content for m in replies)
        return (ParsedMessage("assistant", whole, sum(m.tool_calls for m in replies), all(m.certain for m in replies)),)
    return replies


def _in_pieces(messages: Sequence[AttributeValue]) -> bool:
    return len(messages) > 1 and all(
        is_mapping(message) and message.get("finish_reason") == "" for message in messages[:-1]
    )


def _instructions(attributes: Attributes) -> tuple[ParsedMessage, ...]:
    return tuple(
        replace(m, role="system") for m in messages_of(unwrap(attributes.get(INSTRUCTIONS)), default_role="system")
    )


def _content(event: Event) -> AttributeValue:
    """A message event's body: a map, JSON text of one, or attributes where a body was not possible."""
    body = unwrap(event.body)
    if body is not None:
        return body
    written = event.attributes.get("gen_ai.event.content")
    if written is not None:
        return unwrap(written)
    return {key: _parts(value) for key, value in event.attributes.items() if key in _BODY}


def _parts(value: AttributeValue) -> AttributeValue:
    """Attributes of events hold no lists of maps: some emitters write a message's parts as JSON text."""
    parts = unwrap(value)
    return parts if is_sequence(parts) and parts and all(map(is_mapping, parts)) else value


def _from_events(events: Sequence[Event], roles: Mapping[str, str]) -> tuple[ParsedMessage, ...]:
    messages: list[ParsedMessage] = []
    for event in events:
        name = _name(event)
        if name in roles:
            content = _content(event)
            read = messages_of(content, default_role=roles[name]) or (ParsedMessage(roles[name], ""),)
            # Gemini's history, answers included, comes in events of the user.
            are_answers = [roles[name] == "user" and m.role == "assistant" for m in read]
            messages += [m if a else replace(m, role=roles[name]) for m, a in zip(read, are_answers, strict=True)]
        elif name == "gen_ai.content.prompt":
            messages += messages_of(unwrap(event.attributes.get(PROMPT_EVENTS[name])))
    return tuple(messages)


def _choices(events: Sequence[Event]) -> tuple[ParsedMessage, ...]:
    """Of several choices the first by index answers; unless only the last is finished: the chunks of one answer."""
    choices: list[tuple[int, ParsedMessage]] = []
    finished: list[bool] = []
    for event in events:
        name = _name(event)
        if name == CHOICE:
            content = _content(event)
            index = content.get("index") if is_mapping(content) else 0
            finished.append(is_mapping(content) and bool(content.get("finish_reason")))
            inner = content.get("message", content) if is_mapping(content) else content
            choices += [
                (index if isinstance(index, int) else 0, replace(m, role="assistant"))
                for m in messages_of(inner, default_role="assistant")
            ]
        elif name == "gen_ai.content.completion":
            choices += [
                (0, m) for m in messages_of(unwrap(event.attributes.get(PROMPT_EVENTS[name])), default_role="assistant")
            ]
    answers = tuple(m for _, m in sorted(choices, key=lambda choice: choice[0]))
    if len(answers) > 1 and len(answers) == len(finished) and finished[-1] and not any(finished[:-1]):
        whole = "".join(m.content for m in answers)
        return (replace(answers[0], content=whole, tool_calls=sum(m.tool_calls for m in answers)),)
    return answers
