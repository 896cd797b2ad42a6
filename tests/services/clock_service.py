"""The wall clock of processes that a test starts, set by libfaketime while they run; steady clocks stay as they are."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from requirement import require_or_skip

_DEBIAN = tuple(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))


class WallClock:
    """What time it is for processes with this environment."""

    def __init__(self, library: Path, offset: Path) -> None:
        self._offset = offset
        self.environment: Mapping[str, str] = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(offset),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self.set("+0")

    def set(self, offset: str) -> None:
        """Set it by so much from the real time, such as "+1d"."""
        # In one step: a process that finds the file empty would end.
        new = self._offset.with_suffix(".new")
        new.write_text(f"{offset}\n")
        new.replace(self._offset)


@pytest.fixture
def wall_clock(tmp_path_factory: pytest.TempPathFactory) -> WallClock:
    """A clock that tells the real time until it is set."""
    if not _DEBIAN:
        require_or_skip("faketime", "libfaketime not found (looked in /usr/lib/*/faketime)")
    return WallClock(_DEBIAN[0], tmp_path_factory.mktemp("clock") / "offset")
