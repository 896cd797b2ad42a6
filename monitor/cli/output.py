"""How verbs print: tables as wide as the terminal, lines of JSON, a bar of progress; and the loop they run on."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import click
import uvloop
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from monitor.display.fit import fitted

R = TypeVar("R")
T = TypeVar("T")

FAILED = 1
"""Exit status of a verb that did its work and has bad news."""
TABLE_ROWS = 50
"""Rows of a table, unless more are asked for."""
_PIPE_WIDTH = 1000
"""Where there is no terminal no line is broken, so that `grep` finds whole ones."""


def print_rows(form: str, rows: Iterable[T], line: Callable[[T], str], table: Callable[[Iterable[T]], Table]) -> None:
    """Print rows in the form that `--format` names: "jsonl" for a line each, else a table of them."""
    with quiet_pipe():
        if form == "jsonl":
            for row in rows:
                click.echo(line(row))
        else:
            print_table(table(rows))


def print_table(table: Table) -> None:
    """Print a table as wide as the terminal, or as wide as it wants to be where there is none."""
    click.echo(fitted(table, Console().width if sys.stdout.isatty() else _PIPE_WIDTH), nl=False)


@contextmanager
def quiet_pipe() -> Iterator[None]:
    """Take it for success when the reader of our output has seen enough, as in `| head`."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes at exit, and must not complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def progress_bar(what: str) -> Progress:
    """Return a bar on standard error, disabled where that is no terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn(what),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console, disable=not console.is_terminal)


def run_loop(work: Coroutine[object, object, R]) -> R:
    """Run on uvloop: the collectors' share of a core is what limits them."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
