"""Chat messages in the shapes that providers and frameworks give them, as role, text and number of tool calls.

Known shapes: OpenAI chat and Responses, OTel GenAI parts, OpenInference contents, LangChain (`type`/`data`,
constructor JSON, tuples), LlamaIndex blocks, DSPy and pair lists, and Python reprs of these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from monitor.extract import reprs
from monitor.extract.attributes import REDACTED, is_mapping, is_sequence
from monitor.extract.json_text import dump, parse
from monitor.model.spans import AttributeValue
from monitor.model.turns import Message

_ROLES = {
    "human": "user", "user": "user", "humanmessage": "user", "humanmessagechunk": "user",
    "ai": "assistant", "assistant": "assistant", "model": "assistant", "bot": "assistant", "aimessage": "assistant",
    "aimessagechunk": "assistant", "chatbot": "assistant",
    "system": "system", "developer": "system", "systemmessage": "system",
    "tool": "tool", "function": "tool", "toolmessage": "tool", "functionmessage": "tool",
}  # fmt: skip
_MEDIA = {"image": "[image]", "audio": "[audio]", "video": "[video]", "document": "[file]", "file": "[file]"}
_MEDIA_KEYS = ("modality", "mime_type", "media_type", "mediaType", "mimeType")
_HIDDEN = {"reasoning", "thinking", "redacted_thinking", "reasoning_content", "refusal_reason"}
_CALLS = {"tool_call", "tool_use", "function_call", "tool-call", "server_tool_use"}
_RESULTS = {"tool_call_response", "tool_result", "function_call_output", "tool-result", "tool_response"}
_CALL_KEYS = ("function_call", "functionCall", "toolUse")
_RESULT_KEYS = ("function_response", "functionResponse", "toolResult")
_TEXT = {"text"}
_ITEMS = _CALLS | _RESULTS | {"message"}
"""Types that stand beside messages in a list, not inside one."""
_PAIRS = (("question", "answer"), ("user", "assistant"), ("human", "ai"), ("query", "response"), ("input", "output"))
_DATA_URI = re.compile(r"data:([\w.+-]++)/?[\w.+-]*+;base64,[A-Za-z0-9+/=_-]*+")
_DEPTH = 6


@dataclass(frozen=True, slots=True)
class ParsedMessage:
    """One message; `tool_calls` counts the calls it asks for, `certain` is False for what was read out of a repr."""

    role: str
    content: str
    tool_calls: int = 0
    certain: bool = True


def role_of(value: AttributeValue) -> str | None:
    """Return `user`, `assistant`, `system` or `tool`; None for anything that is no role."""
    return _ROLES.get(value.lower()) if isinstance(value, str) else None


def messages_of(  # noqa: PLR0911 -- one return per shape
    value: AttributeValue, *, default_role: str = "user", depth: int = 0
) -> tuple[ParsedMessage, ...]:
    """Return the messages in a value, oldest first; plain text is one message of role `default_role`."""
    if depth > _DEPTH or value is None:
        return ()
    if isinstance(value, str):
        return _from_text(value, default_role, depth)
    if is_mapping(value):
        return _from_mapping(value, default_role, depth)
    if is_sequence(value):
        pair = _from_pair(value)
        if pair is not None:
            return pair
        if value and all(is_mapping(part) and "role" not in part and _is_part(part) for part in value):
            return (_message(default_role, value),)
        return _in_order(value, default_role, depth)
    return ()


def text_of(content: AttributeValue, *, depth: int = 0) -> str:
    """Return the text of a message's content; other media become a marker such as `[image]`, reasoning is left out."""
    if isinstance(content, str):
        return _DATA_URI.sub(_marker, content) if ";base64," in content else content
    if depth > _DEPTH:
        return ""
    if is_mapping(content):
        return _part_text(content, depth)
    if is_sequence(content):
        return "\n".join(piece for part in content if (piece := text_of(part, depth=depth + 1)))
    return "" if content is None or isinstance(content, bytes) else str(content)


def prompt_messages(messages: Sequence[ParsedMessage]) -> tuple[Message, ...]:
    """Return what went into a model call; a user's message stays even when its content was lost."""
    return tuple(Message(role=m.role, content=m.content) for m in messages if m.content or m.role == "user")


