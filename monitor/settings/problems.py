"""What is wrong with a tree of settings, in words for whoever wrote the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from pydantic import BaseModel, ValidationError

from monitor.settings.nearest import suggestion

WHOLE = "settings"
"""The place of a problem that lies in no key alone."""

_EXPECTED = {
    "tuple_type": "expected a list",
    "list_type": "expected a list",
    "set_type": "expected a list",
    "frozen_set_type": "expected a list",
    "dict_type": "expected a mapping of keys to values",
    "mapping_type": "expected a mapping of keys to values",
    "model_type": "expected a section: keys and their values",
}
"""Where pydantic speaks of Python's types."""


def problems(model: type[BaseModel], error: ValidationError, *, whole: str = WHOLE) -> tuple[tuple[str, str], ...]:
    """Return the problems of a tree that was to be a `model`, each its key path and what is wrong; never a value.

    `whole` is the place of what lies in no key alone.
    """
    wrong = []
    for problem in error.errors():
        path = problem["loc"]
        message = _EXPECTED.get(problem["type"], problem["msg"].removeprefix("Value error, "))
        if problem["type"] == "extra_forbidden" and (known := _keys(model, path[:-1])):
            message = f"unknown key{suggestion(str(path[-1]), known)}"
        wrong.append((".".join(map(str, path)) or whole, message))
    return tuple(wrong)


def _keys(model: type[BaseModel], path: Sequence[int | str]) -> tuple[str, ...]:
    """Return the keys that the section at `path` may have, in their order; list positions count for nothing."""
    sections = [model]
    for step in path:
        fields = [section.model_fields[str(step)] for section in sections if str(step) in section.model_fields]
        if fields:
            sections = [section for field in fields for section in _sections(field.annotation)]
    return tuple(dict.fromkeys(name for section in sections for name in section.model_fields))


def _sections(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for argument in get_args(annotation) for section in _sections(argument)]
