"""Child processes run the code that the tests import: of a worktree or a bare checkout, whatever else is installed."""

import os
import sys
from pathlib import Path

import monitor

CODE_UNDER_TEST = {"PYTHONPATH": str(Path(monitor.__file__).parents[1])}


def clean_environment(home: Path) -> dict[str, str]:
    """An environment with nothing of the session's but its commands and the code under test."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.defpath])
    return {"PATH": path, "HOME": str(home), "LC_ALL": "C.UTF-8", **CODE_UNDER_TEST}
