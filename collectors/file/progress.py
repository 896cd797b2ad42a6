"""How far each file of a watched folder has been read, and when there is something to do about it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from monitor.recordings.lines import Place
from monitor.recordings.sources import is_lines, is_packed, once, signal_of

_HEAD = 64 * 1024
"""Bytes at a file's beginning that tell one that has grown from one that was written anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A file as found in the folder."""

    path: Path
    identity: tuple[int, int]
    """Device and inode: what stays when a file is renamed."""
    size: int
    changed_ns: int

    @property
    def whole(self) -> bool:
        """Whether the file can only be read as a whole: the body of a request, or packed."""
        return is_packed(self.path) or not is_lines(self.path)


def look(folder: Path) -> tuple[Look, ...]:
    """Return the folder's files to read, by name.

    Raises:
        OSError: the folder cannot be read.
    """
    found = once(path for path in folder.iterdir() if is_lines(path) or signal_of(path))
    return tuple(_looks(found))


def _looks(paths: tuple[Path, ...]) -> Iterator[Look]:
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        if path.is_file():
            identity = status.st_dev, status.st_ino
            yield Look(path=path, identity=identity, size=status.st_size, changed_ns=status.st_mtime_ns)


@dataclass(slots=True)
class Progress:
    """One file. `seen` and `tried` are the file as it was last found, and as it was when reading it last began."""

    seen: Look
    since: float
    """When `seen` was first so, on the caller's clock of seconds."""
    tried: Look | None = None
    place: Place = field(default_factory=Place)
    """What lies before it is kept for good."""
    open_end: bool = False
    """Whether `tried` ended in something that may still be written: it waits until the file rests."""
    spotless: bool = True
    """Whether everything in the file could be read."""
    shut_until: float | None = None
    """When to try again to open it; None when it could be opened."""
    _head: bytes = b""
    _head_size: int = 0

    def found(self, now: Look, at: float) -> None:
        """Take note of the file as it is at a moment."""
        if now != self.seen:
            if (now.size, now.changed_ns) != (self.seen.size, self.seen.changed_ns):
                self.since = at
            self.seen = now

    def due(self, at: float, *, settle: timedelta) -> bool:
        """Return whether reading it would find something: it changed, or its open end has rested long enough."""
        if self.shut_until is not None:
            return at >= self.shut_until
        rests = self.rests(at, settle=settle)
        if self.tried is not None and not self._changed(self.tried):
            return self.open_end and rests
        # A whole file is not read over and over while somebody copies it here.
        return rests or not (self.open_end and self.seen.whole)

    def finished(self, at: float, *, settle: timedelta) -> bool:
        """Return whether all of it was read without complaint, and nobody wrote to it for a while."""
        read = self.tried is not None and not self._changed(self.tried) and not self.open_end and not self.shut_until
        return read and self.spotless and self.rests(at, settle=settle)

    def rests(self, at: float, *, settle: timedelta) -> bool:
        """Return whether the file has not changed for at least `settle`."""
        return at - self.since >= settle.total_seconds()

    def begin(self) -> None:
        """Start reading: where the last reading stopped, or at the beginning if this is another file by now.

        Raises:
            OSError: the file cannot be read.
        """
        self.tried = self.seen
        if self.seen.size < self.place.offset or self._digest(self._head_size) != self._head:
            self.place, self.spotless = Place(), True
            self._keep_head(0)

    def end(self, *, open_end: bool) -> None:
        """Finish reading: the end was reached, for now.

        Raises:
            OSError: the file cannot be read.
        """
        self.open_end, self.shut_until = open_end, None
        self._keep_head(self.seen.size if self.seen.whole else self.place.offset)

    def shut(self, until: float) -> bool:
        """Take note that the file could not be read and is to be tried again; return whether that is news."""
        news, self.shut_until = self.shut_until is None, until
        return news

    def _changed(self, before: Look) -> bool:
        return (before.size, before.changed_ns) != (self.seen.size, self.seen.changed_ns)

    def _keep_head(self, size: int) -> None:
        self._head_size = min(size, _HEAD)
        self._head = self._digest(self._head_size)

    def _digest(self, size: int) -> bytes:
        if not size:
            return b""
        with self.seen.path.open("rb") as stream:
            return hashlib.blake2b(stream.read(size), digest_size=16).digest()


def still(progress: Progress) -> bool:
    """Return whether the file on the disk is what was last seen of it."""
    return tuple(_looks((progress.seen.path,))) == (progress.seen,)
