"""Operations that SDKs record with a free-form input and output: what each role of them says of a turn.

Many conventions only name a span's kind and keep what went in and came out as one value each: a text, JSON, or the
arguments of a decorated function. A dialect finds the two values; here they are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from monitor.extract import session_and_user
from monitor.extract.attributes import REDACTED, integer, is_mapping, is_sequence, mapping, text
from monitor.extract.chain_io import ChainInput, chain_input, chain_output, first_answer
from monitor.extract.documents import Documents, documents, tool_documents
from monitor.extract.json_text import innermost
from monitor.extract.messages import ParsedMessage, conversation, messages_of, prompt_messages, role_of, text_of
from monitor.extract.reprs import literal, prints_messages, prints_plain
from monitor.model.spans import AttributeValue, Role, Step

_ARGUMENTS = {"args", "kwargs"}
_OBJECT = re.compile(r"[A-Z]\w*|<.{1,200}>", re.DOTALL)
"""How `self` and other objects print."""
_PROMPTS = ("messages", "input", "inputs", "prompts", "prompt", "contents")
_INSTRUCTIONS = ("system", "instructions", "system_instruction", "system_prompt")
_RESULTS = ("output", "outputs", "content", "result", "artifact", "data")
_OWN = {"id", "content", "page_content", "text", "documents"}
_MADE = ("messages", "message", "generations", "output", "outputs", "update")
_DEPTH = 4


@dataclass(frozen=True, slots=True)
class DecodedValue:
    """What went into an operation or came out; `cut` is the text it broke off in, None when it is whole."""

    value: AttributeValue = None
    cut: str | None = None


def decoded_value(raw: AttributeValue) -> DecodedValue:
    """Return the value of JSON text or of a printed container, anything else as it is.

    >>> decoded_value('{"a": "b')
    DecodedValue(value={'a': 'b'}, cut='b')
    """
    if not isinstance(raw, str):
        return DecodedValue(raw)
    if raw == REDACTED:
        return DecodedValue()
    printed = literal(raw) if prints_plain(raw) else None
    parsed = innermost(raw) if printed is None else None
    if parsed is not None:
        return DecodedValue(parsed.value, parsed.cut)
    if printed is None and raw.lstrip()[:1] in {"{", "[", "("}:
        printed = literal(raw)
    return DecodedValue(raw if printed is None else printed)


def step_with_io(step: Step, inputs: DecodedValue, outputs: DecodedValue) -> Step:
    """Return the step with what its input and output say, by its role."""
    if inputs.cut is not None or outputs.cut is not None:
        step = replace(step, flags=step.flags | {"truncated"})
    if step.role in {Role.CHAIN, Role.AGENT}:
        step = replace(
            step,
            session_id=step.session_id or session_and_user.session_in_input(inputs.value),
            user_id=step.user_id or session_and_user.user_in_input(inputs.value),
        )
    reader = _READERS.get(step.role)
    return step if reader is None else reader(step, inputs, outputs)


def step_with_documents(step: Step, read: Documents | None) -> Step:
    """Return the step with the documents, flagged where metadata could not be read; as it is for None."""
    if read is None:
        return step
    flags = step.flags | {"metadata_unread"} if read.damaged else step.flags
    return replace(step, documents=read.citations, flags=flags)


def function_input(args: Sequence[AttributeValue], kwargs: Mapping[str, AttributeValue]) -> ChainInput:
    """Return what the arguments of a function ask: the first text is the query, messages beside it the history.

    >>> function_input(["Pipeline", "Why?", [{"role": "user", "content": "Hi"}]], {}).query
    'Why?'
    """
    asked_by_name = chain_input(kwargs) if kwargs else ChainInput()
    texts = [arg for arg in args if isinstance(arg, str) and arg.strip()]
    questions = [arg for arg in texts if not _OBJECT.fullmatch(arg)] or texts
    query = asked_by_name.query or (chain_input(questions[0]).query if questions else None)
    history = asked_by_name.history
    for arg in args:
        if is_mapping(arg):
            from_argument = chain_input(arg)
            query, history = query or from_argument.query, from_argument.history if history is None else history
        elif is_sequence(arg) and _speaks(arg):
            if query is None:
                from_argument = chain_input(arg)
                query, history = from_argument.query, from_argument.history
            elif history is None:
                history = conversation(messages_of(arg))
        elif is_sequence(arg) and not arg and questions and history is None:
            history = ()
    return replace(asked_by_name, query=query, history=history)


def operation_input(value: AttributeValue) -> ChainInput:
    """Return what an operation's input asks; `{"args": [...], "kwargs": {...}}` are a function's arguments.

    JavaScript SDKs write the arguments alone: a list that begins with a text.
    """
    if is_mapping(value) and value.keys() == _ARGUMENTS:
        args, kwargs = value["args"], value["kwargs"]
        return function_input(args if is_sequence(args) else (), kwargs if is_mapping(kwargs) else {})
    if is_sequence(value) and value and is_mapping(value[0]) and not role_of(value[0].get("role")):
        documents_in_list = documents(value)
        if documents_in_list is not None and documents_in_list.citations:
            return ChainInput(documents=documents_in_list.citations)
    if is_sequence(value) and len(value) > 1 and isinstance(value[0], str) and not role_of(value[0]):
        return function_input(value, {})
    return chain_input(value)


def model_input(value: AttributeValue) -> tuple[ParsedMessage, ...]:
    """Return the messages of a model call's input: a list of them, a request's body, or a plain prompt."""
    if not is_mapping(value) or role_of(value.get("role")) or "lc" in value:
        return messages_of(value)
    if value.keys() == _ARGUMENTS:
        kwargs, args = value["kwargs"], value["args"]
        return (
            model_input(kwargs)
            if kwargs
            else tuple(m for arg in (args if is_sequence(args) else ()) for m in messages_of(arg))
        )
    first = tuple(ParsedMessage("system", text_of(value[key])) for key in _INSTRUCTIONS if value.get(key))
    for key in _PROMPTS:
        prompt = value.get(key)
        read = model_input(prompt) if is_mapping(prompt) else messages_of(prompt)
        if read:
            return first + read
    query = chain_input(value).query
    return (*first, ParsedMessage("user", query)) if query else first


def model_output(  # noqa: PLR0911 -- one return per shape
    value: AttributeValue, *, depth: int = 0
) -> tuple[ParsedMessage, ...]:
    """Return the messages of a model call's output; of several choices the first."""
    if depth > _DEPTH:
        return ()
    if is_sequence(value):
        inner = value[0] if value else None
        nested = is_sequence(inner) or (is_mapping(inner) and ("text" in inner or "generations" in inner))
        return model_output(inner, depth=depth + 1) if nested else messages_of(value, default_role="assistant")
    if not is_mapping(value):
        return messages_of(value, default_role="assistant")
    if role_of(value.get("role")) or role_of(value.get("type")) or "lc" in value:
        return messages_of(value, default_role="assistant")
    for key in ("choices", "generations", "candidates"):
        inner = value.get(key)
        if is_sequence(inner):
            return model_output(inner[0], depth=depth + 1) if inner else ()
    for key in ("message", "messages", "output", "delta"):
        inner = value.get(key)
        if is_mapping(inner) or (is_sequence(inner) and inner):
            return model_output(inner, depth=depth + 1)
    messages = messages_of(value, default_role="assistant")
    if messages and (messages[0].content or messages[0].tool_calls):
        return messages
    response = chain_output(value).response
    return (ParsedMessage("assistant", response),) if response else messages


