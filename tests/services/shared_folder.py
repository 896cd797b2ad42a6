"""The folder of recorded telemetry and acceptance cases, which is laid beside the repository and not part of it."""

import os
from pathlib import Path

import pytest
from requirement import require_or_skip

_VARIABLE = "RAG_MONITOR_SHARED"


def shared_path() -> Path:
    """Where the folder is expected: RAG_MONITOR_SHARED, else `shared` beside the repository; it may not exist."""
    return Path(os.environ.get(_VARIABLE) or Path(__file__).parents[2].with_name("shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The shared folder; the test is skipped where there is none."""
    path = shared_path()
    if not path.is_dir():
        require_or_skip("shared", f"no folder of recorded captures at {path} (set {_VARIABLE})")
    return path
