"""Files that are read again when they change, while we run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

from monitor.errors import ConfigError

log = logging.getLogger(__name__)

T = TypeVar("T")


class RenewedFiles(Generic[T]):
    """What `read` makes of files; where renewed ones are unusable, what was read before stays. Safe in any thread.

    Args:
        files: whose change is looked for.
        read: reads them.
        where: the section that names them, for the log.

    Raises:
        ConfigError: they cannot be read now.
    """

    def __init__(self, files: Sequence[Path], read: Callable[[], T], where: str) -> None:
        self._files, self._read, self._where = files, read, where
        self._lock = Lock()
        self._stamps = self._stamped()
        self._content = read()

    def content(self) -> T:
        """Return what the files hold now, after a look at their times: some microseconds a file."""
        with self._lock:
            stamps = self._stamped()
            if stamps != self._stamps:
                self._stamps = stamps
                try:
                    self._content = self._read()
                except ConfigError as error:
                    log.warning("%s; what was read before stays in use", error)
                else:
                    log.info("%s: the renewed files are in use now", self._where)
            return self._content

    def _stamped(self) -> tuple[tuple[int, ...], ...]:
        return tuple(map(_stamp, self._files))


def renewed(files: Sequence[Path | None], read: Callable[[], T], where: str) -> Callable[[], T]:
    """Return what gives what `read` makes of these files now, as `RenewedFiles` does; None is a file that is not named.

    Raises:
        ConfigError: they cannot be read now.
    """
    return RenewedFiles([file for file in files if file is not None], read, where).content


def _stamp(path: Path) -> tuple[int, ...]:
    """Return what changes with the file. Its size, too: two writes may come within one tick of the file system."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_size