def answering_model(value: AttributeValue, *, only: bool = False, depth: int = 0) -> str | None:
    """Return the model that made the last message in a value, as LangChain notes it; `only`: of a single message.

    LlamaIndex and Genkit keep the provider's reply beside the message, as `raw`.

    >>> answering_model({"messages": [{"type": "ai", "content": "So.", "response_metadata": {"model_name": "m-1"}}]})
    'm-1'
    """
    if is_sequence(value):
        return answering_model(value[-1], depth=depth + 1) if value and not only and depth <= _DEPTH else None
    if not is_mapping(value) or depth > _DEPTH:
        return None
    message = value.get("kwargs") if "lc" in value else value
    metadata = (message.get("response_metadata") or message.get("_meta")) if is_mapping(message) else None
    if is_mapping(metadata):
        return text(metadata, "model_name", "model")
    raw = value.get("raw")
    if is_mapping(raw) and raw.get("model"):
        return text(raw, "model")
    inner = () if only else [value[key] for key in _MADE if value.get(key)] or _replying(value)
    return next((model for part in inner if (model := answering_model(part, depth=depth + 1))), None)


def _replying(value: Mapping[str, AttributeValue]) -> list[AttributeValue]:
    """The replies of a pipeline's components, whatever they are called."""
    return [component["replies"] for component in value.values() if is_mapping(component) and "replies" in component]


