"""A folder for sockets that only this process reaches; those of processes that were killed are removed."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from monitor.errors import ConfigError

_PREFIX = "rag-monitor-grpc-"
_LONGEST_PARENT = 64
"""Characters: the path of a Unix socket may have 107 (unix(7)), of which its name in the folder takes up to 40."""


@contextmanager
def private_folder(where: str) -> Iterator[Path]:
    """Give a new folder for this user alone, whose path is short enough for sockets in it; deleted in the end.

    A lock on it says that it is in use, and is gone with its process, however that ends.

    Raises:
        ConfigError: none can be made; `where` is whose it should be.
    """
    path, lock = _made(where)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _made(where: str) -> tuple[Path, int]:
    for parent in (*_usual_parent(), Path("/tmp"), Path("/dev/shm")):  # noqa: S108 -- a new name in it is taken
        if len(str(parent)) <= _LONGEST_PARENT:
            with suppress(OSError):
                _remove_abandoned(parent)
                return _locked(parent)
    raise ConfigError(
        f"needs a folder that can be written, for a socket; set TMPDIR to one of {_LONGEST_PARENT} characters or fewer",
        where=where,
    )


def _usual_parent() -> tuple[Path, ...]:
    try:
        return (Path(tempfile.gettempdir()),)
    except OSError:
        return ()


def _locked(parent: Path) -> tuple[Path, int]:
    """Return a new folder and a descriptor that locks it; another process may have removed the first before it was."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        try:
            lock = _lock(path)
        except (FileNotFoundError, BlockingIOError):
            continue
        except OSError:
            path.rmdir()
            raise
        if path.exists():
            return path, lock
        os.close(lock)


def _remove_abandoned(parent: Path) -> None:
    for path in parent.glob(f"{_PREFIX}*"):
        # Others' folders, links and those in use are not ours to remove.
        with suppress(OSError):
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                lock = _lock(path)
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)


def _lock(path: Path) -> int:
    """Return a descriptor that holds a lock on a folder.

    Raises:
        BlockingIOError: another one does.
        OSError: it is no folder (any more), or is not ours.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
