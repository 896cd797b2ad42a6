"""A backlog of hours that arrives at once, with live turns behind it (case K08): what happened then is counted then."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from deadline import wait_until
from loopback import free_port

from monitor.store.sql_store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from monitor.model.trends import Rollup
    from monitor.store.sql_store import SqlStore
    from tests.scenarios.conftest import Monitor, StartMonitor

HOUR = timedelta(hours=1)
PROXY = "groundedness_proxy"
SUPPORTED = "The warranty covers the pump and lasts two years."
INVENTED = "Ask the wizard in Aachen, who repairs anything on Sundays."
HEALTHY = dict.fromkeys(range(40, 20, -1), 12)
"""Turns by hours ago."""
BACKLOG = dict.fromkeys(range(10, 5, -1), 60)
LIVE = {0: 5}
STAGES = {name: {"every": "200ms"} for name in ("assemble", "sample", "rollup", "alert")}
STAGES["assemble"] = {"every": "200ms", "quiet": "200ms"}


def lines(now: datetime, hours: dict[int, int], *, answer: str) -> Iterator[str]:
    """Yield imported turns, spread over each hour."""
    for hours_ago, count in hours.items():
        for number in range(count):
            yield json.dumps(
                {
                    "turn_id": f"{hours_ago}-{number}",
                    "question": f"Is pump {number} under warranty?",
                    "context": SUPPORTED,
                    "answer": answer,
                    "started_at": (now - hours_ago * HOUR - timedelta(seconds=50 * number)).isoformat(),
                    "app": "shop",
                }
            )


def deliver(folder: Path, name: str, written: Iterable[str]) -> None:
    """Put a whole file into the watched folder."""
    draft = folder / f"{name}.part"
    draft.write_text("\n".join(written) + "\n")
    draft.rename(folder / f"{name}.jsonl")


def rows(store: SqlStore) -> list[Rollup]:
    """Return the windows of all turns."""
    return [row for row in store.rollups(app="shop", metric=PROXY) if not row.series.slice]


def counted(store: SqlStore) -> int:
    """Return how many judged turns the trends hold."""
    return sum(row.sums.n for row in rows(store))


def detections(running: Monitor) -> int:
    """Return how often the detector ran."""
    found = re.search(r'(?m)^rag_monitor_tick_duration_seconds_count\{tick="detect"\} (\d+)', running.metrics())
    return int(found[1]) if found else 0


@pytest.mark.parametrize(("horizon", "alerted"), [("7d", True), ("1h", False)])
def test_k08_old_windows(monitor: StartMonitor, tmp_path: Path, *, horizon: str, alerted: bool) -> None:
    """Trends show the backlog when it happened; whether people are woken by it is for the horizon to say."""
    now, url, inbox = datetime.now(UTC), f"sqlite:///{tmp_path / 'monitor.db'}", tmp_path / "inbox"
    inbox.mkdir()
    running = monitor(
        {
            "store": {"url": url},
            "collectors": [
                {"kind": "otlp_http", "port": (http := free_port())},
                {"kind": "file", "path": str(inbox), "every": "200ms"},
            ],
            "detect": {"every": "200ms", "horizon": horizon, "reference": "12h", "min_reference_windows": 8},
            **STAGES,
        },
        http=http,
    )
    store = open_store(url, migrate=False)
    try:
        deliver(inbox, "healthy", lines(now, HEALTHY, answer=SUPPORTED))
        wait_until(lambda: counted(store) == sum(HEALTHY.values()) and store.baselines(), "a baseline", seconds=60)
        written = [*lines(now, BACKLOG, answer=INVENTED), *lines(now, LIVE, answer=SUPPORTED)]
        deliver(inbox, "backlog", written)
        wait_until(lambda: counted(store) == sum(HEALTHY.values()) + len(written), "all to be counted", seconds=60)
        then = [r for r in rows(store) if now - 12 * HOUR < r.start < now - 5 * HOUR]
        assert (sum(BACKLOG.values()),) * 2 == (sum(r.sums.n for r in then), sum(r.sums.k for r in then))
        since = [r for r in rows(store) if r.start >= now - 5 * HOUR]
        assert (sum(LIVE.values()), 0) == (sum(r.sums.n for r in since), sum(r.sums.k for r in since))
        looked = detections(running)
        wait_until(lambda: detections(running) >= looked + 2, "the detector to have seen all", seconds=30)
        alerts = [alert for alert in store.alerts() if not alert.regression.series.slice]
        assert alerted == bool(alerts)
        assert all(now - 12 * HOUR < alert.regression.began_at < now - 5 * HOUR for alert in alerts)
    finally:
        store.close()
