"""What a plug-in must be, looked at once when it is loaded: each check raises a `ConfigError` with the first breach.

docs/extending.md says the same to those who write one. Messages name what is missing or wrong and what is expected;
whoever loads the plug-in puts in front of them where it was asked for and who brings it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from types import ModuleType, NoneType, UnionType
from typing import Literal, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

from monitor.errors import FAULTS, ConfigError, place
from monitor.model.judgements import Rubric
from monitor.model.spans import Span
from monitor.settings.section import Section

Fits: TypeAlias = Callable[[object], bool]

_PLAIN = frozenset((str, bytes, bool, NoneType))
"""Types whose values are told by `isinstance`; a truth value, for one, is also an int."""
_BUILDS: Mapping[str, Sequence[str]] = {"collectors": ("config", "sink", "clock"), "channels": ("config", "name")}
"""The arguments of `build`, by group."""
_PLAIN_SPAN = Span(
    trace_id="0af7651916cd43dd8448eb211c80319c",
    span_id="b7ad6b7169203331",
    parent_id=None,
    name="GET",
    kind=0,
    start_ns=0,
    end_ns=0,
    attributes={},
)
"""Every dialect is asked about every span, so none may stumble over one that says nothing."""


def check_module(group: str, module: object, kind: str) -> None:
    """Accept what an entry point of `group` (or a file of ours) leads to, or raise what is wrong with it.

    Raises:
        ConfigError: it is no module, or lacks `DIALECT`, or `Config` and `build`, as the group asks for.
    """
    if not isinstance(module, ModuleType):
        raise ConfigError(f"expected a module, found {type(module).__name__}; name it without `:object`")
    if group == "dialects":
        if not hasattr(module, "DIALECT"):
            raise ConfigError("missing; expected an object with name, priority, claims, role and read", where="DIALECT")
        check_dialect(module.DIALECT, kind)
        return
    config = getattr(module, "Config", None)
    if not (isinstance(config, type) and issubclass(config, Section)):
        raise ConfigError(
            f"{_found(config)}; expected a class that extends monitor.settings.section.Section", where="Config"
        )
    _check_call(module, "build", _BUILDS[group])


def check_dialect(dialect: object, kind: str) -> None:
    """Accept a `ports.Dialect`, or raise what is wrong with it; it is asked about one span without attributes."""
    name, priority = getattr(dialect, "name", None), getattr(dialect, "priority", None)
    if name != kind:
        raise ConfigError(f"{_found(name)}; expected {kind!r}, as the entry point is called", where="DIALECT.name")
    if not isinstance(priority, int) or isinstance(priority, bool) or priority < 0:
        raise ConfigError(f"{_found(priority)}; expected a whole number from 0", where="DIALECT.priority")
    claims, role, read = (
        _check_call(dialect, method, ("span",), owner="DIALECT") for method in ("claims", "role", "read")
    )
    if _asked("claims", claims):
        _asked("role", role)
        _asked("read", read)


def check_collector(collector: object) -> None:
    """Accept a `ports.Collector`, or raise what is wrong with it."""
    _check_call(collector, "__aenter__", (), is_async=True, owner="what build returned")
    _check_call(collector, "__aexit__", ("kind", "error", "traceback"), is_async=True, owner="what build returned")
    _check_call(collector, "health", (), owner="what build returned")
    if hasattr(collector, "stats"):
        _check_call(collector, "stats", (), owner="what build returned")


def check_channel(channel: object) -> None:
    """Accept a `ports.Channel`, or raise what is wrong with it."""
    _check_call(channel, "send", ("alert",), is_async=True, owner="what build returned")
    _check_call(channel, "check", (), is_async=True, owner="what build returned")


def check_scorer(scorer: object, name: str) -> None:
    """Accept a `ports.TurnScorer`, or raise what is wrong with it."""
    rubric = getattr(scorer, "rubric", None)
    if not isinstance(rubric, Rubric):
        raise ConfigError(f"{_found(rubric)}; expected a monitor.model.judgements.Rubric", where="rubric")
    if problem := wrong_field(rubric):
        raise ConfigError(f"rubric.{problem}")
    if rubric.metric != name:
        raise ConfigError(
            f"{_found(rubric.metric)}; expected {name!r}, as the entry point is called", where="rubric.metric"
        )
    if not rubric.rubric_id:
        raise ConfigError("empty; expected a text that changes whenever a score could", where="rubric.rubric_id")
    _check_call(scorer, "score", ("turn",))


def wrong_field(thing: object) -> str | None:
    """Return the first field of a dataclass that holds another type than it declares; None when there is none.

    Dataclasses within it are looked into, apart from spans, which are never a plug-in's own.

    >>> wrong_field(Rubric(metric="tone", rubric_id="1", needs=["response"], scale_min=0, scale_max=1))
    'needs: expected frozenset[str], found list'
    """
    for name, expected, fits in _fields_of(cast("Hashable", type(thing))):
        value = getattr(thing, name)
        if not fits(value):
            return f"{name}: expected {_spelled(expected)}, found {type(value).__name__}"
    return None


@cache
def _fields_of(kind: Hashable) -> Sequence[tuple[str, object, Fits]]:
    return [(name, expected, _fits(expected)) for name, expected in get_type_hints(kind).items()]


def _fits(expected: object) -> Fits:  # noqa: PLR0911 -- one return per shape
    """Return what tells whether a value is of a type; made once per field, for it is asked about every step."""
    origin, arguments = get_origin(expected), get_args(expected)
    if origin in {Union, UnionType}:
        if _PLAIN.issuperset(arguments):
            return lambda value: isinstance(value, arguments)
        choices = [_fits(one) for one in arguments]
        return lambda value: any(fits(value) for fits in choices)
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in arguments
    if origin in {tuple, frozenset}:
        fits_item = _fits(arguments[0])
        return lambda value: (
            isinstance(value, tuple | frozenset) and type(value) is origin and all(map(fits_item, value))
        )
    if origin is not None:
        fits_key, fits_value = map(_fits, arguments)
        return lambda value: (
            isinstance(value, Mapping) and all(map(fits_key, value)) and all(map(fits_value, value.values()))
        )
    if expected in {int, float}:
        numbers = int if expected is int else int | float
        return lambda value: isinstance(value, numbers) and not isinstance(value, bool)
    kind = cast("type", expected)
    if kind is Span or not is_dataclass(kind):
        return lambda value: isinstance(value, kind)
    return lambda value: isinstance(value, kind) and wrong_field(value) is None


def _spelled(expected: object) -> str:
    if get_origin(expected) in {Union, UnionType}:
        return " or ".join(_spelled(one) for one in get_args(expected))
    if expected is NoneType:
        return "None"
    return expected.__name__ if isinstance(expected, type) and not get_args(expected) else str(expected)


def _found(value: object) -> str:
    if value is None:
        return "missing"
    return f"found {value!r}" if isinstance(value, str | int | float) else f"found {type(value).__name__}"


def _check_call(
    thing: object, name: str, arguments: Sequence[str], *, is_async: bool = False, owner: str = ""
) -> Callable[..., object]:
    """Return the method or function, if it can be called with these positional arguments, with await or without."""
    spelled = f"`{'async ' if is_async else ''}def {name}({', '.join(arguments)})`"
    label = f"{owner}.{name}" if owner == "DIALECT" else f"{owner}: {name}" if owner else name
    call: object = getattr(thing, name, None)
    if not callable(call):
        raise ConfigError(f"{_found(call)}; expected {spelled}", where=label)
    asynchronous = inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)
    if asynchronous != is_async:
        raise ConfigError(f"found `{'async def' if asynchronous else 'def'}`; expected {spelled}", where=label)
    try:
        inspect.signature(call).bind(*arguments)
    except ValueError:
        pass  # code in C that does not say what it takes
    except TypeError as error:
        raise ConfigError(f"{error}; expected {spelled}", where=label) from None
    return call


def _asked(name: str, call: Callable[..., object]) -> object:
    """Return what a method of a dialect answers about a span without attributes."""
    try:
        answer = call(_PLAIN_SPAN)
    except FAULTS as error:  # anybody's code
        raise ConfigError(
            f"raised {place(error)} for a span without attributes; it must not raise", where=f"DIALECT.{name}"
        ) from None
    if name == "claims" and not isinstance(answer, bool):
        raise ConfigError(f"returned {type(answer).__name__}; expected True or False", where="DIALECT.claims")
    return answer
