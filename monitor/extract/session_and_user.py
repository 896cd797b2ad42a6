"""Whose conversation a span belongs to, by the keys that apps and several SDKs share.

Keys of one SDK are declared by its dialect; `with_standard_keys` says them in OpenTelemetry's words, on whatever span
they stand. Keys that name a project or a process are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from monitor.extract.attributes import is_mapping, mapping, text
from monitor.model.spans import Attributes, AttributeValue, Span

SESSION, USER = "session.id", "user.id"
_CONVERSATION, _AGENT_CALL = "gen_ai.conversation.id", "gen_ai.agent.call.id"
_SESSION_NAMES = (
    "langfuse_session_id", "session_id", "sessionId", "thread_id", "threadId", "conversation_id", "conversationId",
    "chat_id", "chatId",
)  # fmt: skip
_USER_NAMES = ("langfuse_user_id", "user_id", "userId")
"""How apps name their ids in settings and metadata, whatever SDK carries them; LangChain apps name Langfuse's so."""
_SESSION_KEYS = (
    SESSION,
    _CONVERSATION,
    *(f"metadata.{name}" for name in _SESSION_NAMES),
    "conversation.id",
    *(name for name in _SESSION_NAMES if "thread" not in name),
)
"""By itself `thread.id` is that of an operating system's thread."""
_USER_KEYS = (USER, "enduser.id", *(f"metadata.{name}" for name in _USER_NAMES), *_USER_NAMES)
_SHARED_KEYS = frozenset((*_SESSION_KEYS, *_USER_KEYS))
_QUOTED = re.compile(r'"[^"\\]+"')
"""MLflow writes every value as JSON, Langfuse that of metadata."""
_SESSION_METADATA = ("session_id", "thread_id", "conversation_id")
_USER_METADATA = ("user_id", "user")
_UUID7 = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
"""RFC 9562 section 5.7: the first 48 bits are Unix time in milliseconds."""
_TOGETHER_MS = 50
_RESPONSE_ID = "resp_"
_SETTINGS = ("kwargs", "metadata", "config", "configurable")
_LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAndUserKeys:
    """Where an SDK writes the ids of conversation and person, on its own spans and on those of others."""

    session_id: tuple[str, ...] = ()
    user_id: tuple[str, ...] = ()
    metadata_prefixes: tuple[str, ...] = ()
    """Beginnings of keys that end in a name of the app's choice, such as `langsmith.metadata.` (`session_id`)."""


def merged(declarations: Iterable[SessionAndUserKeys]) -> SessionAndUserKeys:
    """Return the keys of all conventions, each with every name that apps use below its prefixes."""
    declared = tuple(declarations)
    prefixes = [prefix for keys in declared for prefix in keys.metadata_prefixes]
    return SessionAndUserKeys(
        session_id=(
            *(key for keys in declared for key in keys.session_id),
            *(prefix + name for prefix in prefixes for name in _SESSION_NAMES),
        ),
        user_id=(
            *(key for keys in declared for key in keys.user_id),
            *(prefix + name for prefix in prefixes for name in _USER_NAMES),
        ),
    )


def with_standard_keys(span: Span, keys: SessionAndUserKeys) -> Span:
    """Return the span with `session.id` and `user.id` where only `keys`, which are `merged`, say them."""
    attributes = span.attributes
    ids: dict[str, AttributeValue] = {}
    session_id = _first(attributes, keys.session_id)
    if session_id is not None and session(attributes) is None:
        ids[SESSION] = session_id
    user_id = _first(attributes, keys.user_id)
    if user_id is not None and user(attributes) is None:
        ids[USER] = user_id
    return replace(span, attributes={**attributes, **ids}) if ids else span


def is_only_whose(attributes: Attributes, *besides: str) -> bool:
    """Return whether nothing but ids of conversation and person is recorded, by keys that are shared; or nothing.

    `besides` are beginnings of keys that an SDK writes on every span.
    """
    return all(key in _SHARED_KEYS or key.startswith(besides) for key in attributes)


def session(attributes: Attributes, *own: str) -> str | None:
    """Return the id of the conversation, None when no known key holds one; a convention's `own` keys come first."""
    session_id = _first(attributes, (*own, *_SESSION_KEYS) if own else _SESSION_KEYS)
    if session_id is not None and session_id == attributes.get(_CONVERSATION) and _is_minted(attributes, session_id):
        session_id = None
    return session_id or _in_metadata(attributes, _SESSION_METADATA)


def user(attributes: Attributes) -> str | None:
    """Return the id of the person as the app sent it, None when no known key holds one."""
    return _first(attributes, _USER_KEYS) or _in_metadata(attributes, _USER_METADATA)


def session_in_input(value: AttributeValue) -> str | None:
    """Return the id of the conversation that a function or chain was called with; None when its input names none.

    >>> session_in_input({"args": [], "kwargs": {"question": "Why?", "session_id": "s-1"}})
    's-1'
    >>> session_in_input({"inputs": {}, "metadata": {"thread_id": "t-1"}})
    't-1'
    """
    return _id_in_input(value, _SESSION_NAMES)


def user_in_input(value: AttributeValue) -> str | None:
    """Return the id of the person that a function or chain was called with; None when its input names none."""
    return _id_in_input(value, _USER_NAMES)


def _id_in_input(value: AttributeValue, names: tuple[str, ...]) -> str | None:
    for settings in _input_and_settings(value):
        written = text(settings, *names)
        if written is not None and len(written) <= _LONGEST and not any(map(str.isspace, written)):
            return written
    return None


def _input_and_settings(value: AttributeValue) -> Iterator[Attributes]:
    """An input, and what stands one or two levels below it under the names of settings."""
    level = [value] if is_mapping(value) else []
    for _ in range(3):
        yield from level
        level = [inner for outer in level for name in _SETTINGS if is_mapping(inner := outer.get(name))]


def _first(attributes: Attributes, keys: tuple[str, ...]) -> str | None:
    # Called for every span several times, and most carry none of the keys.
    written = None if attributes.keys().isdisjoint(keys) else text(attributes, *keys)
    return written[1:-1] if written is not None and _QUOTED.fullmatch(written) else written


def _is_minted(attributes: Attributes, conversation: str) -> bool:
    """Whether a conversation id was made up for a turn.

    With the id of the call: Pydantic AI does so when the app names none. Agent Framework writes the id of the response
    that a call goes on from, as OpenAI's API names those.
    """
    if conversation.startswith(_RESPONSE_ID):
        return True
    call = attributes.get(_AGENT_CALL)
    if not isinstance(call, str):
        return False
    begun, called = _UUID7.fullmatch(conversation), _UUID7.fullmatch(call)
    if begun is None or called is None:
        return False
    return abs(int(begun[1] + begun[2], 16) - int(called[1] + called[2], 16)) <= _TOGETHER_MS


def _in_metadata(attributes: Attributes, names: tuple[str, ...]) -> str | None:
    """OpenInference's `metadata`, a JSON object of what the app gave; parsed only where a name occurs in it."""
    written = attributes.get("metadata")
    if not isinstance(written, str) or not any(f'"{name}"' in written for name in names):
        return None
    return text(mapping(attributes, "metadata"), *names)
