"""No pattern takes more than linear time, whatever a sender sends: one hostile answer would stop the process.

A search holds the interpreter's lock, so a pattern of quadratic time over 30 kB of line breaks is minutes in which
nothing is received, and again after every restart.
"""

import ast
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import nlargest
from types import FrameType

import pytest
from pattern_texts import RUNS, Shape, shapes
from patterns_in_use import EXCEPTIONS, METHODS, ONCE, Use, trees, uses

from monitor.assembly import document_labels, prompt_documents
from monitor.extract import excerpts
from monitor.judging.coded import refusal
from monitor.judging.endpoint import capabilities
from monitor.text import claims

GLANCE, LOOK, FULL = 8_000, 64_000, 1_000_000
"""Characters. What is quadratic is a hundred times too slow at a glance; only what seems slow is looked at longer."""
MOST_SCANS, MOST_SCANS_OF_OWN = 20, 80
"""How many plain scans of a text one use of a pattern may take; a plain scan of 1,000,000 characters takes 6 ms.

More where the pattern's own beginnings are repeated, or where its texts have a bound.
"""
BOUNDS = {
    "monitor.assembly.document_labels:": document_labels.NEARBY,
    "monitor.assembly.prompt_documents:_NOTHING": excerpts.SHORTEST,
    "monitor.assembly.prompt_documents:_POINTING": prompt_documents.LONGEST_LINE,
    "monitor.assembly.prompt_documents:_SUBJECT": prompt_documents.LONGEST_LINE,
    "monitor.judging.coded.refusal:": refusal.LOOKED_AT,
    "monitor.judging.endpoint.capabilities:": capabilities.MESSAGE_HEAD,
    "monitor.text.claims:": claims.LONGEST,
}
"""Patterns, by how their names begin, that see no longer texts: their callers see to it."""
FULLY_TRIED = 2
"""How many of its texts, the slowest, each pattern is tried on in full size."""
BROKEN_OFF = 5
"""Times what is allowed after which a use is broken off: it may be hours."""
TRIES = 3
"""How often the time is taken, of which the shortest counts: what runs beside us disturbs it."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What plain work costs here, in CPU seconds: a limit in these terms means the same on every machine."""

    per_character: float
    """Of a search that fails at each."""
    per_match: float
    """Of a pattern that holds at each character."""

    def allowed(self, use: Use, shape: Shape, size: int, matches: int) -> float:
        """Return what a use may take on so many characters, of which so many began a match."""
        is_plain = shape.unit in RUNS and bound(use) == FULL
        scans = MOST_SCANS if is_plain else MOST_SCANS_OF_OWN
        return scans * self.per_character * size + 2 * self.per_match * matches


@pytest.fixture(scope="module")
def machine() -> Machine:
    """What this one takes, at its quickest."""
    text = "a" * LOOK
    scan, matching = re.compile(r"\d"), re.compile("a")
    return Machine(
        per_character=min(cpu_seconds(lambda: scan.search(text)) for _ in range(20)) / LOOK,
        per_match=min(cpu_seconds(lambda: sum(1 for _ in matching.finditer(text))) for _ in range(20)) / LOOK,
    )


def bound(use: Use) -> int:
    """Return how long a text may be that a pattern sees, in characters."""
    return next((most for name, most in BOUNDS.items() if use.where.startswith(name)), FULL)


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of a call."""
    began = time.thread_time()
    work()
    return time.thread_time() - began


def use_once(use: Use, text: str | bytes, *, longest: float) -> tuple[float, int]:
    """Return the CPU time of one use, and its matches; none, and `longest`, when it is broken off."""
    matches = 0
    began = time.thread_time()
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, longest)
        if use.method in ONCE:
            getattr(use.pattern, use.method)(text)
        else:
            for _ in use.pattern.finditer(text):  # type: ignore[arg-type]  # text is of its kind
                matches += 1
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except TimeoutError:  # possibly when the use had just ended
        return longest, 0
    return time.thread_time() - began, matches


def share(use: Use, shape: Shape, size: int, machine: Machine, *, tries: int = TRIES) -> float:
    """Return which share of what is allowed a use takes; more than 1 is too much."""
    text = shape.text(min(size, bound(use)), use.pattern)
    least = float("inf")
    for _ in range(tries):
        longest = BROKEN_OFF * machine.allowed(use, shape, len(text), 0)
        took, matches = use_once(use, text, longest=longest)
        least = min(least, took / machine.allowed(use, shape, len(text), matches))
        if least <= 1 or took >= longest:
            break
    return least


def complaints(use: Use, machine: Machine) -> Iterator[str]:
    """Yield what is wrong with the time that a use takes: the worst text of each size that is too slow."""
    glanced: list[tuple[float, Shape]] = []
    for shape in shapes(use.pattern):
        glanced.append((share(use, shape, GLANCE, machine, tries=1), shape))
        if glanced[-1][0] >= BROKEN_OFF:
            break
    # What seems slow at a glance may be a fixed cost, or a moment in which the machine did something else.
    suspects = nlargest(FULLY_TRIED, glanced, key=lambda each: each[0])
    for _, shape in suspects:
        for size in (LOOK, FULL):
            if (found := share(use, shape, size, machine)) > 1:
                yield f"{use.where}.{use.method}, {size} characters of {shape}: {found:.1f} times what is allowed"
                return


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
def test_hostile_text(machine: Machine) -> None:
    """A megabyte of anything, behind whatever a pattern can begin with, costs few times what looking at it costs."""
    assert [] == [text for use in uses() for text in complaints(use, machine)]


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"\s*\[?\s*<", "match"),
        (r"\w+=", "finditer"),
        (r"<(?=\s*/?\s*document\b)", "finditer"),
        (r"(?s)<question>\s*(.+?)\s*</question>", "finditer"),
        (r"(?m)^Source:[ \t]*(.{1,400})\n+Content:", "finditer"),
    ],
)
@pytest.mark.usefixtures("broken_off")
def test_quadratic_pattern(pattern: str, method: str, machine: Machine) -> None:
    """What is looked for is seen, also behind a beginning."""
    assert list(complaints(Use("here", re.compile(pattern), method), machine))


def test_patterns_stand_in_their_modules() -> None:
    """No function makes a pattern as it goes, where this test would not find it."""
    assert [] == [
        f"{module}:{node.lineno}"
        for module, tree in trees()
        if module not in EXCEPTIONS
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in METHODS
    ]
