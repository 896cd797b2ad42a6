"""Where a value breaks a JSON schema, for the keywords that our own schemas and Grafana's use."""

from __future__ import annotations

import re
from typing import Any

_TYPES = {
    "object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
    "null": type(None),
}  # fmt: skip
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def faults(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str = "") -> list[str]:
    """Return a line for each place where the value breaks the schema; `root` is the whole schema."""
    if "$ref" in schema:
        definitions = root.get("$defs") or root["definitions"]
        return faults(value, definitions[schema["$ref"].rsplit("/", 1)[1]], root, at)
    # What Grafana's own types call `any` is written as an open object.
    if schema.get("additionalProperties") == {} and "properties" not in schema:
        return []
    options = schema.get("oneOf") or schema.get("anyOf")
    if options:
        by_option = [faults(value, option, root, at) for option in options]
        return [] if [] in by_option else min(by_option, key=len)
    inherited = [f for option in schema.get("allOf", ()) for f in faults(value, option, root, at)]
    kind = schema.get("type")
    if kind and (not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return [*inherited, f"{at}: {value!r} is no {kind}"]
    return [*inherited, *_wrong_values(value, schema, at), *_faults_below(value, schema, root, at)]


def _wrong_values(value: Any, schema: dict[str, Any], at: str) -> list[str]:
    allowed = value in schema.get("enum", [value]) and value == schema.get("const", value)
    if isinstance(value, int | float):
        allowed = allowed and schema.get("minimum", value) <= value <= schema.get("maximum", value)
    if isinstance(value, str):
        is_written = schema.get("format") != "date-time" or _DATE_TIME.fullmatch(value) is not None
        length_fits = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
        allowed = allowed and is_written and length_fits and bool(re.search(schema.get("pattern", ""), value))
    if isinstance(value, list):
        allowed = allowed and schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
    return [] if allowed else [f"{at}: {value!r} is not allowed"]


def _faults_below(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str) -> list[str]:
    """Return the faults of an object's fields or a list's items."""
    if isinstance(value, list):
        return [f for i, item in enumerate(value) for f in faults(item, schema.get("items", {}), root, f"{at}[{i}]")]
    if not isinstance(value, dict):
        return []
    known = schema.get("properties", {})
    wrong = [f"{at}: {name} is missing" for name in schema.get("required", ()) if name not in value]
    if schema.get("additionalProperties") is False:
        wrong += [f"{at}.{name}: unknown" for name in value if name not in known]
    others = schema.get("additionalProperties")
    rules = {n: known.get(n, others) for n in value}
    return wrong + [
        f for n, rule in rules.items() if isinstance(rule, dict) for f in faults(value[n], rule, root, f"{at}.{n}")
    ]
