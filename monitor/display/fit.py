"""A table on a screen that may be too narrow for it: then a record a row, so that no name is ever cut."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Column, Table
from rich.text import Text

_READABLE = 24
"""Columns that running text needs at least; what is marked `no_wrap` needs its whole length."""
_EDGE, _PER_COLUMN = 1, 3
"""Characters of borders and padding."""


def fitted(table: Table, width: int) -> str:
    """Return the table as text that is at most `width` wide; where its names do not fit, as records.

    A record has a line for each cell that is not empty, and none of them is broken: a long one is for the terminal to
    wrap.
    """
    if _narrowest(table) > width:
        return "".join(f"{line}\n" for line in _records(table))
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def _narrowest(table: Table) -> int:
    borders = _EDGE + _PER_COLUMN * len(table.columns) if table.box else 2 * len(table.columns)
    return borders + sum(map(_needed, table.columns))


def _needed(column: Column) -> int:
    widest = max((_plain(cell).cell_len for cell in (column.header, *column.cells)), default=0)
    return widest if column.no_wrap else min(widest, _READABLE)


def _records(table: Table) -> Iterator[str]:
    if table.title:
        yield _plain(table.title).plain
    heads = [_plain(column.header).plain for column in table.columns]
    widest = max(map(len, heads))
    sizes = [_needed(column) for column in table.columns]
    for row in zip(*(column.cells for column in table.columns), strict=True):
        cells = [_plain(cell).plain for cell in row]
        if table.show_header:
            yield ""
            yield from (f"{head:<{widest}}  {cell}" for head, cell in zip(heads, cells, strict=True) if cell)
        else:
            yield "  ".join(f"{cell:<{size}}" for cell, size in zip(cells, sizes, strict=True)).rstrip()
    if table.caption:
        yield from ("", _plain(table.caption).plain)


def _plain(cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else Text.from_markup(str(cell))
