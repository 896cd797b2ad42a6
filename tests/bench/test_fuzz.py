"""A small run of bench/fuzz.py; the bench runs 100,000 bodies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FUZZ = Path(__file__).parents[2] / "bench" / "fuzz.py"


def test_mutated_bodies() -> None:
    """No mutated body raises what is not a decoder's own, hangs it, grows it or spoils the next request."""
    ended = subprocess.run(
        [sys.executable, FUZZ, "--bodies", "400"], check=False, capture_output=True, text=True, timeout=240
    )
    assert 0 == ended.returncode, ended.stdout + ended.stderr
    assert 14 == len(ended.stdout.splitlines()), ended.stdout
