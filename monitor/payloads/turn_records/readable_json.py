"""One JSON record, read as JSON should be, else as programs write it: NaN, text that is not Unicode, huge integers."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import orjson

from monitor.errors import MalformedPayload
from monitor.text.repair import decoded, repaired

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Text:
    """A record that is strict JSON now: its value, and the bytes to keep."""

    tree: object
    record: bytes
    repaired: bool = False
    """Whether something was replaced: U+FFFD for what is no text, null for what is no number."""


def readable(record: bytes) -> Text:
    """Return the record as strict JSON.

    Raises:
        MalformedPayload: it is no JSON (`not_json`); the message says where, never what.
    """
    record = record.removeprefix(_BOM).strip()
    try:
        tree = orjson.loads(record)
    except orjson.JSONDecodeError as error:
        where = f"not JSON: line {error.lineno}, column {error.colno}"
    else:
        read = Text(tree, record)
        # NUL is the only thing that strict JSON may say and databases cannot hold; it is always written as an escape.
        rewritten = _rewritten(tree, "nested too deeply") if b"\\u0000" in record else read
        return read if rewritten.tree == tree else rewritten
    # Python's own json writes NaN and lone surrogates, and an odd byte should not cost the turn around it.
    try:
        tree = json.loads(decoded(record)[0], strict=False, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        raise MalformedPayload(where, reason="not_json") from None
    return _rewritten(tree, where)


def _rewritten(tree: object, complaint: str) -> Text:
    """Return a record of which something was replaced; one that is nested too deeply for that is malformed."""
    try:
        strict = _strict(tree)
        return Text(strict, orjson.dumps(strict), repaired=True)
    except (TypeError, ValueError, RecursionError):
        raise MalformedPayload(complaint, reason="not_json") from None


def _strict(value: object) -> object:
    if isinstance(value, str):
        return repaired(value)
    if isinstance(value, list):
        return [_strict(item) for item in value]
    if isinstance(value, dict):
        return {_strict(key): _strict(item) for key, item in value.items()}
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
