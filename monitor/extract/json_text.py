"""JSON inside attributes: complete, slightly wrong, or cut by an attribute length limit.

SDKs cut attribute values without a mark (OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT), which breaks JSON in the middle;
what stands before the cut is still readable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import orjson

from monitor.model.spans import AttributeValue

_CLOSERS = {"{": "}", "[": "]"}
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]++|(?P<cut>").*+', re.DOTALL)
_DANGLING = re.compile(r"(?<!\\)((?:\\\\)*+)\\(?:u[0-9a-fA-F]{0,3})?$")
_LONE_HIGH = re.compile(r"(?<!\\)((?:\\\\)*+)\\u[dD][89abAB][0-9a-fA-F]{2}$")
_DOCUMENT = re.compile(r'\s*(?:\{\s*["}]|\[\s*["{\[\]\d\-tfn]|")')
_DEEPEST = 200
"""Levels of what is repaired: whatever nests deeper was written to be slow."""
LONGEST_REPAIRED, MOST_REPAIRED = 2**20, 4 * 2**20
"""Characters that are looked at of one broken document, and of all of one trace: token by token, 0.3 s a million."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A JSON document's value; `cut` is the text value that the document broke off in, "" when between values."""

    value: AttributeValue
    cut: str | None = None
    """None: the document is complete."""


@dataclass(slots=True)
class Repairs:
    """What broken documents were made of within one `repairing`."""

    left: int = MOST_REPAIRED
    """Characters that may still be looked at."""
    left_out: bool = False
    """Whether there was no room for all."""
    made: dict[str, Parsed | None] = field(default_factory=dict)
    """By text: instrumentations repeat the same one on many spans."""

    def repaired(self, text: str) -> Parsed | None:
        """Return what `_salvage` makes of a text, as far as there is room for it; None where there is none."""
        if text not in self.made:
            most = min(LONGEST_REPAIRED, self.left)
            self.left_out |= len(text) > most
            self.left -= min(len(text), most)
            self.made[text] = _salvage(text[:most]) if most else None
        return self.made[text]


_REPAIRS: ContextVar[Repairs | None] = ContextVar("repairs", default=None)
"""Of the trace that is being read. An argument would go through every reader, those of other distributions too."""


@contextmanager
def repairing() -> Iterator[Repairs]:
    """Bound what is repaired inside, of all texts together; a document that there is no room for stays plain text."""
    repairs = Repairs()
    token = _REPAIRS.set(repairs)
    try:
        yield repairs
    finally:
        _REPAIRS.reset(token)


def parse(text: str) -> Parsed | None:
    """Return what a JSON object, array or quoted string says, up to the cut if it was cut; None for anything else.

    >>> parse('{"question": "Why?", "history": [{"ro')
    Parsed(value={'question': 'Why?', 'history': [{}]}, cut='')
    >>> parse("{not json}") is None
    True
    """
    if not _DOCUMENT.match(text):
        return None
    try:
        return Parsed(orjson.loads(text))
    except orjson.JSONDecodeError:
        pass
    try:
        return Parsed(json.loads(text, strict=False, parse_constant=_no_number))
    except (ValueError, RecursionError):
        repairs = _REPAIRS.get()
        return (Repairs() if repairs is None else repairs).repaired(text)


def innermost(text: str) -> Parsed | None:
    r"""Return as `parse` does what a text says that is JSON, or JSON text written as JSON text again, however often.

    >>> innermost('"[\\"So.\\"]"')
    Parsed(value=['So.'], cut=None)
    """
    parsed = parse(text)
    while parsed is not None and isinstance(parsed.value, str):
        inner = parse(parsed.value)
        if inner is None:
            break
        parsed = inner
    return parsed


def unwrap(value: AttributeValue) -> AttributeValue:
    """Return the value of a text that is a JSON document, any other value as it is."""
    if isinstance(value, str):
        parsed = innermost(value)
        return value if parsed is None else parsed.value
    return value


def broken_off(values: Mapping[str, AttributeValue], keys: Iterable[str]) -> bool:
    """Return whether one of `keys` holds a JSON document that was cut.

    >>> broken_off({"a": '{"b": [1, 2', "c": '{"b": "'}, ["a"]), broken_off({"a": "[1]"}, ["a", "z"])
    (True, False)
    """
    for key in keys:
        value = values.get(key)
        parsed = parse(value) if isinstance(value, str) else None
        if parsed is not None and parsed.cut is not None:
            return True
    return False


def dump(value: AttributeValue) -> str:
    """Return compact JSON with sorted keys; equal values give equal texts."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=_plain)


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _no_number(_: str) -> None:
    """NaN and Infinity are not JSON and no use to anybody."""


def _salvage(text: str) -> Parsed | None:  # noqa: C901 -- one branch per kind of token
    """Close what is open; `safe` is the end of the last complete value or opening bracket."""
    stack: list[str] = []
    safe, expect = 0, "value"
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if len(stack) > _DEEPEST or (token.start() > 0 and not stack and safe):
            return None  # what follows a whole document makes it none
        if mark in _CLOSERS:
            stack.append(mark)
            safe, expect = token.end(), "key" if mark == "{" else "value"
        elif mark in "}]":
            if not stack or _CLOSERS[stack.pop()] != mark:
                return None
            safe, expect = token.end(), "comma"
        elif mark == ":":
            expect = "value"
        elif mark == ",":
            expect = "key" if stack and stack[-1] == "{" else "value"
        elif token["cut"]:
            if not stack:
                return None  # a text that begins with a quotation mark
            return _close(text, token.start(), safe, stack, in_value=expect == "value")
        elif expect == "value" and (token.end() < len(text) or mark[0] == '"'):
            safe, expect = token.end(), "comma"
        elif expect == "key":
            expect = "colon"
    return _close(text, len(text), safe, stack, in_value=False) if stack else None


def _close(text: str, start: int, safe: int, stack: list[str], *, in_value: bool) -> Parsed | None:
    closers = "".join(_CLOSERS[mark] for mark in reversed(stack))
    cut = ""
    if in_value:
        piece = _LONE_HIGH.sub(r"\1", _DANGLING.sub(r"\1", text[start + 1 :]))
        text, safe = text[: start + 1] + piece + '"', start + len(piece) + 2
    try:
        if in_value:
            cut = json.loads(text[start:safe], strict=False)
        return Parsed(json.loads(text[:safe] + closers, strict=False, parse_constant=_no_number), cut)
    except (ValueError, RecursionError):
        return None