def conversation(messages: Sequence[ParsedMessage]) -> tuple[Message, ...]:
    """Return what user and assistant said, without system prompts, tool traffic and empty messages."""
    return tuple(
        Message(role=m.role, content=m.content) for m in messages if m.role in {"user", "assistant"} and m.content
    )


def before_last_user(messages: Sequence[ParsedMessage]) -> tuple[tuple[ParsedMessage, ...], ParsedMessage | None]:
    """Return the messages before the last one of a user, and that one; all and None when no user spoke."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "user":
            return tuple(messages[:at]), messages[at]
    return tuple(messages), None


def without_underscores(message: Mapping[str, AttributeValue]) -> Mapping[str, AttributeValue]:
    """Return a message with the names that Haystack's had an underscore before (`_role`, `_content`), any other as is.

    >>> without_underscores({"_role": "user", "_content": "Why?"})
    {'role': 'user', 'content': 'Why?'}
    """
    return {key.lstrip("_"): value for key, value in message.items()} if "_role" in message else message


def _in_order(value: Sequence[AttributeValue], default_role: str, depth: int) -> tuple[ParsedMessage, ...]:
    """The messages of a list; what follows a tool's call under an unheard-of role is its result, named for the tool."""
    messages: list[ParsedMessage] = []
    for item in value:
        read = messages_of(item, default_role=default_role, depth=depth + 1)
        follows_call = bool(messages) and (messages[-1].tool_calls > 0 or messages[-1].role == "tool")
        if follows_call and is_mapping(item) and isinstance(item.get("role"), str) and role_of(item["role"]) is None:
            read = tuple(replace(message, role="tool") for message in read)
        messages += read
    return tuple(messages)


def _from_text(value: str, default_role: str, depth: int) -> tuple[ParsedMessage, ...]:
    if not value.strip() or value == REDACTED:
        return ()
    parsed = parse(value)
    if parsed is not None and not isinstance(parsed.value, str):
        read = messages_of(parsed.value, default_role=default_role, depth=depth + 1)
        if read or parsed.value in ([], {}):
            return read
    if reprs.prints_messages(value):
        printed = reprs.literal(value)
        if printed is not None:
            read = messages_of(printed, default_role=default_role, depth=depth + 1)
        else:
            read = tuple(
                ParsedMessage(role_of(r) or role_of(f"{r}message") or default_role, t) for r, t in reprs.messages(value)
            )
        if read or not printed:
            return tuple(replace(message, certain=False) for message in read)
    whole = parsed.value if parsed is not None and isinstance(parsed.value, str) else value
    return (ParsedMessage(default_role, text_of(whole)),)


def _from_mapping(  # noqa: PLR0911 -- one return per shape
    value: Mapping[str, AttributeValue], default_role: str, depth: int
) -> tuple[ParsedMessage, ...]:
    value = without_underscores(value)
    role = role_of(value.get("role")) or role_of(value.get("type"))
    kwargs = value.get("kwargs")
    if "lc" in value and is_mapping(kwargs):
        name = value.get("id")
        last = name[-1] if is_sequence(name) and name else None
        role = role_of(last) or role_of(kwargs.get("type"))
        return (_message(role or default_role, kwargs),) if "content" in kwargs else ()
    inner = value.get("data") if role_of(value.get("type")) else value.get("message")
    if is_mapping(inner) and ("content" in inner or "role" in inner or "contents" in inner):
        return (_message(role_of(inner.get("role")) or role or default_role, inner),)
    if str(value.get("type")) in _RESULTS:
        return (ParsedMessage("tool", text_of(_result(value))),)
    content = value.get("content")
    if is_mapping(content) and is_sequence(content.get("parts")):  # Gemini's content, with a role of its own
        return (_message(role_of(content.get("role")) or role or default_role, content),)
    if role is not None or ("role" in value and _has_body(value)):
        return (_message(role or default_role, value),)
    for key in ("messages", "chat_history", "input"):
        if is_sequence(value.get(key)):
            return messages_of(value[key], default_role=default_role, depth=depth + 1)
    for question_key, answer_key in _PAIRS:
        if isinstance(value.get(question_key), str) and isinstance(value.get(answer_key), str):
            return ParsedMessage("user", str(value[question_key])), ParsedMessage("assistant", str(value[answer_key]))
    return (_message(default_role, value),) if _has_body(value) else ()