def _speaks(value: Sequence[AttributeValue]) -> bool:
    messages = messages_of(value)
    return bool(messages) and not any(isinstance(item, str) for item in value)


def _chain(step: Step, inputs: DecodedValue, outputs: DecodedValue) -> Step:
    ask, answer = operation_input(inputs.value), chain_output(outputs.value)
    document_list = documents(outputs.value) if is_sequence(outputs.value) else None
    citations = document_list.citations if document_list is not None and document_list.citations else answer.documents
    unsure = {"query"} if not ask.query_certain else set()
    if not ask.history_certain or inputs.cut is not None:
        unsure.add("history")
    if not answer.certain or outputs.cut is not None or answer.response == ask.last_answer:
        unsure.add("response")
    flags = set(step.flags)
    if inputs.cut and ask.query is not None and ask.query == inputs.cut.strip():
        flags.add("input_truncated")
    return replace(
        step,
        query=ask.query,
        history=ask.history,
        documents=citations or (ask.documents if citations is None else citations),
        model=step.model
        or answering_model(outputs.value)
        or answering_model(inputs.value if is_mapping(inputs.value) else None, only=True),
        response=None if document_list is not None and document_list.citations else answer.response,
        shapeless=answer.shapeless,
        unsure=step.unsure | unsure,
        flags=frozenset(flags),
    )


def _model_call(step: Step, inputs: DecodedValue, outputs: DecodedValue) -> Step:
    prompt, completion = model_input(inputs.value), model_output(outputs.value)
    replies = [m for m in completion if m.role == "assistant"]
    output = first_answer(reversed(replies))
    reply = _reply(outputs.value)
    request = inputs.value if is_mapping(inputs.value) else {}
    usage = mapping(reply, "usage")
    return replace(
        step,
        messages=prompt_messages(prompt) or step.messages,
        output=output or step.output,
        tool_calls=max(step.tool_calls, sum(m.tool_calls for m in replies)),
        model=_model(step, reply),
        request_model=step.request_model or text(request, "model", "model_name"),
        input_tokens=_either(step.input_tokens, integer(usage, "prompt_tokens", "input_tokens")),
        output_tokens=_either(step.output_tokens, integer(usage, "completion_tokens", "output_tokens")),
        response_id=step.response_id or text(reply, "id"),
        streaming=step.streaming or (True if request.get("stream") is True else None),
    )


def _reply(output: AttributeValue) -> Mapping[str, AttributeValue]:
    """A provider's reply, which LlamaIndex keeps beside the message it read in it."""
    if not is_mapping(output):
        return {}
    raw = output.get("raw")
    return raw if is_mapping(raw) else output


