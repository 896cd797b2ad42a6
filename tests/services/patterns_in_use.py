"""Every pattern that the shipped modules hold, and how each of them is used."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import ModuleType

import collectors
import monitor
from monitor.assembly.rules import reading_rules
from monitor.runtime.build import load_dialects
from monitor.runtime.isolation import PluginFailures
from monitor.settings.tree import Settings

AnyPattern = re.Pattern[str] | re.Pattern[bytes]

ONCE = frozenset({"match", "fullmatch", "search"})
METHODS = ONCE | {"finditer", "findall", "sub", "subn", "split"}
EXCEPTIONS = {"monitor.settings.file": "what stands in `${...}` in the settings is the operator's own"}
"""Modules whose patterns see nothing that a sender wrote."""


@dataclass(frozen=True, slots=True)
class Use:
    """A pattern and how it is used somewhere: once in a text, else by `finditer`, which does what all others do."""

    where: str
    pattern: AnyPattern
    method: str


def uses() -> tuple[Use, ...]:
    """Return how each pattern is used, once for equal ones."""
    rules = reading_rules(load_dialects(Settings(), PluginFailures()), hash_user=str)
    methods = methods_by_name()
    found: dict[tuple[str | bytes, int, str], Use] = {}
    for place, names in (*((module.__name__, vars(module)) for module in modules()), ("rules", {"rules": rules})):
        for top, value in list(names.items()):
            for name, pattern in patterns(value, top):
                key = f"{place}:{name}" if name.startswith("_") else name
                for method in methods.get(key, {"finditer"}):
                    found.setdefault((pattern.pattern, pattern.flags, method), Use(f"{place}:{name}", pattern, method))
    return tuple(use for use in found.values() if use.where.partition(":")[0] not in EXCEPTIONS)


def modules() -> Iterator[ModuleType]:
    """Import what is shipped, module by module."""
    for package in (monitor, collectors):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if "migrations" not in module.name:
                yield importlib.import_module(module.name)


def trees() -> Iterator[tuple[str, ast.AST]]:
    """Yield the source of each module."""
    for module in modules():
        yield module.__name__, ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))


def patterns(value: object, name: str, depth: int = 6) -> Iterator[tuple[str, AnyPattern]]:
    """Yield the patterns in a value and in what it holds, with the name that they are used by."""
    if isinstance(value, re.Pattern):
        yield name, value
    elif depth and isinstance(value, tuple | list | set | frozenset):
        for item in value:
            yield from patterns(item, name, depth - 1)
    elif depth and isinstance(value, Mapping):
        for item in (*value, *value.values()):
            yield from patterns(item, name, depth - 1)
    elif depth and is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from patterns(getattr(value, field.name, None), field.name, depth - 1)


def methods_by_name() -> Mapping[str, frozenset[str]]:
    """Return by which methods each name is used: private names as `module:_NAME`, others wherever they are."""
    methods: dict[str, set[str]] = {}
    for module, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                owner = node.value
                name = (
                    owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
                )
                method = node.attr if node.attr in ONCE else "finditer"
                methods.setdefault(f"{module}:{name}" if name.startswith("_") else name, set()).add(method)
    return {name: frozenset(used) for name, used in methods.items()}
