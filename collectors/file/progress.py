"""How far each file of a watched folder has been read, and when there is something to do about it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from monitor.recordings.lines import Place
from monitor.recordings.sources import is_lines, is_packed, signal_of, without_copies

_HEAD = 64 * 1024
"""Bytes at a file's beginning that tell one that has grown from one that was written anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
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


def list_files(folder: Path) -> tuple[FileState, ...]:
    """Return the folder's files to read, by name.

    Raises:
        OSError: the folder cannot be read.
    """
    paths = without_copies(path for path in folder.iterdir() if is_lines(path) or signal_of(path))
    return tuple(_states(paths))


def _states(paths: tuple[Path, ...]) -> Iterator[FileState]:
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        if path.is_file():
            identity = status.st_dev, status.st_ino
            yield FileState(path=path, identity=identity, size=status.st_size, changed_ns=status.st_mtime_ns)


@dataclass(slots=True)
class Progress:
    """One file: its `state` when last looked at, and its `read_state`, that when the last reading began."""

    state: FileState
    since: float
    """When `state` was first so, on the caller's clock of seconds."""
    read_state: FileState | None = None
    place: Place = field(default_factory=Place)
    """What lies before it is kept for good."""
    open_end: bool = False
    """Whether `read_state` ended in something that may still be written: it waits until the file is quiet."""
    is_clean: bool = True
    """Whether everything in the file could be read."""
    retry_at: float | None = None
    """When to try again to open it; None when it could be opened."""
    _head: bytes = b""
    _head_size: int = 0

    def update(self, state: FileState, at: float) -> None:
        """Take note of the file as it is at a moment."""
        if state != self.state:
            if (state.size, state.changed_ns) != (self.state.size, self.state.changed_ns):
                self.since = at
            self.state = state

    def due(self, at: float, *, finished_after: timedelta) -> bool:
        """Return whether reading it would find something: it changed, or its open end has rested long enough."""
        if self.retry_at is not None:
            return at >= self.retry_at
        quiet = self.is_quiet(at, finished_after=finished_after)
        if self.read_state is not None and not self._changed(self.read_state):
            return self.open_end and quiet
        # A whole file is not read over and over while somebody copies it here.
        return quiet or not (self.open_end and self.state.whole)

    def finished(self, at: float, *, finished_after: timedelta) -> bool:
        """Return whether all of it was read without an error, and nobody wrote to it for a while."""
        read = (
            self.read_state is not None
            and not self._changed(self.read_state)
            and not self.open_end
            and not self.retry_at
        )
        return read and self.is_clean and self.is_quiet(at, finished_after=finished_after)

    def is_quiet(self, at: float, *, finished_after: timedelta) -> bool:
        """Return whether the file has not changed for at least `finished_after`."""
        return at - self.since >= finished_after.total_seconds()

    def begin(self) -> None:
        """Start reading: where the last reading stopped, or at the beginning if this is another file by now.

        Raises:
            OSError: the file cannot be read.
        """
        self.read_state = self.state
        if self.state.size < self.place.offset or self._digest(self._head_size) != self._head:
            self.place, self.is_clean = Place(), True
            self._keep_head(0)

    def end(self, *, open_end: bool) -> None:
        """Finish reading: the end was reached, for now.

        Raises:
            OSError: the file cannot be read.
        """
        self.open_end, self.retry_at = open_end, None
        self._keep_head(self.state.size if self.state.whole else self.place.offset)

    def mark_unreadable(self, until: float) -> bool:
        """Take note that the file could not be read and is to be read again later; return whether that is news."""
        news, self.retry_at = self.retry_at is None, until
        return news

    def _changed(self, before: FileState) -> bool:
        return (before.size, before.changed_ns) != (self.state.size, self.state.changed_ns)

    def _keep_head(self, size: int) -> None:
        self._head_size = min(size, _HEAD)
        self._head = self._digest(self._head_size)

    def _digest(self, size: int) -> bytes:
        if not size:
            return b""
        with self.state.path.open("rb") as stream:
            return hashlib.blake2b(stream.read(size), digest_size=16).digest()


def is_unchanged(progress: Progress) -> bool:
    """Return whether the file on the disk is as it was when last looked at."""
    return tuple(_states((progress.state.path,))) == (progress.state,)