def _model(step: Step, reply: Mapping[str, AttributeValue]) -> str | None:
    """The reply's word where the span names none, or the one that was asked for."""
    answering = step.model if step.model != step.request_model else None
    in_reply = (
        text(reply, "model", "model_name") or text(mapping(reply, "llm_output"), "model_name") or answering_model(reply)
    )
    return answering or in_reply or step.model


def _either(first: int | None, second: int | None) -> int | None:
    return second if first is None else first


def _retrieval(step: Step, inputs: DecodedValue, outputs: DecodedValue) -> Step:
    query = step.retrieval_query or operation_input(inputs.value).query or _only_text(inputs.value)
    read = documents(outputs.value, trusted=True)
    if read is None and isinstance(outputs.value, str) and outputs.value.strip():
        read = documents([outputs.value], trusted=True)
    return step_with_documents(replace(step, retrieval_query=query), read)


def _only_text(value: AttributeValue) -> str | None:
    """What was searched for, under a name nobody has heard of."""
    texts = [text for text in value.values() if isinstance(text, str)] if is_mapping(value) else []
    return operation_input(decoded_value(texts[0]).value).query if len(texts) == 1 else None


def _tool(step: Step, inputs: DecodedValue, outputs: DecodedValue) -> Step:
    query = step.retrieval_query or operation_input(inputs.value).query or _only_text(inputs.value)
    tool = step.tool or step.span.name
    read = tool_documents(tool, tool_result(outputs.value))
    return step_with_documents(replace(step, retrieval_query=query, tool=tool), read)


def _embedding(step: Step, inputs: DecodedValue, _: DecodedValue) -> Step:
    """A single text that was embedded is what somebody searched for; several are a corpus."""
    value = inputs.value
    if is_mapping(value):
        value = next((value[key] for key in ("input", "texts", "query", "text", "inputs") if value.get(key)), None)
    if is_sequence(value):
        value = value[0] if len(value) == 1 else None
    return replace(step, retrieval_query=chain_input(value).query if isinstance(value, str) else None)


_READERS: Mapping[Role, Callable[[Step, DecodedValue, DecodedValue], Step]] = {
    Role.CHAIN: _chain,
    Role.AGENT: _chain,
    Role.LLM: _model_call,
    Role.RETRIEVAL: _retrieval,
    Role.RERANK: _retrieval,
    Role.TOOL: _tool,
    Role.EMBEDDING: _embedding,
}


def tool_result(value: AttributeValue, *, depth: int = 0) -> AttributeValue:
    """Return a tool's result without what frameworks put around it.

    >>> tool_result({"output": {"type": "tool", "content": "So."}})
    'So.'
    """
    if isinstance(value, str) and prints_messages(value):
        return next((message.content for message in messages_of(value)), value)
    if not is_mapping(value) or depth > _DEPTH:
        return value
    if "raw_output" in value and "tool_name" in value:  # LlamaIndex
        return value["raw_output"]
    inner = value.get("kwargs") if "lc" in value else value.get("data")
    message = inner if is_mapping(inner) and ("lc" in value or _speaks_for_a_tool(value)) else value
    is_message = _speaks_for_a_tool(value) or _speaks_for_a_tool(message)
    if is_message or len(value) == 1 or _is_wrapping(value):
        for key in ("artifact", *_RESULTS):
            if message.get(key) is not None:
                return tool_result(message[key], depth=depth + 1)
    return value


def _speaks_for_a_tool(message: Mapping[str, AttributeValue]) -> bool:
    """Whether it is a tool's message, by its type, role, or the class that LangChain names in `id`."""
    name = message.get("id")
    roles = (message.get("type"), message.get("role"), name[-1] if is_sequence(name) and name else None)
    return any(role_of(role) == "tool" for role in roles)


def _is_wrapping(value: Mapping[str, AttributeValue]) -> bool:
    return "output" in value and value.keys().isdisjoint(_OWN)
