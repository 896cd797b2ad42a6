"""The log of a running monitor, as programs read it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.e2e.conftest import Start


def test_json_from_the_start_to_the_end(start: Start, quick: Path) -> None:
    """With `log.format: json` every line is an object with a time in UTC; so are those that name the listeners."""
    monitor = start("-c", quick, RAG_MONITOR__LOG__FORMAT="json")
    assert 0 == monitor.stop()
    lines = [json.loads(line) for line in monitor.text().splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    assert any(line["message"].startswith("otlp_http: listening on") for line in lines)
