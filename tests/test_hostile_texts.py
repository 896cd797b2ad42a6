"""Functions that read what a sender wrote take linear time, beside their patterns (`test_patterns`)."""

import gc
import time
from collections.abc import Callable, Iterator
from itertools import product

import pytest

from monitor.extract import json_text, literals, reprs
from monitor.extract.documents import documents
from monitor.extract.excerpts import excerpts
from monitor.extract.messages import messages_of
from monitor.judging import injection
from monitor.text import sentences
from monitor.text.claims import claims

SIZES = (12_500, 50_000, 200_000)
"""Each four times the one before: linear time is four times as long, quadratic sixteen times."""
LARGEST_RATIO = 6.0
HARMLESS_SECONDS = 0.1
"""What the largest may take whatever the ratio is: below it, memory that no longer fits the cache makes the ratio."""
LONGEST_SECONDS = 2.0
TRIES = 3
"""How often the time is taken until it is well: what runs beside us disturbs it."""

BEGINNINGS = ("", "[", "[{'a': '", "[Document(page_content='")
UNITS = (
    "\n", " ", "[", "{", '"', "'", "\\", '\\"', "[{'", '{"a":', "1, ", "'a',", '"a",', "a. ", "A. ", "1. ", "- a\n",
    "```\n", "[1] a\n", "Document(", "HumanMessage(content='", "Source: a\nContent: b\n\n", "\u5b57\u3002", "\u0e01 ",
)  # fmt: skip
READERS: tuple[Callable[[str], object], ...] = (
    literals.value,
    json_text.parse,
    reprs.messages,
    reprs.documents,
    reprs.document,
    reprs.last_message,
    reprs.prints_object,
    documents,
    excerpts,
    messages_of,
    injection.flags_of,
    sentences.split,
    claims,
)


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    """Collect no garbage: a collection goes through all that other tests left, 0.1 s in whichever reading it falls."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def seconds(read: Callable[[str], object], text: str) -> float:
    """Return the CPU time of one reading."""
    began = time.thread_time()
    read(text)
    return time.thread_time() - began


def complaint(read: Callable[[str], object], beginning: str, unit: str) -> str | None:
    """Return what is wrong with the time that reading a repeated unit takes, None when nothing is."""
    took: list[float] = []
    for _ in range(TRIES):
        took = []
        for size in SIZES:
            took.append(seconds(read, beginning + unit * (size // len(unit))))
            if took[-1] >= LONGEST_SECONDS:
                break
        else:
            if took[-1] < max(HARMLESS_SECONDS, LARGEST_RATIO * took[-2]):
                return None
    return f"{beginning!r} and {unit!r} repeated: {', '.join(f'{each:.3f}' for each in took)} s"


@pytest.mark.long
@pytest.mark.parametrize("read", READERS, ids=lambda read: f"{read.__module__.rpartition('.')[2]}.{read.__name__}")
def test_hostile_text(read: Callable[[str], object]) -> None:
    """Four times the text takes less than six times as long, whatever is repeated and what it begins with."""
    assert [] == [text for beginning, unit in product(BEGINNINGS, UNITS) if (text := complaint(read, beginning, unit))]


@pytest.mark.long
def test_quadratic_reader() -> None:
    """What is looked for is seen."""

    def read(text: str) -> int:
        return sum(len(text[at:].encode()) for at in range(0, len(text), 2))

    assert complaint(read, "[", "a")
