"""A small run of bench/chaos.py; the bench kills 100 times in ten minutes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kafka_service import find_java, kafka_home
from pgbouncer_service import find_pgbouncer
from postgres_service import find_binaries
from requirement import require_or_skip

CHAOS = Path(__file__).parents[2] / "bench" / "chaos.py"
SERVICES = {
    "postgres": find_binaries,
    "pgbouncer": find_pgbouncer,
    "kafka": lambda: find_java() and any(kafka_home().glob("libs/kafka_2.13-*.jar")),
}


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.postgres
@pytest.mark.pgbouncer
def test_kills_jumps_and_failures_at_once() -> None:
    """With processes killed, clocks set by a day, judge and webhook failing, the books are right when it is quiet."""
    for service, found in SERVICES.items():
        if not found():
            require_or_skip(service, f"{service} not found, where the tests that need it look")
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc), for clocks that jump")
    small = ["--minutes", "1", "--kills", "8", "--jumps", "3", "--processes", "3", "--rate", "8", "--settle", "8"]
    ended = subprocess.run(
        [sys.executable, CHAOS, *small, "--seed", "7"], check=False, capture_output=True, text=True, timeout=900
    )
    assert 0 == ended.returncode, ended.stdout + ended.stderr
    assert "480 turns sent, 480 acknowledged" in ended.stdout
    assert "all as promised" in ended.stdout
