"""What collectors tell of themselves in the log and on the metrics page of a running monitor."""

from __future__ import annotations

import gzip
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from deadline import wait_until
from loopback import free_port
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.scenarios.conftest import Monitor, StartMonitor

TURN = '{"question": "What is the fee?", "context": "The fee is 12 euros.", "answer": "12 euros."}\n'


def numbers(running: Monitor, collector: str) -> Mapping[tuple[str, str], float]:
    """Return what is exported of a collector, by metric and its other label's value."""
    return {
        (
            sample.name.removeprefix("rag_monitor_"),
            next((v for k, v in sample.labels.items() if k != "collector"), ""),
        ): (sample.value)
        for family in text_string_to_metric_families(running.metrics())
        for sample in family.samples
        if sample.labels.get("collector") == collector
    }


def test_what_the_file_collector_counts(monitor: StartMonitor, tmp_path: Path) -> None:
    """Files seen and deleted, turns kept and lines left out by reason are on the metrics page."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "good.jsonl").write_text(3 * TURN)
    (folder / "bad.jsonl").write_text(f"nonsense\n{TURN}[1]\n")
    (folder / "packed.jsonl.gz").write_bytes(gzip.compress(TURN.encode()))
    http = free_port()
    running = monitor(
        {"collectors": [{"kind": "otlp_http", "port": http}, {"kind": "file", "path": str(folder), "name": "drop"}]},
        http=http,
    )
    wait_until(lambda: numbers(running, "drop").get(("records_stored_total", "turns")) == 5, "five turns", seconds=30)
    found = numbers(running, "drop")
    assert 1 == found["records_rejected_total", "not_json"]
    assert 2 == sum(count for (name, _), count in found.items() if name == "records_rejected_total")
    assert (3, 0, 0) == (found["files", ""], found["files_deleted_total", ""], found["batches_refused_total", ""])


@pytest.fixture
def broker() -> Iterator[int]:
    """The port of a broker that hangs up on everybody, on which kafka-python has much to say."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:

        def hang_up() -> None:
            with suppress(OSError):
                while True:
                    listener.accept()[0].close()

        pool.submit(hang_up)
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def test_broker_that_hangs_up(monitor: StartMonitor, broker: int) -> None:
    """A broker in trouble is told once however often it is tried, in our words, and no password is in the log."""
    http = free_port()
    kafka = {
        "kind": "kafka",
        "bootstrap_servers": f"127.0.0.1:{broker}",
        "sasl": {"mechanism": "PLAIN", "username": "reader", "password": "s3cr3t-word"},
        "request_timeout": "1s",
        "check_every": "500ms",
        "reopen_after": "1s",
    }
    running = monitor({"collectors": [{"kind": "otlp_http", "port": http}, kafka]}, http=http)

    def tries() -> float:
        return sum(count for (name, _), count in numbers(running, "kafka").items() if name == "consumers_failed_total")

    wait_until(lambda: tries() >= 3, "three tries at the broker", seconds=60)
    log = running.log.read_text()
    warnings = [line for line in log.splitlines() if " WARNING " in line or " ERROR " in line]
    assert 1 == len(warnings), log
    assert "collectors.kafka.status: kafka: broker: " in warnings[0]
    assert "s3cr3t-word" not in log
    assert "Traceback" not in log
