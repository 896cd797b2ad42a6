"""Texts that may stall a pattern, made of the pattern: what it can begin with, then what it repeats, then an end."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from re import _compiler as compiler  # type: ignore[attr-defined]  # which characters a class holds is said nowhere else
from re import _parser as parser  # type: ignore[attr-defined]  # nor what a pattern is made of

from patterns_in_use import AnyPattern

RUNS = (" ", "\n", "[", "{", "(", "<", '"', "'", "\\", "9", "a", "\u5b57", '\\"', "A ", "\n ", "[{'", "1. ", "a.")
"""What hostile texts repeat, beside what the patterns themselves suggest."""
ENDS = ("", "\0")
"""After the run: the end of the text, and what hardly any pattern goes on with."""
CHARACTERS = " \n\ta9A.,:;-_#*[](){}<>\"'\\/=|\u5b57\u0e01\u3002"
ENOUGH = 64
"""Up to so many repetitions are no more than a factor."""
MOST_BEGINNINGS = 24


@dataclass(frozen=True, slots=True)
class Shape:
    """A text of any size: a beginning, a unit over and over, and an end."""

    beginning: str
    unit: str
    end: str

    def text(self, size: int, pattern: AnyPattern) -> str | bytes:
        """Return the text of about `size` characters, as the pattern's kind of text."""
        text = self.beginning + self.unit * (size // len(self.unit) + 1) + self.end
        return text if isinstance(pattern.pattern, str) else text.encode("utf-8", "replace")


def shapes(pattern: AnyPattern) -> tuple[Shape, ...]:
    """Return what may stall a search for the pattern."""
    tree = parsed(pattern)
    begun = list(dict.fromkeys(beginnings(tree)))
    step = -(-len(begun) // MOST_BEGINNINGS) or 1
    begun = begun[::step]
    wholes = [text[:end] for text in samples(tree)[:8] for end in (len(text), len(text) - 1) if end > 0]
    own = [beginning + behind for beginning in (*wholes, *begun) for behind in ("", " ") if beginning + behind]
    runs = tuple(dict.fromkeys((*RUNS, *repeated(tree))))
    return tuple(
        dict.fromkeys(
            (
                *(Shape("", unit, end) for unit, end in product((*RUNS, *own), ENDS)),
                *(Shape(beginning, run, end) for beginning, run, end in product(begun, runs, ENDS)),
            )
        )
    )


def parsed(pattern: AnyPattern) -> parser.SubPattern:
    """Return what a pattern is made of."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    flags = pattern.flags & ~re.DEBUG
    return parser.parse(source, flags if isinstance(pattern.pattern, str) else flags | re.ASCII)


def samples(tree: parser.SubPattern, most: int = 16) -> list[str]:
    """Return short texts that a parsed pattern matches, or nearly; assertions are taken to hold."""
    texts = [""]
    for part in tree:
        operation, argument = part
        match str(operation):
            case "LITERAL":
                branches = [chr(argument)]
            case "IN" | "NOT_LITERAL" | "ANY":
                branches = members(tree, part)[:3]
            case "BRANCH":
                branches = [text for branch in argument[1] for text in samples(branch, 8)]
            case "SUBPATTERN":
                branches = samples(argument[3], most)
            case "ATOMIC_GROUP":
                branches = samples(argument, most)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                branches = [text * max(argument[0], 1) for text in samples(argument[2], 8)]
            case _:
                branches = [""]
        texts = [text + branch for text in texts for branch in branches[: max(1, most // len(texts))] or [""]]
    return texts


def beginnings(tree: parser.SubPattern, before: tuple[str, ...] = ("",)) -> Iterator[str]:
    """Yield what may stand before each endless repetition in a parsed pattern."""
    for place, (operation, argument) in enumerate(tree):
        here = tuple(text + own for text in before for own in samples(tree[:place], 2))[:4]
        match str(operation):
            case "BRANCH":
                for branch in argument[1]:
                    yield from beginnings(branch, here)
            case "SUBPATTERN":
                yield from beginnings(argument[3], here)
            case "ATOMIC_GROUP":
                yield from beginnings(argument, here)
            case "ASSERT" | "ASSERT_NOT":
                yield from beginnings(argument[1], here)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                if argument[1] > ENOUGH:
                    yield from here
                yield from beginnings(argument[2], here)


def repeated(tree: object) -> Iterator[str]:
    """Yield what is repeated without end in a parsed pattern."""
    if isinstance(tree, parser.SubPattern | list | tuple):
        parts = list(tree)
        if len(parts) == 2 and str(parts[0]).endswith("_REPEAT") and parts[1][1] > ENOUGH:
            yield from (text for text in samples(parts[1][2], 4)[:4] if text)
        for part in parts:
            yield from repeated(part)


def members(tree: parser.SubPattern, part: object) -> list[str]:
    """Return some characters that one part of a parsed pattern stands for."""
    one = compiler.compile(parser.SubPattern(tree.state, [part]), tree.state.flags)
    found = [character for character in CHARACTERS if one.fullmatch(character)]
    return found or [character for character in literals(part) if one.fullmatch(character)] or ["a"]


def literals(part: object) -> Iterator[str]:
    """Yield the characters that are named in a part of a parsed pattern, the ends of ranges among them."""
    if isinstance(part, list | tuple):
        match [str(part[0]), part[-1]] if part else []:
            case ["LITERAL", int(code)]:
                yield chr(code)
            case ["RANGE", (int(first), int(last))]:
                yield from (chr(first), chr(last))
            case _:
                for item in part:
                    yield from literals(item)