def _from_pair(value: Sequence[AttributeValue]) -> tuple[ParsedMessage, ...] | None:
    """`["human", "hi"]` is one message, `["hi", "hello"]` a question and its answer."""
    if len(value) != 2 or not all(isinstance(part, str) for part in value):  # noqa: PLR2004 -- a pair
        return None
    first, second = str(value[0]), str(value[1])
    if role_of(first):
        return (ParsedMessage(role_of(first) or "user", text_of(second)),)
    if reprs.prints_messages(first) or parse(first) is not None:
        return None
    return ParsedMessage("user", first), ParsedMessage("assistant", second)


def _has_body(value: Mapping[str, AttributeValue]) -> bool:
    return any(key in value for key in ("content", "parts", "contents", "blocks", "text", "tool_calls"))


def _message(role: str, value: Mapping[str, AttributeValue] | Sequence[AttributeValue]) -> ParsedMessage:
    body: AttributeValue = value
    calls = 0
    if is_mapping(value):
        body = next((value[key] for key in ("parts", "contents", "blocks", "content", "text") if value.get(key)), None)
        tool_calls = value.get("tool_calls")
        calls = len(tool_calls) if is_sequence(tool_calls) else 0
    if is_sequence(body):
        calls += sum(1 for part in body if is_mapping(part) and _kind(part) in _CALLS)
        if role == "user" and body and all(map(_is_result, body)):
            role = "tool"
        elif role == "assistant":  # some SDKs record a whole run, tool results included, as one message
            body = tuple(part for part in body if not _is_result(part))
    if role == "tool" and _is_made(body):
        return ParsedMessage(role, dump(body), calls)
    return ParsedMessage(role, text_of(body), calls)


def _is_made(body: AttributeValue) -> bool:
    """Whether a tool's message holds what the tool made, and no text about it."""
    parts = body if is_sequence(body) else (body,)
    return bool(parts) and all(is_mapping(part) and not _kind(part) and part.keys() != _TEXT for part in parts)


def _is_result(part: AttributeValue) -> bool:
    return is_mapping(part) and _kind(part) in _RESULTS


def _kind(part: Mapping[str, AttributeValue]) -> str:
    """The type of a part; Gemini's and Bedrock's say it by the key that holds something."""
    kind = part.get("type") or part.get("block_type") or part.get("kind")
    if kind:
        return str(kind)
    if any(is_mapping(part.get(key)) for key in _CALL_KEYS):
        return "tool_call"
    if any(is_mapping(part.get(key)) for key in _RESULT_KEYS):
        return "tool_result"
    return "thinking" if part.get("thought") is True or part.get("reasoningContent") else ""


def _is_part(part: Mapping[str, AttributeValue]) -> bool:
    kind = part.get("type") or part.get("block_type")
    return isinstance(kind, str) and role_of(kind) is None and kind not in _ITEMS and "lc" not in part


def _part_text(part: Mapping[str, AttributeValue], depth: int) -> str:
    kind = _kind(part)
    if kind in _HIDDEN or kind in _CALLS:
        return ""
    if kind in _RESULTS:
        return text_of(_result(part), depth=depth + 1)
    medium = _medium(kind, part)
    if medium:
        return medium
    for key in ("text", "content", "parts", "value", "message_content", "input_text", "output_text"):
        if part.get(key):
            return text_of(part[key], depth=depth + 1)
    return ""


def _medium(kind: str, part: Mapping[str, AttributeValue]) -> str | None:
    if kind in {"text", "input_text", "output_text"}:
        return None
    label = str(next((part[key] for key in _MEDIA_KEYS if part.get(key)), kind)).lower()
    for name, marker in _MEDIA.items():
        if name in label:
            return marker
    if kind in {"blob", "uri", "media"} or any(key.startswith("image") for key in part):
        return "[file]" if kind in {"blob", "uri", "media"} else "[image]"
    return None


def _result(part: Mapping[str, AttributeValue]) -> AttributeValue:
    part = next((inner for key in _RESULT_KEYS if is_mapping(inner := part.get(key))), part)
    value = next((part[key] for key in ("response", "result", "output", "content") if part.get(key) is not None), None)
    return dump(value) if is_mapping(value) else value


def _marker(match: re.Match[str]) -> str:
    return _MEDIA.get(match[1], "[file]")
