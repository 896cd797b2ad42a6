"""A Unix socket to listen on, and the file that it is."""

from __future__ import annotations

import socket
from pathlib import Path

from monitor.errors import ConfigError

_MODE = 0o660
"""Who may connect: its owner and group."""


def bound_unix_socket(path: Path, where: str) -> socket.socket:
    """Return a socket bound to `path`, not listening.

    Raises:
        ConfigError: it cannot be bound, something else has that name, or somebody listens there.
    """
    _clear(path, where)
    bound = socket.socket(socket.AF_UNIX)
    try:
        bound.bind(str(path))
        path.chmod(_MODE)
    except OSError as error:
        bound.close()
        raise ConfigError(f"cannot listen on {path}: {error.strerror}", where=where) from None
    return bound


def _clear(path: Path, where: str) -> None:
    """Remove the socket file of a process that is gone; one that was killed leaves it behind, and it bars the next."""
    if not path.exists():
        return
    if not path.is_socket():
        raise ConfigError(f"cannot listen on {path}: it is there and no socket", where=where)
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise ConfigError(f"cannot listen on {path}: Address already in use", where=where)
