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
        return _without_nul(Text(tree, record))
    # Python's own json writes NaN and lone surrogates, and an odd byte should not cost the turn around it.
    try:
        tree = _strict(json.loads(decoded(record)[0], strict=False, parse_constant=lambda _: None))
        return Text(tree, orjson.dumps(tree), repaired=True)
    except (ValueError, TypeError, RecursionError):
        raise MalformedPayload(where, reason="not_json") from None


def _without_nul(read: Text) -> Text:
    """The only thing that strict JSON may say and databases cannot hold; it is always written as an escape."""
    if b"\\u0000" not in read.record:
        return read
    tree = _strict(read.tree)
    return read if tree == read.tree else Text(tree, orjson.dumps(tree), repaired=True)


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
