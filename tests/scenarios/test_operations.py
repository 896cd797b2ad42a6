"""What docs/operations.md says of the metrics, held against the page of a running monitor."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from deadline import wait_until
from loopback import free_port
from prometheus_client.parser import text_string_to_metric_families

from monitor.runtime.collector_metrics import METRICS
from monitor.stages.publish import GAUGES
from monitor.stages.score import BUDGET_GAUGES, COUNTERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scenarios.conftest import StartMonitor

DOCUMENT = Path(__file__).parents[2] / "docs" / "operations.md"
PREFIX = "rag_monitor_"
HISTOGRAM_LABELS = {"le"}


def documented() -> dict[str, tuple[str, frozenset[str]]]:
    """Return type and labels of every metric in the document's tables, by name without the prefix."""
    found: dict[str, tuple[str, frozenset[str]]] = {}
    before: frozenset[str] = frozenset()
    for line in DOCUMENT.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 4 or cells[1] not in {"counter", "gauge", "histogram"}:
            continue
        labels = frozenset(filter(None, cells[2].split(", ")))
        if "as above" in labels:
            labels = labels - {"as above"} | before
        for name in re.findall(r"`(\w+)`", cells[0]):
            found[name] = (cells[1], labels)
        if "as above" not in cells[2]:
            before = labels
    return found


def test_every_metric_is_documented(monitor: StartMonitor, make_turns: Callable[..., bytes], tmp_path: Path) -> None:
    """Each metric of a monitor that receives, refuses and scores is in the document, with its type and labels."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "chats.jsonl").write_text('{"question": "a", "context": "b", "answer": "c"}\nnonsense\n')
    port = free_port()
    running = monitor(
        {
            "assemble": {"quiet": "200ms"},
            "rollup": {"every": "1s", "lateness": "0s", "window": "5m"},
            "collectors": [
                {"kind": "otlp_http", "port": port},
                {"kind": "kafka", "bootstrap_servers": f"127.0.0.1:{free_port()}"},
                {"kind": "file", "path": str(tmp_path / "in")},
            ],
        },
        http=port,
    )
    assert [200, 400] == [running.post(body).status for body in (make_turns(3), b"nonsense")]
    assert 200 == running.ask(port, "POST", "/v1/metrics", b"", {"Content-Type": "application/json"}).status
    wait_until(
        lambda: 'jobs_finished_total{metric="groundedness_proxy",outcome="scored"} 4' in running.metrics(),
        "the turns to be scored",
        seconds=30,
    )
    said = documented()
    families = [one for one in text_string_to_metric_families(running.metrics()) if one.name.startswith(PREFIX)]
    assert len(families) > 20
    for family in families:
        name = family.name.removeprefix(PREFIX) + ("_total" if family.type == "counter" else "")
        labels = {label for sample in family.samples for label in sample.labels} - HISTOGRAM_LABELS
        assert (family.type, labels) == said.get(name), name


def test_every_documented_metric_exists() -> None:
    """The document names no metric that nothing exports."""
    counted = {metric.name + ("_total" if metric.counter else "") for metric in METRICS.values()}
    always = {
        *("received_total", "info", "waiting", "waiting_seconds", "problem"),
        *(f"intake_{name}" for name in ("pending_bytes", "commit_duration_seconds")),
        *(f"intake_{name}_total" for name in ("fragments", "refused", "failed")),
        *(f"tick_{name}" for name in ("duration_seconds", "rows_total", "failed_total", "skipped_total")),
        "plugin_failed_total",
        "unscheduled_seconds",
        "retention_overdue_seconds",
        *("names", "names_refused"),
        "web_clients_refused_total",
        *("notifications_undelivered", "notifications_undelivered_seconds"),
        *("annotations_missing", "annotations_missing_seconds"),
    }
    assert counted | always | set(COUNTERS) | set(BUDGET_GAUGES) | set(GAUGES) == set(documented())
