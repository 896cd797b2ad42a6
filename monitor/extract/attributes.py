"""Typed access to attribute values, whose types senders choose freely."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from monitor.extract.json_text import dump, parse
from monitor.model.spans import Attributes, AttributeValue

REDACTED = "__REDACTED__"
"""What OpenInference's privacy switches write instead of content."""
SCRUBBED = "[Scrubbed due to '"
"""How what Logfire writes instead of a value begins that looks like a secret; `session` is among its words."""
_NO_MAPPINGS = frozenset({str, int, float, bool, list, tuple, type(None)})


def is_sequence(value: object) -> TypeGuard[Sequence[AttributeValue]]:
    """Return whether the value is an array; text and bytes are not."""
    return isinstance(value, list | tuple)


def is_mapping(value: object) -> TypeGuard[Mapping[str, AttributeValue]]:
    """Return whether the value is a map."""
    kind = type(value)  # an abstract class costs five times as much to ask
    return kind is dict or (kind not in _NO_MAPPINGS and isinstance(value, Mapping))


def text(attributes: Attributes, *keys: str) -> str | None:
    """Return the first of `keys` that holds text that is not blank; numbers as they print."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, str):
            if value.strip() and not value.startswith(SCRUBBED):
                return value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
    return None


def visible_text(attributes: Attributes, *keys: str) -> str | None:
    """Return the first of `keys` that holds text which no privacy switch replaced; structured values as JSON."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, str):
            if value.strip() and value != REDACTED and not value.startswith(SCRUBBED):
                return value
        elif is_mapping(value) or is_sequence(value):
            return dump(value)
        elif isinstance(value, int | float):
            return str(value)
    return None


def integer(attributes: Attributes, *keys: str) -> int | None:
    """Return the first of `keys` that holds a whole number, as number or text."""
    for key in keys:
        value = number(attributes, key)
        if value is not None:
            return int(value)
    return None


def number(attributes: Attributes, *keys: str) -> float | None:
    """Return the first of `keys` that holds a finite number, as number or text."""
    for key in keys:
        value = finite(attributes.get(key))
        if value is not None:
            return value
    return None


def finite(value: AttributeValue) -> float | None:
    """Return the value as a finite number; None when it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        parsed = float(value)
    except (ValueError, OverflowError):
        return None
    return parsed if math.isfinite(parsed) else None


def boolean(attributes: Attributes, *keys: str) -> bool | None:
    """Return the first of `keys` that holds a truth value, as such or as the text `true` or `false`."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in {"true", "false"}:
            return value.lower() == "true"
    return None


def mapping(attributes: Attributes, key: str) -> Mapping[str, AttributeValue]:
    """Return the map that `key` holds, as such or as JSON text (as far as it can be read); empty otherwise."""
    value = attributes.get(key)
    if isinstance(value, str):
        parsed = parse(value)
        value = parsed.value if parsed else None
    return value if is_mapping(value) else {}


@dataclass(frozen=True, slots=True)
class ListItem:
    """One element of a list that was flattened into `prefix.N.field` attributes; `fields` is what follows N."""

    index: int
    fields: Attributes


def flattened(attributes: Attributes, *prefixes: str) -> Mapping[str, tuple[ListItem, ...]]:
    """Return, for each of `prefixes` found, its elements in numeric order; indexes may have holes or start above 0.

    >>> [i.index for i in flattened({"a.10.x": 1, "a.9.x": 2, "b.x": 3}, "a.")["a."]]
    [9, 10]
    """
    lists: dict[str, dict[int, dict[str, AttributeValue]]] = {}
    for key, value in attributes.items():
        if not key.startswith(prefixes):
            continue
        for prefix in prefixes:
            if key.startswith(prefix):
                index, _, field = key[len(prefix) :].partition(".")
                if index.isdecimal() and field:
                    lists.setdefault(prefix, {}).setdefault(int(index), {})[field] = value
                break
    return {
        prefix: tuple(ListItem(i, fields) for i, fields in sorted(items.items())) for prefix, items in lists.items()
    }
