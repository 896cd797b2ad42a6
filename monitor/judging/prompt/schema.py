"""The part of JSON Schema that OpenAI's strict mode knows, as a check of our own: what fails it is no reply.

Subset: type, properties, required, additionalProperties, items, enum, minimum, maximum, $ref to $defs, description,
title (https://platform.openai.com/docs/guides/structured-outputs#supported-schemas). Messages name paths and types and
never quote a string from the reply.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from monitor.errors import ConfigError, UnreadableReply

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_KEYWORDS = frozenset(
    "type properties required additionalProperties items enum minimum maximum $ref $defs description title".split()
)
_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
_LARGEST_SHOWN = 10**6
# Nothing else can be meant by it where the schema has a number; words, ranges and "4/5" are still no numbers.
_NUMERAL = re.compile(r"-?\d{1,6}(?:\.\d{1,6})?", re.ASCII)
_REF = "#/$defs/"


class Schema:
    """A checked schema; `tree` is OpenAI's form: `name`, `strict` and `schema`."""

    def __init__(self, tree: Mapping[str, Json], *, where: str) -> None:
        """Check the schema itself.

        Raises:
            ConfigError: not the form above, not strict, or a keyword outside the subset.
        """
        root = tree.get("schema")
        if tree.get("strict") is not True or not isinstance(tree.get("name"), str) or not isinstance(root, dict):
            raise ConfigError('expected {"name": ..., "strict": true, "schema": {...}}', where=where)
        defs = root.get("$defs", {})
        if root.get("type") != "object" or not isinstance(defs, dict):
            raise ConfigError("expected an object, with $defs as a mapping if any", where=f"{where}: schema")
        self.tree = tree
        self._root = root
        self._defs = defs
        for path, node in (("schema", root), *((f"schema.$defs.{name}", node) for name, node in defs.items())):
            self._check(node, f"{where}: {path}")

    def has(self, path: Sequence[str]) -> bool:
        """Return whether a reply has the field at the end of `path`, such as `("relevance", "score")`."""
        return self._node(path) is not None

    def allowed(self, path: Sequence[str]) -> tuple[Json, ...]:
        """Return the values that the field at the end of `path` may have, as far as they are listed; () if not."""
        node = self._node(path)
        listed = node.get("enum") if isinstance(node, dict) else None
        return tuple(listed) if isinstance(listed, list) else ()

    def _node(self, path: Sequence[str]) -> Json:
        node: Json = self._root
        for name in path:
            properties = node.get("properties") if isinstance(node, dict) else None
            node = self._resolved(properties.get(name)) if isinstance(properties, dict) else None
        return node

    def _resolved(self, node: Json) -> Json:
        """Return what a reference leads to; None when it leads in a circle."""
        seen: set[str] = set()
        while isinstance(node, dict) and isinstance(ref := node.get("$ref"), str):
            if ref in seen:
                return None
            seen.add(ref)
            node = self._defs[ref.removeprefix(_REF)]
        return node

    def read(self, value: Json) -> dict[str, Json]:
        """Return `value`, with numbers for numerals (`"4"`) where only a number may be, and integers for whole ones.

        Raises:
            UnreadableReply: it is not what the schema asks for; the message says where.
        """
        checked = self._read(self._root, value, "")
        if not isinstance(checked, dict):
            raise _mismatch("", "an object", value)
        return checked

    def _check(self, node: Json, where: str) -> None:
        if not isinstance(node, dict):
            raise ConfigError("expected a mapping", where=where)
        if unknown := sorted(node.keys() - _KEYWORDS):
            raise ConfigError(
                f"keyword {unknown[0]!r} is not supported; known: {', '.join(sorted(_KEYWORDS))}", where=where
            )
        if "$ref" in node:
            ref = node["$ref"]
            if not isinstance(ref, str) or ref.removeprefix(_REF) not in self._defs:
                raise ConfigError(
                    f"expected {_REF}<name> of {', '.join(sorted(self._defs)) or 'none'}", where=f"{where}: $ref"
                )
            if self._resolved(node) is None:
                raise ConfigError(f"{ref} leads back to itself", where=f"{where}: $ref")
            return
        kind = node.get("type")
        if not isinstance(kind, str) or kind not in _TYPES:
            raise ConfigError(f"expected one of {', '.join(_TYPES)}", where=f"{where}: type")
        _check_bounds(node, where)
        if kind == "object":
            self._check_object(node, where)
        if kind == "array":
            self._check(node.get("items"), f"{where}.items")

    def _check_object(self, node: Mapping[str, Json], where: str) -> None:
        properties = node.get("properties")
        if not isinstance(properties, dict):
            raise ConfigError("expected a mapping", where=f"{where}: properties")
        required = node.get("required")
        # Strict mode refuses anything else, but only when the first turn is judged.
        if not isinstance(required, list) or sorted(map(str, required)) != sorted(properties):
            raise ConfigError(
                f"strict mode wants every property named: {', '.join(properties)}", where=f"{where}: required"
            )
        if node.get("additionalProperties") is not False:
            raise ConfigError("strict mode wants false", where=f"{where}: additionalProperties")
        for name, below in properties.items():
            self._check(below, f"{where}.{name}")

    def _read(self, node: Json, value: Json, path: str) -> Json:
        if not isinstance(node, dict):
            return value
        if "$ref" in node:
            return self._read(self._resolved(node), value, path)
        kind = node.get("type")
        if kind in {"integer", "number"} and isinstance(value, str) and _NUMERAL.fullmatch(value):
            value = float(value)
        if kind == "integer" and isinstance(value, float) and value.is_integer():
            value = int(value)
        if not _is_a(kind, value):
            raise _mismatch(path, _article(str(kind)), value)
        _check_limits(node, value, path)
        if isinstance(value, dict):
            return self._read_object(node, value, path)
        if isinstance(value, list):
            return [self._read(node["items"], item, f"{path}[{place}]") for place, item in enumerate(value)]
        return value

    def _read_object(self, node: Mapping[str, Json], value: dict[str, Json], path: str) -> Json:
        properties = node["properties"]
        if not isinstance(properties, dict):
            return value
        if missing := [name for name in properties if name not in value]:
            raise UnreadableReply(f"{_at(path)}{', '.join(missing)} missing", reason="invalid")
        if value.keys() - properties.keys():
            raise UnreadableReply(f"{_at(path)}holds fields beside {', '.join(properties)}", reason="invalid")
        prefix = f"{path}." if path else ""
        return {name: self._read(below, value[name], f"{prefix}{name}") for name, below in properties.items()}


