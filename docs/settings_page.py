"""Prints docs/settings.md: every key of the settings, and of the plug-ins that are shipped, from their classes.

Usage: python docs/settings_page.py [--write], which writes the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from monitor import plugins
from monitor.settings.section import HeaderSecret
from monitor.settings.tree import PluginSection, Settings

PAGE = Path(__file__).with_name("settings.md")
_UNITS = (("d", timedelta(days=1)), ("h", timedelta(hours=1)), ("m", timedelta(minutes=1)), ("s", timedelta(seconds=1)))
_PORTS = 65_535
"""Numbers beyond it are easier to read with their thousands apart."""
_WORDS: Mapping[object, str] = {
    str: "text",
    bool: "true or false",
    int: "whole number",
    float: "number",
    timedelta: "duration",
    Path: "file",
    SecretStr: "secret",
    HeaderSecret: "secret",
}
_INTRODUCTION = """# Settings

Every key, written by `python docs/settings_page.py --write` from the classes that read them; a test holds this page to
them. A file is YAML: `rag-monitor.yaml` in the working directory, or `-c FILE`. `${NAME}` and `${NAME:-default}` come
from the environment, and `RAG_MONITOR__SAMPLE__RATE=0.2` overrides `sample.rate`, and so on for every key. A duration
is a number with a unit: `250ms`, `15s`, `5m`, `2h`, `7d`. `[]` in a key stands for each entry of a list, `<name>` for a
name of yours. Unknown keys are refused.
"""


def page() -> str:
    """Return the page."""
    parts = [_INTRODUCTION]
    single: list[str] = []
    for name, field in Settings.model_fields.items():
        if section := _model(field.annotation):
            parts.append(f"## `{name}`\n\n{_prose(section.__doc__)}\n\n{_table(_rows(section, name))}")
        else:
            single.append(_row(name, field))
    parts.append(f"## Lists at the top\n\n{_table(single)}")
    for folder in ("collectors", "channels"):
        for kind in plugins.kinds(folder):
            config = plugins.load(folder, kind, "docs").Config
            rows = _rows(config, f"{folder}[]")
            entry = f"Beside `kind: {kind}` and, if there are several of a kind, a `name` of its own."
            parts.append(f"## `{folder}`: `{kind}`\n\n{entry}\n\n{_table(rows)}")
    return "\n".join(parts)


def undocumented() -> list[str]:
    """Return the keys whose effect their class does not say."""
    return [line.split("`")[1] for line in page().splitlines() if line.startswith("| `") and line.endswith("|  |")]


def _table(rows: Sequence[str] | Iterator[str]) -> str:
    return "\n".join(("| key | value | default | effect |", "|---|---|---|---|", *rows, ""))


def _rows(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        key = f"{prefix}.{name}"
        yield _row(key, field)
        if inner := _model(field.annotation):
            yield from _rows(inner, f"{key}{_entry(field.annotation)}")


def _row(key: str, field: FieldInfo) -> str:
    inner = _model(field.annotation)
    effect = _prose(field.description or (inner.__doc__ if inner else "")).replace("|", "\\|")
    return f"| `{key}` | {_value(key, field)} | {_default(field)} | {effect} |"


def _prose(text: str | None) -> str:
    return " ".join((text or "").split())


def _alternatives(annotation: object) -> tuple[object, ...]:
    return get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)


def _model(annotation: object) -> type[BaseModel] | None:
    """Return the section that a key holds, alone, in a list or by name; None for plain values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for argument in get_args(annotation) if (model := _model(argument))), None)


def _entry(annotation: object) -> str:
    origins = {get_origin(alternative) for alternative in _alternatives(annotation)}
    if origins & {tuple, list}:
        return "[]"
    return ".<name>" if any(isinstance(origin, type) and issubclass(origin, Mapping) for origin in origins) else ""


def _value(key: str, field: FieldInfo) -> str:
    words = " or ".join(_word(kind) for kind in _alternatives(field.annotation) if kind is not NoneType)
    if key.endswith("_usd"):
        words = "US dollars"
    bounds = " and ".join(_bound(bound) for bound in field.metadata if _bound(bound))
    return f"{words}, {bounds}" if bounds else words


def _word(kind: object) -> str:
    if kind in _WORDS:
        return _WORDS[kind]
    if get_origin(kind) is Annotated:
        return _word(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(f"`{choice}`" for choice in get_args(kind))
    if get_origin(kind) in {tuple, list, frozenset}:
        return f"list of: {_word(get_args(kind)[0])}"
    if get_args(kind) and kind != PluginSection and not isinstance(kind, type):
        return f"names with: {_word(get_args(kind)[-1])}"
    return "section"


def _bound(bound: object) -> str:
    shown = {
        annotated_types.Ge: ("at least", "ge"),
        annotated_types.Gt: ("more than", "gt"),
        annotated_types.Le: ("at most", "le"),
        annotated_types.Lt: ("less than", "lt"),
    }.get(type(bound))
    return f"{shown[0]} {_plain(getattr(bound, shown[1]))}" if shown else ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    default = field.get_default(call_default_factory=True)
    if default is None:
        return "null"
    if isinstance(default, BaseModel) or default is PydanticUndefined:
        return ""
    return "none" if default in ((), {}) else f"`{_plain(default)}`"


def _plain(value: object) -> str:
    if isinstance(value, timedelta):
        unit = next(((name, of) for name, of in _UNITS if not value % of), ("ms", timedelta(milliseconds=1)))
        return f"{value // unit[1]}{unit[0]}" if value else "0s"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}: {_plain(inner)}' for name, inner in value.items())}}}"
    if isinstance(value, BaseModel):
        return _plain(value.model_dump(exclude_defaults=True))
    return f"{value:,}".replace(",", "_") if isinstance(value, int) and value > _PORTS else str(value)


def main() -> None:
    """Print the page, or write it."""
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
