"""Lines of a file, packed or not, a bounded chunk at a time, from where the last reader stopped."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from monitor.errors import MalformedPayload
from monitor.recordings.sources import is_packed

LONGEST = 32 * 1024 * 1024
"""Bytes of one line, or of one body when unpacked."""
_CHUNK_LINES = 500
_CHUNK_BYTES = 1024 * 1024
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How far a file has been read: complete lines, and bytes (0 in a packed file, which is always read again)."""

    line: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line without its end; `text` is None when it is longer than `LONGEST`."""

    number: int
    """1 for the first of the file."""
    text: bytes | None
    complete: bool = True
    """Whether a line end follows; only the last line of a file may lack it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some lines in order."""

    lines: tuple[Line, ...]
    through: Place
    """Behind the last complete line of the chunk."""
    at: int
    """Bytes of the file read so far, as they lie on the disk."""


def chunks(source: Path, *, since: Place) -> Iterator[Chunk]:
    """Yield the lines behind `since`, in order.

    Raises:
        MalformedPayload: what follows cannot be read: damaged or cut short (`not_gzip`), or UTF-16 (`not_utf8`).
        OSError: the file cannot be read.
    """
    with source.open("rb") as raw:
        packed = is_packed(source)
        stream: BinaryIO = io.BufferedReader(gzip.GzipFile(fileobj=raw)) if packed else raw
        try:
            if packed:
                for _ in range(since.line):
                    _next(stream, number=0)
            else:
                raw.seek(since.offset)
            yield from _chunks(stream, raw, since=since, packed=packed)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            what = "cut short" if isinstance(error, EOFError) else "damaged, or no gzip file"
            raise MalformedPayload(what, reason="not_gzip") from None


def _chunks(stream: BinaryIO, raw: BinaryIO, *, since: Place, packed: bool) -> Iterator[Chunk]:
    number, offset = since.line, since.offset
    lines: list[Line] = []
    size = 0
    while (numbered := _next(stream, number=number + 1)) is not None:
        line, length = numbered
        if number == 0 and line.text is not None and line.text[:2] in _UTF16:
            raise MalformedPayload("UTF-16; save it as UTF-8", reason="not_utf8")
        lines.append(line)
        size += length
        if line.complete:
            number, offset = number + 1, offset + length
        if len(lines) >= _CHUNK_LINES or size >= _CHUNK_BYTES:
            yield Chunk(lines=tuple(lines), through=_place(number, offset, packed=packed), at=raw.tell())
            lines, size = [], 0
    if lines:
        yield Chunk(lines=tuple(lines), through=_place(number, offset, packed=packed), at=raw.tell())


def _place(number: int, offset: int, *, packed: bool) -> Place:
    return Place(line=number, offset=0 if packed else offset)


def _next(stream: BinaryIO, *, number: int) -> tuple[Line, int] | None:
    """Return the next line and its length with its end; None at the end of the file."""
    text = stream.readline(LONGEST)
    if not text:
        return None
    length, complete = len(text), text.endswith(b"\n")
    if complete or length < LONGEST:
        return Line(number=number, text=text.rstrip(b"\r\n"), complete=complete), length
    while text and not text.endswith(b"\n"):
        text = stream.readline(LONGEST)
        length += len(text)
    return Line(number=number, text=None, complete=bool(text)), length