def _check_bounds(node: Mapping[str, Json], where: str) -> None:
    if "enum" in node and not (isinstance(node["enum"], list) and node["enum"]):
        raise ConfigError("expected a list of values", where=f"{where}: enum")
    for name in ("minimum", "maximum"):
        bound = node.get(name, 0)
        if isinstance(bound, bool) or not isinstance(bound, int | float):
            raise ConfigError("expected a number", where=f"{where}: {name}")


def _check_limits(node: Mapping[str, Json], value: Json, path: str) -> None:
    allowed = node.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        raise _mismatch(path, f"one of {', '.join(map(str, allowed))}", value)
    low, high = node.get("minimum"), node.get("maximum")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if (isinstance(low, int | float) and value < low) or (isinstance(high, int | float) and value > high):
        raise _mismatch(path, f"a number from {low} to {high}", value)


def _is_a(kind: Json, value: Json) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, int):
        return kind in {"integer", "number"}
    if isinstance(value, float):
        return kind == "number" and math.isfinite(value)
    return kind == _name(value)


def _name(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return {int: "number", float: "number", str: "string", list: "array", dict: "object"}[type(value)]


def _mismatch(path: str, expected: str, value: Json) -> UnreadableReply:
    actual = _article(_name(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        actual = f"{value:g}" if abs(value) < _LARGEST_SHOWN else "a larger number"
    return UnreadableReply(f"{_at(path)}expected {expected}, found {actual}", reason="invalid")


def _article(noun: str) -> str:
    return noun if noun == "null" else f"{'an' if noun[0] in 'aio' else 'a'} {noun}"


def _at(path: str) -> str:
    return f"{path}: " if path else ""
