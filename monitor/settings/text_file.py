"""Files that people write, such as settings and prompts: read whole, as UTF-8, if they are not endless."""

from __future__ import annotations

from pathlib import Path

from monitor.errors import ConfigError

LONGEST_BYTES = 1_000_000
"""A thousand times what such a file has; YAML takes seconds for a few megabytes, also of comments."""


def read_text(path: Path, what: str, *, encoding: str = "utf-8") -> str:
    """Return the text of the file at `path`; `what` it is goes into messages, such as "the settings".

    Raises:
        ConfigError: it cannot be read, is not UTF-8, or has more than `LONGEST_BYTES`.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(LONGEST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {what}: {error.strerror}", where=str(path)) from None
    if len(raw) > LONGEST_BYTES:
        raise ConfigError(f"cannot read {what}: longer than {LONGEST_BYTES:,} bytes", where=str(path))
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        raise ConfigError(f"cannot read {what}: not UTF-8", where=str(path)) from None
