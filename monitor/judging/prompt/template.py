"""Templates with `{{name}}` and `{{#name}}..{{/name}}`, parsed once; what is inserted is never read as a template.

A section over a list is written once for each item, whose fields it may name; a section over a value is written when
the value is not empty. A line that holds nothing but a section's tag leaves no empty line behind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from monitor.errors import ConfigError

VALUES = frozenset({"fence", "query", "response", "ground_truth", "history", "context", "claim", "document", "dropped"})
"""What `{{name}}` and `{{#name}}` may name anywhere."""

LISTS: Mapping[str, frozenset[str]] = {
    "documents": frozenset({"id", "title", "content", "rank", "source"}),
    "sentences": frozenset({"n", "text"}),
}
"""What `{{#name}}` may name, and the fields of an item."""

_TAG = re.compile(r"\{\{\s*+([#/]?)\s*+([^{}\s]*+)\s*+\}\}")
_BRACES = re.compile(r"\{\{|\}\}")

Fields: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Value:
    name: str


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    parts: tuple[str | _Value | _Section, ...]


_Part: TypeAlias = "str | _Value | _Section"


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template."""

    parts: tuple[_Part, ...]
    names: frozenset[str]
    """The values and sections it uses, fields of items left out."""

    def render(self, values: Fields, lists: Mapping[str, Sequence[Fields]]) -> str:
        """Return the text with everything inserted; a value that `values` lacks is empty."""
        return "".join(_write(self.parts, values, lists))

    def outside(self, mark: str) -> str | None:
        """Return the first value that does not stand between two of the value `mark`; `mark` when one is left open.

        >>> template = parse("{{fence}}{{query}}{{fence}} {{response}}", where="p.md")
        >>> template.outside("fence"), template.outside("query")
        ('response', 'fence')
        """
        name, is_open = _outside(self.parts, mark, is_open=False)
        return mark if is_open and name is None else name


def parse(text: str, *, where: str, line: int = 1) -> Template:
    """Return `text` as a template; `where` and the number of its first `line` are for messages.

    Raises:
        ConfigError: a placeholder is unknown, a section is not closed, or braces belong to no tag.
    """
    reader = _Reader(text, where, line)
    parts, _ = reader.read(0, "", frozenset())
    return Template(parts=parts, names=frozenset(reader.names))


class _Reader:
    def __init__(self, text: str, where: str, line: int) -> None:
        self._text = text
        self._where = where
        self._line = line
        self.names: set[str] = set()

    def read(self, start: int, section: str, fields: frozenset[str]) -> tuple[tuple[_Part, ...], int]:
        """Return the parts up to the end of `section` ("" for the whole text) and where reading goes on."""
        parts: list[_Part] = []
        while tag := _TAG.search(self._text, start):
            kind, name = tag[1], tag[2]
            begin, end = self._extent(tag) if kind else tag.span()
            parts.append(self._literal(start, begin))
            start = end
            if kind == "/":
                if name != section:
                    raise self._error(tag.start(), f"{{{{/{name}}}}} closes {section or 'nothing'!r}")
                return tuple(parts), start
            if kind == "#":
                inner, start = self._section(tag, end, fields)
                parts.append(inner)
                continue
            if name not in fields:
                self._check_name(tag, name, VALUES | fields)
                self.names.add(name)
            parts.append(_Value(name))
        if section:
            raise self._error(len(self._text), f"{{{{#{section}}}}} is not closed")
        parts.append(self._literal(start, len(self._text)))
        return tuple(parts), len(self._text)

    def _extent(self, tag: re.Match[str]) -> tuple[int, int]:
        """Return where the tag begins and ends: with its whole line when it is alone on it."""
        line_start = self._text.rfind("\n", 0, tag.start()) + 1
        line_end = self._text.find("\n", tag.end())
        line_end = len(self._text) if line_end < 0 else line_end + 1
        around = self._text[line_start : tag.start()] + self._text[tag.end() : line_end]
        return tag.span() if around.strip() else (line_start, line_end)

    def _section(self, tag: re.Match[str], start: int, fields: frozenset[str]) -> tuple[_Section, int]:
        name = tag[2]
        self._check_name(tag, name, VALUES | LISTS.keys())
        if name in LISTS and fields:
            raise self._error(tag.start(), f"{{{{#{name}}}}} stands in another list")
        self.names.add(name)
        inner, end = self.read(start, name, fields | LISTS.get(name, frozenset()))
        return _Section(name, inner), end

    def _literal(self, start: int, end: int) -> str:
        if stray := _BRACES.search(self._text, start, end):
            raise self._error(stray.start(), f"{stray[0]!r} belongs to no placeholder")
        return self._text[start:end]

    def _check_name(self, tag: re.Match[str], name: str, allowed: frozenset[str]) -> None:
        if name not in allowed:
            known = ", ".join(sorted(allowed))
            raise self._error(tag.start(), f"no placeholder {name!r} here; known: {known}")

    def _error(self, at: int, problem: str) -> ConfigError:
        return ConfigError(problem, where=f"{self._where}:{self._line + self._text.count(chr(10), 0, at)}")


def _outside(parts: Sequence[_Part], mark: str, *, is_open: bool) -> tuple[str | None, bool]:
    """Return the first value outside of marks, and whether a mark is open behind the parts."""
    for part in parts:
        if isinstance(part, _Section):
            name, after = _outside(part.parts, mark, is_open=is_open)
            # A section may be written never or many times, so that it has to close what it opens.
            if name is not None or after != is_open:
                return name or mark, is_open
        elif isinstance(part, _Value) and part.name == mark:
            is_open = not is_open
        elif isinstance(part, _Value) and not is_open:
            return part.name, is_open
    return None, is_open


def _write(parts: Sequence[_Part], values: Fields, lists: Mapping[str, Sequence[Fields]]) -> Sequence[str]:
    written: list[str] = []
    for part in parts:
        if isinstance(part, str):
            written.append(part)
        elif isinstance(part, _Value):
            written.append(values.get(part.name, ""))
        elif part.name in LISTS:
            for item in lists.get(part.name, ()):
                written += _write(part.parts, {**values, **item}, lists)
        elif values.get(part.name):
            written += _write(part.parts, values, lists)
    return written
