"""Several monitors in processes of their own share a group and a store, whatever happens to them and the broker."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deadline import wait_until
from kafka import KafkaProducer
from kafka_service import KafkaBroker

from monitor.payloads.otlp.fragments import decode_otlp
from monitor.store.sql_store import open_store

if TYPE_CHECKING:
    import subprocess

    from guard import Guard

    from tests.collectors.kafka.conftest import Scene
    from tests.services.otlp_service import MakeRequest

PARTITIONS = 3
SPANS_PER_RECORD = 3
# RAG_MONITOR_KAFKA_LOAD multiplies the load, for longer runs by hand.
LONG = "RAG_MONITOR_KAFKA_LOAD" in os.environ
SCALE = int(os.environ.get("RAG_MONITOR_KAFKA_LOAD", "1"))


class Member:
    """A monitor in a process."""

    def __init__(self, guard: Guard, folder: Path, database: str, settings: Mapping[str, object], name: str) -> None:
        self._guard = guard
        self._log = folder / f"{name}.log"
        script = Path(__file__).with_name("serve_kafka.py")
        command = [sys.executable, script, json.dumps(settings), database]
        self.process: subprocess.Popen[bytes] = guard.start(
            command, folder=folder, log=self._log, environment=dict(os.environ)
        )

    @property
    def last(self) -> Mapping[str, object]:
        """The numbers it printed last."""
        lines = [line for line in self._log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
        return json.loads(lines[-1]) if lines else {}

    def end(self, how: signal.Signals) -> None:
        """Return when it has ended."""
        self._guard.stop(self.process, how)


class Load:
    """Sends records, one after the other over all partitions, until it has sent them all."""

    def __init__(
        self, broker: KafkaBroker, topic: str, make_request: MakeRequest, *, records: int, rate: float
    ) -> None:
        self.sent = 0
        self._arguments = broker, topic, make_request, records, rate
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def await_sent(self, count: int) -> None:
        """Return when `count` records are on their way."""
        wait_until(lambda: self.sent >= count, f"{count} records to be sent", seconds=60)

    def finish(self) -> None:
        """Return when all are acknowledged."""
        self._thread.join(90)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        broker, topic, make_request, records, rate = self._arguments
        with KafkaProducer(
            bootstrap_servers=broker.bootstrap, acks="all", request_timeout_ms=3000, reconnect_backoff_max_ms=500
        ) as producer:
            began, futures = time.monotonic(), []
            pace = threading.Event()
            for number in range(records):
                body = make_request(1, first=number + 1).SerializeToString()
                futures.append(producer.send(topic, body, partition=number % PARTITIONS))
                self.sent += 1
                pace.wait(max(0.0, began + number / rate - time.monotonic()))
            for future in futures:
                future.get(timeout=60)


def times_stored(database: str) -> Counter[int]:
    """Return how many spans are in the database once, twice, ..."""
    never = datetime(2100, 1, 1, tzinfo=UTC)
    with closing(open_store(database)) as store:
        traces = store.due(quiet_since=never, open_since=never, limit=1_000_000)
        stored = store.fragments(traces)
    spans = [span for trace in traces for row in stored[trace] for span in decode_otlp(row.fragment).spans]
    return Counter(Counter((span.trace_id, span.span_id) for span in spans).values())


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database with the schema in it."""
    sqlite = request.param == "sqlite"
    url: str = f"sqlite:///{tmp_path / 'shared.db'}" if sqlite else request.getfixturevalue("postgres_url")
    open_store(url).close()
    return url


@pytest.fixture
def join(guard: Guard, tmp_path: Path, kafka_broker: KafkaBroker) -> Iterator[Callable[[str, str], Member]]:
    """Starts members of a topic's group on a database."""
    members: list[Member] = []

    def start(topic: str, url: str) -> Member:
        settings = {
            "bootstrap_servers": kafka_broker.bootstrap,
            "topics": [topic],
            "group_id": f"group-{topic}",
            "session_timeout": "2s",
            "request_timeout": "2s",
            "check_every": "500ms",
            "reopen_after": "20s",
            "max_records": 20,
        }
        members.append(Member(guard, tmp_path, url, settings, f"member-{len(members)}"))
        return members[-1]

    yield start
    for member in members:
        member.end(signal.SIGTERM)


def await_partitions(*members: Member) -> None:
    """Return when the members have all partitions between them."""
    wait_until(
        lambda: sum(member.last.get("partitions", 0) for member in members) == PARTITIONS, "all partitions", seconds=30
    )


@pytest.mark.parametrize("database", ["postgresql", "sqlite"] if LONG else ["postgresql"], indirect=True)
def test_everything_at_once(
    scene: Scene, database: str, join: Callable[[str, str], Member], make_request: MakeRequest
) -> None:
    """Members join, leave and are killed, the broker is killed and frozen, all under load: each span is stored once."""
    topic, records = scene.topic(PARTITIONS), 900 * SCALE
    first, second = join(topic, database), join(topic, database)
    await_partitions(first, second)
    load = Load(scene.broker, topic, make_request, records=records, rate=150)
    load.await_sent(records // 8)
    third = join(topic, database)
    wait_until(lambda: third.last.get("partitions") == 1, "the third member", seconds=30)
    scene.broker.kill()
    scene.broker.start()
    await_partitions(first, second, third)
    load.await_sent(records // 2)
    first.end(signal.SIGKILL)
    await_partitions(second, third)
    scene.broker.freeze()
    spent, began = scene.cpu_seconds(second.process.pid), time.monotonic()
    wait_until(lambda: time.monotonic() - began > 3, "the session to pass", seconds=10)
    used = scene.cpu_seconds(second.process.pid) - spent
    scene.broker.thaw()
    third.end(signal.SIGTERM)
    load.finish()
    scene.await_committed(topic, *[records // PARTITIONS] * PARTITIONS)
    wait_until(lambda: second.last["lag"] == {topic: 0}, "no lag", seconds=20)
    wait_until(lambda: second.last["health"] == {}, "good health", seconds=20)
    assert {1: records * SPANS_PER_RECORD} == times_stored(database)
    assert used < 0.75, f"{used} s of processor time in 3 s of silence"
