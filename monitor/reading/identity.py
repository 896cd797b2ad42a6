"""Whose conversation a span belongs to: the keys that apps and SDKs use, whatever convention describes the span.

The list is dialects.md section 3.5; the general ones first. Keys that name a project or a process are not in it.
"""

from __future__ import annotations

from monitor.reading.attributes import mapping, text
from monitor.spans import Attributes

_SESSIONS = (
    "session.id",
    "gen_ai.conversation.id",
    "langfuse.session.id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.thread_id",
    "traceloop.association.properties.conversation_id",
    "traceloop.association.properties.chat_id",
    "ai.telemetry.metadata.sessionId",
    "ai.telemetry.metadata.session_id",
    "ai.telemetry.metadata.threadId",
    "ai.settings.context.sessionId",
    "ai.settings.context.session_id",
    "langsmith.metadata.session_id",
    "langsmith.metadata.thread_id",
    "langsmith.metadata.conversation_id",
    "spring.ai.chat.client.conversation.id",
    "confident.trace.thread_id",
    "mlflow.trace.session",
    "ai.observability.conversation_id",
)
_USERS = (
    "user.id",
    "enduser.id",
    "langfuse.user.id",
    "traceloop.association.properties.user_id",
    "ai.telemetry.metadata.userId",
    "ai.telemetry.metadata.user_id",
    "ai.settings.context.userId",
    "ai.settings.context.user_id",
    "langsmith.metadata.user_id",
    "confident.trace.user_id",
    "mlflow.trace.user",
)
_SESSION_METADATA = ("session_id", "thread_id", "conversation_id")
_USER_METADATA = ("user_id", "user")


def session(attributes: Attributes) -> str | None:
    """Return the id of the conversation, None when no known key holds one."""
    return _first(attributes, _SESSIONS) or _in_metadata(attributes, _SESSION_METADATA)


def user(attributes: Attributes) -> str | None:
    """Return the id of the person as the app sent it, None when no known key holds one."""
    return _first(attributes, _USERS) or _in_metadata(attributes, _USER_METADATA)


def _first(attributes: Attributes, keys: tuple[str, ...]) -> str | None:
    # Asked of every span several times, and most carry none of the keys.
    return None if attributes.keys().isdisjoint(keys) else text(attributes, *keys)


def _in_metadata(attributes: Attributes, keys: tuple[str, ...]) -> str | None:
    """OpenInference's `metadata`, a JSON object of what the app gave; parsed only where a key occurs in it."""
    held = attributes.get("metadata")
    if not isinstance(held, str) or not any(f'"{key}"' in held for key in keys):
        return None
    return text(mapping(attributes, "metadata"), *keys)
