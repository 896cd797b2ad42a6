"""bench/hostile_clients.py: a few attacks of each kind, of which a good sender gets no error."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "bench"
OTHER_ADDRESS, SECONDS = "127.0.1.1", 2.0


@pytest.fixture(scope="module")
def hostile_clients() -> ModuleType:
    """The script, which finds its parts beside it."""
    sys.path.insert(0, str(BENCH))
    try:
        return importlib.import_module("hostile_clients")
    finally:
        sys.path.remove(str(BENCH))


@pytest.mark.long
@pytest.mark.parametrize(
    "names",
    [
        [
            "idle",
            "slow head",
            "declared, never sent",
            "5,000 fields",
            "smuggled requests",
            "head of 50 MB",
            "never reads",
        ],
        ["h2: rapid reset", "h2: CONTINUATION", "h2: begun messages", "h2: no window", "h2: odd frames"],
        ["tls http: unfinished", "tls http: broken hello", "tls grpc: unfinished", "tls grpc: broken hello"],
    ],
    ids=["http", "http2", "tls"],
)
def test_good_sender(hostile_clients: ModuleType, names: list[str]) -> None:
    """It is answered, the health page too; no descriptor stays; the log is short, without what was sent."""
    outcome = hostile_clients.attacked(names, SECONDS, [OTHER_ADDRESS])
    # How long answers take says more about the machine that tests run on.
    assert [] == [fault for fault in outcome.faults() if " p95 " not in fault]
