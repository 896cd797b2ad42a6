"""Files that people write, such as settings, prompts and secrets: read whole, if they are not endless."""

from __future__ import annotations

import errno
from pathlib import Path

from monitor.errors import ConfigError

LONGEST_BYTES = 1_000_000
"""A thousand times what such a file has; YAML takes seconds for a few megabytes, also of comments."""


def read_whole(path: Path) -> bytes:
    """Return what is in the file at `path`.

    Raises:
        OSError: it cannot be read, or has more than `LONGEST_BYTES`, as a device without an end has.
    """
    with path.open("rb") as file:
        raw = file.read(LONGEST_BYTES + 1)
    if len(raw) > LONGEST_BYTES:
        raise OSError(errno.EFBIG, f"longer than {LONGEST_BYTES:,} bytes")
    return raw


def read_text(path: Path, what: str, *, encoding: str = "utf-8") -> str:
    """Return the text of the file at `path`; `what` it is goes into messages, such as "the settings".

    Raises:
        ConfigError: it cannot be read, is not UTF-8, or has more than `LONGEST_BYTES`.
    """
    try:
        raw = read_whole(path)
    except OSError as error:
        raise ConfigError(f"cannot read {what}: {error.strerror}", where=str(path)) from None
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        raise ConfigError(f"cannot read {what}: not UTF-8", where=str(path)) from None
