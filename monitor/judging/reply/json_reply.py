"""A judge's reply, read strictly: one JSON object that fits the schema, or no reply at all.

Nothing is ever picked out of prose: a number in a sentence, a digit of a cut-off object and the first of two objects
have each been taken for a verdict by other tools.
"""

from __future__ import annotations

import json
import math
import re
from typing import NoReturn

from monitor.errors import UnreadableReply
from monitor.judging.prompt.schema import Json, Schema
from monitor.model.judgements import Reason, Reply
from monitor.text.claims import refuses
from monitor.text.sentences import split

PARSER_VERSION = 3
"""Part of every rubric id: goes up whenever a reply could be read differently than before."""

_FENCE = "```"
_LONGEST = 200_000
_LONGEST_REFUSAL = 600
_TAGS = r"(?:think|thinking|thoughts?|reasoning|reflection|analysis|scratchpad)"
_THINKING = re.compile(rf"\s*(?:<{_TAGS}>|\[think\]|<\|channel\|>analysis)", re.IGNORECASE)
_THOUGHT = re.compile(rf"</{_TAGS}>|\[/think\]|<\|channel\|>final(?:<\|message\|>)?", re.IGNORECASE)


def incomplete(reply: Reply) -> Reason | None:
    """Return why `reply` holds no verdict though nothing is wrong with its form; None when it should be read.

    CONTENT_FILTER, REFUSED and TRUNCATED, as the endpoint marks them.
    """
    if reply.finish_reason == "content_filter":
        return Reason.CONTENT_FILTER
    if reply.refusal is not None:
        return Reason.REFUSED
    return Reason.TRUNCATED if reply.finish_reason == "length" else None


def declines(reply: Reply) -> bool:
    """Return whether an unreadable reply is a refusal in prose. One that can be read is none, whatever its words.

    >>> declines(Reply(text="I'm sorry, but I can't assist with that.", model="m"))
    True
    """
    text = _THOUGHT.split(reply.text)[-1].strip()
    return "{" not in text and len(text) <= _LONGEST_REFUSAL and refuses(split(text))


def read(reply: Reply, schema: Schema) -> dict[str, Json]:
    """Return the reply's object, checked against `schema`.

    Raises:
        UnreadableReply: with reason `empty`, `reasoning_only`, `too_long`, `no_json`, `ambiguous` or `invalid`.
    """
    return schema.read(_object(spoken(reply)))


def spoken(reply: Reply) -> str:
    """Return the reply's text without the reasoning in front of it.

    Raises:
        UnreadableReply: with reason `empty`, `reasoning_only` or `too_long`.
    """
    text = reply.text
    # Some templates open the reasoning themselves, so that only its end is in the reply.
    half = not text.lstrip().startswith(("{", _FENCE)) and _THOUGHT.search(text)
    if half or _THINKING.match(text):
        # The last closing tag: text under judgement may hold one, and what it is followed by there is no verdict.
        thought = list(_THOUGHT.finditer(text))
        text = text[thought[-1].end() :] if thought else ""
        if not text.strip():
            raise UnreadableReply("the reply is empty but for its reasoning", reason="reasoning_only")
    if not text.strip():
        if reply.reasoned:
            raise UnreadableReply("the reply is empty but for its reasoning", reason="reasoning_only")
        raise UnreadableReply("the reply is empty", reason="empty")
    if len(text) > _LONGEST:
        raise UnreadableReply(f"the reply is longer than {_LONGEST} characters", reason="too_long")
    return text


def _object(text: str) -> Json:
    try:
        whole = _load(text)
    except ValueError:
        return _embedded(text)
    if not isinstance(whole, dict):
        raise UnreadableReply("the reply is JSON but no object", reason="no_json")
    return whole


def _embedded(text: str) -> Json:
    """Return the one object of the last fenced block, or of the text when it has no fence."""
    parts = text.split(_FENCE)
    # An odd number of parts means that every fence is closed.
    block, rest = (parts[-2], parts[-1]) if len(parts) > 2 and len(parts) % 2 else (parts[-1], "")  # noqa: PLR2004
    tree, end = _first(block)
    if _holds_object(block[end:]) or _holds_object(rest):
        raise UnreadableReply("the reply holds more than one JSON object", reason="ambiguous")
    return tree


def _first(text: str) -> tuple[Json, int]:
    start = text.find("{")
    if start < 0:
        raise UnreadableReply("the reply holds no JSON object", reason="no_json")
    try:
        # Only the first brace is tried: an object inside a broken one is a fragment, not a reply.
        return _decode(text, start)
    except ValueError:
        raise UnreadableReply("the reply's JSON object is broken", reason="no_json") from None


def _holds_object(text: str) -> bool:
    start = text.find("{")
    while start >= 0:
        try:
            _decode(text, start)
        except ValueError:
            start = text.find("{", start + 1)
        else:
            return True
    return False


def _load(text: str) -> Json:
    stripped = text.strip()
    value, end = _decode(stripped, 0)
    if end != len(stripped):
        raise ValueError("text after the JSON value")
    return value


def _decode(text: str, start: int) -> tuple[Json, int]:
    """Return the JSON value at `start` and its end; ValueError for anything else, nesting without end included."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value, end


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError("a key is there twice")
    return dict(pairs)


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError("a number without end")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant)
