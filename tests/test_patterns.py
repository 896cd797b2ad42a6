"""No pattern takes more than linear time, whatever a sender sends: one hostile answer would stop the process.

A search holds the interpreter's lock, so a pattern of quadratic time over 30 kB of line breaks is minutes in which
nothing is received, and again after every restart.
"""

import ast
import importlib
import pkgutil
import re
import signal
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from re import _parser as parser  # type: ignore[attr-defined]  # what a pattern is made of is said nowhere else
from types import FrameType, ModuleType

import pytest

import collectors
import monitor
from monitor.assembly.rules import reading_rules
from monitor.runtime.build import load_dialects
from monitor.runtime.isolation import PluginFailures
from monitor.settings.tree import Settings

SIZES = (62_500, 250_000, 1_000_000)
"""Each four times the one before: linear time is four times as long, quadratic sixteen times."""
HARMLESS_SECONDS = (0.0002, 0.003)
"""What the first two may take where even quadratic time makes 50 ms of the largest."""
HARMLESS_IN_ALL = 0.1
"""What the largest may take whatever the ratio is: below it, memory that no longer fits the cache makes the ratio."""
LARGEST_RATIO = 6.0
LONGEST_SECONDS = 1.0
TRIES = 3
"""How often the time is taken until the ratio is well: what runs beside us disturbs it."""
ANCHORED = frozenset({"match", "fullmatch"})
METHODS = ANCHORED | {"search", "finditer", "findall", "sub", "subn", "split"}
EXCEPTIONS = {"monitor.settings.file": "what stands in `${...}` in the settings is the operator's own"}
"""Modules whose patterns see nothing that a sender wrote."""
ENOUGH = 64
"""Up to so many repetitions are no more than a factor."""

RUNS = (" ", "\n", "[", "{", "(", "<", '"', "'", "\\", '\\"', "9", "a", "A ", "\u5b57", "\n ", "[{'", "1. ", "a.")
"""What hostile texts repeat, beside what the patterns themselves suggest."""


@dataclass(frozen=True, slots=True)
class Use:
    """A pattern and how it is used somewhere: at one place of a text, else by `finditer`, which does what all do."""

    where: str
    pattern: re.Pattern[str] | re.Pattern[bytes]
    method: str


def modules() -> Iterator[ModuleType]:
    """Import what is shipped, module by module."""
    for package in (monitor, collectors):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if "migrations" not in module.name:
                yield importlib.import_module(module.name)


def patterns(value: object, name: str, depth: int = 6) -> Iterator[tuple[str, re.Pattern[str] | re.Pattern[bytes]]]:
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


def trees() -> Iterator[tuple[str, ast.AST]]:
    """Yield the source of each module."""
    for module in modules():
        yield module.__name__, ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))


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
                method = node.attr if node.attr in ANCHORED else "finditer"
                methods.setdefault(f"{module}:{name}" if name.startswith("_") else name, set()).add(method)
    return {name: frozenset(used) for name, used in methods.items()}


def uses() -> tuple[Use, ...]:
    """Return how each pattern is used that repeats anything, once for equal ones."""
    rules = reading_rules(load_dialects(Settings(), PluginFailures()), hash_user=str)
    methods = methods_by_name()
    found: dict[tuple[str | bytes, int, str], Use] = {}
    for place, names in (*((module.__name__, vars(module)) for module in modules()), ("rules", {"rules": rules})):
        for top, value in list(names.items()):
            for name, pattern in patterns(value, top):
                key = f"{place}:{name}" if name.startswith("_") else name
                for method in methods.get(key, {"finditer"}) if repeats(parsed(pattern)) else ():
                    found.setdefault((pattern.pattern, pattern.flags, method), Use(f"{place}:{name}", pattern, method))
    return tuple(use for use in found.values() if use.where.partition(":")[0] not in EXCEPTIONS)


