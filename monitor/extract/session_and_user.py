"""Whose conversation a span belongs to: the keys that apps and SDKs use, whatever convention describes the span.

The list is dialects.md section 3.5; the general ones first. Keys that name a project or a process are not in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from monitor.extract.attributes import is_mapping, mapping, text
from monitor.model.spans import Attributes, AttributeValue

_BAGS = (
    "traceloop.association.properties.",
    "ai.telemetry.metadata.",
    "ai.settings.context.",
    "langsmith.metadata.",
    "langfuse.trace.metadata.",
    "langfuse.observation.metadata.",
    "mastra.metadata.",
    "metadata.",
)
"""Prefixes below which SDKs put what the app calls its ids."""
_IN_BAGS = (
    "langfuse_session_id", "session_id", "sessionId", "thread_id", "threadId", "conversation_id", "conversationId",
    "chat_id", "chatId",
)  # fmt: skip
_USER_IN_BAGS = ("langfuse_user_id", "user_id", "userId")
_SESSIONS = (
    "session.id",
    "gen_ai.conversation.id",
    "langfuse.session.id",
    *(bag + key for bag in _BAGS for key in _IN_BAGS),
    "spring.ai.chat.client.conversation.id",
    "confident.trace.thread_id",
    "mlflow.trace.session",
    "ai.observability.conversation_id",
    "gen_ai.thread.id",
    "conversation.id",
    *(key for key in _IN_BAGS if "thread" not in key),
)
"""By itself `thread.id` is that of an operating system's thread."""
_USERS = (
    "user.id",
    "enduser.id",
    "langfuse.user.id",
    *(bag + key for bag in _BAGS for key in _USER_IN_BAGS),
    "confident.trace.user_id",
    "mlflow.trace.user",
    *_USER_IN_BAGS,
)
_QUOTED = re.compile(r'"[^"\\]+"')
"""MLflow writes every value as JSON, Langfuse that of metadata."""
_SESSION_METADATA = ("session_id", "thread_id", "conversation_id")
_UUID7 = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
"""RFC 9562 section 5.7: the first 48 bits are Unix time in milliseconds."""
_TOGETHER_MS = 50
_SETTINGS = ("kwargs", "metadata", "config", "configurable")
_LONGEST = 200
_USER_METADATA = ("user_id", "user")


def session(attributes: Attributes, *own: str) -> str | None:
    """Return the id of the conversation, None when no known key holds one; a convention's `own` keys come first."""
    found = _first(attributes, (*own, *_SESSIONS) if own else _SESSIONS)
    if found is not None and found == attributes.get("gen_ai.conversation.id") and _minted(attributes, found):
        found = None
    return found or _in_metadata(attributes, _SESSION_METADATA)


def user(attributes: Attributes) -> str | None:
    """Return the id of the person as the app sent it, None when no known key holds one."""
    return _first(attributes, _USERS) or _in_metadata(attributes, _USER_METADATA)


def session_given(value: AttributeValue) -> str | None:
    """Return the id of the conversation that a function or chain was given; None when its input names none.

    >>> session_given({"args": [], "kwargs": {"question": "Why?", "session_id": "s-1"}})
    's-1'
    >>> session_given({"inputs": {}, "metadata": {"thread_id": "t-1"}})
    't-1'
    """
    return _given(value, _IN_BAGS)


def user_given(value: AttributeValue) -> str | None:
    """Return the id of the person that a function or chain was given; None when its input names none."""
    return _given(value, _USER_IN_BAGS)


def _given(value: AttributeValue, keys: tuple[str, ...]) -> str | None:
    for holder in _holders(value):
        found = text(holder, *keys)
        if found is not None and len(found) <= _LONGEST and not any(map(str.isspace, found)):
            return found
    return None


def _holders(value: AttributeValue) -> Iterator[Attributes]:
    """An input, and what stands one or two levels below it under the names of settings."""
    level = [value] if is_mapping(value) else []
    for _ in range(3):
        yield from level
        level = [held for holder in level for key in _SETTINGS if is_mapping(held := holder.get(key))]


def _first(attributes: Attributes, keys: tuple[str, ...]) -> str | None:
    # Asked of every span several times, and most carry none of the keys.
    found = None if attributes.keys().isdisjoint(keys) else text(attributes, *keys)
    return found[1:-1] if found is not None and _QUOTED.fullmatch(found) else found


def _minted(attributes: Attributes, conversation: str) -> bool:
    """Whether a conversation id was made up with the id of the call: Pydantic AI does so when the app names none."""
    call = attributes.get("gen_ai.agent.call.id")
    if not isinstance(call, str):
        return False
    made, called = _UUID7.fullmatch(conversation), _UUID7.fullmatch(call)
    if made is None or called is None:
        return False
    return abs(int(made[1] + made[2], 16) - int(called[1] + called[2], 16)) <= _TOGETHER_MS


def _in_metadata(attributes: Attributes, keys: tuple[str, ...]) -> str | None:
    """OpenInference's `metadata`, a JSON object of what the app gave; parsed only where a key occurs in it."""
    held = attributes.get("metadata")
    if not isinstance(held, str) or not any(f'"{key}"' in held for key in keys):
        return None
    return text(mapping(attributes, "metadata"), *keys)
