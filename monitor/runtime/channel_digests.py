"""Which settings a channel has, without saying them: a message that failed under others is sent again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from monitor.runtime.build import kind_and_name
from monitor.settings.text_file import read_whole
from monitor.settings.tree import PluginSection, Settings


def channel_digests(settings: Settings, *, key: bytes) -> Mapping[str, str]:
    """Return a digest for each channel, by its name; it changes with any value of its section.

    A file that a key ending in `_file` names counts with what is in it. The digests are keyed, since a section holds
    secrets that could else be guessed from them.
    """
    sections = enumerate(settings.channels)
    return {kind_and_name(section, f"channels[{i}]")[1]: _digest(section, key) for i, section in sections}


def _digest(section: PluginSection, key: bytes) -> str:
    digest = hashlib.blake2b(json.dumps(section, sort_keys=True, default=str).encode(), key=key, digest_size=16)
    for name, value in sorted(section.items()):
        if name.endswith("_file") and isinstance(value, str):
            digest.update(_content(Path(value)))
    return digest.hexdigest()


def _content(file: Path) -> bytes:
    """Return what is in a file; nothing for one that cannot be read, which is the channel's to complain of."""
    try:
        return read_whole(file)
    except OSError:
        return b""