def parsed(pattern: re.Pattern[str] | re.Pattern[bytes]) -> object:
    """Return what a pattern is made of."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    return parser.parse(source, pattern.flags & ~re.DEBUG)


def repeats(tree: object) -> bool:
    """Return whether anything in a parsed pattern may be repeated without end: otherwise its time is linear."""
    if isinstance(tree, parser.SubPattern | list | tuple):
        parts = list(tree)
        endless = len(parts) == 2 and str(parts[0]).endswith("_REPEAT") and parts[1][1] > ENOUGH
        return endless or any(map(repeats, parts))
    return False


def samples(tree: object, most: int = 16) -> list[str]:
    """Return short texts that a parsed pattern matches, or nearly; assertions are taken to hold."""
    texts = [""]
    for operation, argument in tree:  # type: ignore[attr-defined]
        match str(operation):
            case "LITERAL":
                branches = [chr(argument)]
            case "IN":
                branches = members(argument)
            case "BRANCH":
                branches = [text for branch in argument[1] for text in samples(branch, 8)]
            case "SUBPATTERN":
                branches = samples(argument[3], most)
            case "ATOMIC_GROUP":
                branches = samples(argument, most)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                branches = [text * max(argument[0], 1) for text in samples(argument[2], 8)]
            case "NOT_LITERAL" | "ANY":
                branches = ["a"]
            case _:
                branches = [""]
        texts = [text + branch for text in texts for branch in branches[: max(1, most // len(texts))]]
    return texts


def members(choices: object) -> list[str]:
    """Return some characters of a set."""
    categories = {"CATEGORY_SPACE": " ", "CATEGORY_DIGIT": "1", "CATEGORY_WORD": "a", "CATEGORY_NOT_WORD": "-"}
    characters: list[str] = []
    for operation, argument in choices:  # type: ignore[attr-defined]
        match str(operation):
            case "LITERAL":
                characters.append(chr(argument))
            case "RANGE":
                characters.append(chr(argument[0]))
            case "CATEGORY":
                characters.append(categories.get(str(argument), "a"))
            case _:  # all but these
                return ["a", " "]
    return characters[:3]


def hostile(pattern: re.Pattern[str] | re.Pattern[bytes]) -> tuple[str, ...]:
    """Return what is repeated: the runs, and beginnings of what the pattern matches, with and without a space."""
    own = [
        text[:end] + behind
        for text in samples(parsed(pattern))[:8]
        for end in (len(text), len(text) - 1)
        for behind in ("", " ")
        if end > 0
    ]
    return tuple(dict.fromkeys((*RUNS, *own)))


def of_size(unit: str, size: int, pattern: re.Pattern[str] | re.Pattern[bytes]) -> str | bytes:
    """Return the unit repeated, as the pattern's kind of text."""
    text = (unit * (size // len(unit) + 1))[:size]
    return text if isinstance(pattern.pattern, str) else text.encode("utf-8", "replace")[:size]


def seconds(use: Use, text: str | bytes) -> float:
    """Return the CPU time of one use; it is broken off when it is far too long, for quadratic time is hours."""
    pattern: re.Pattern[str] = use.pattern  # type: ignore[assignment]  # text is of its kind
    began = time.thread_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, 2 * LONGEST_SECONDS)
    try:
        if use.method == "finditer":
            deque(pattern.finditer(text), maxlen=0)  # type: ignore[arg-type]
        else:
            getattr(pattern, use.method)(text)
    except TimeoutError:
        return 2 * LONGEST_SECONDS
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.thread_time() - began


def complaint(use: Use, unit: str) -> str | None:
    """Return what is wrong with the time that this use takes, None when nothing is."""
    for _ in range(TRIES):
        took = []
        for size, harmless in zip(SIZES, (*HARMLESS_SECONDS, LONGEST_SECONDS), strict=True):
            took.append(seconds(use, of_size(unit, size, use.pattern)))
            if took[-1] >= LONGEST_SECONDS:
                return f"{use.where}.{use.method}, {size} characters of {unit!r}: over {LONGEST_SECONDS} s"
            if size != SIZES[-1] and took[-1] < harmless:
                return None
        if took[-1] < max(HARMLESS_IN_ALL, LARGEST_RATIO * took[-2]):
            return None
    return f"{use.where}.{use.method}, {unit!r}: {took[-2]:.3f} s become {took[-1]:.3f} s with four times the text"


@pytest.fixture
def broken_off() -> Iterator[None]:
    """Let a search that takes too long end; the engine looks for signals."""

    def give_up(_: int, __: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, give_up)
    yield
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.long
@pytest.mark.usefixtures("broken_off")
def test_hostile_text() -> None:
    """Of a megabyte of anything every pattern makes less than a second, and six times the time of a quarter of it."""
    assert [] == [text for use in uses() for unit in hostile(use.pattern) if (text := complaint(use, unit))]


def test_quadratic_pattern(broken_off: None) -> None:  # noqa: ARG001
    """What is looked for is seen."""
    assert complaint(Use("here", re.compile(r"\s*\[?\s*<"), "match"), "\n")
    assert complaint(Use("here", re.compile(r"\w+="), "finditer"), "a")


def test_patterns_stand_in_their_modules() -> None:
    """No function makes a pattern as it goes, where this test would not find it."""
    assert [] == [
        f"{module}:{node.lineno}"
        for module, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in METHODS
    ]
