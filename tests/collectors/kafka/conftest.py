"""A scene for each test: a real broker, records on it, and Kafka collectors in front of a real SQLite store."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deadline import wait_until
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka_service import KafkaBroker, TopicFactory
from loop_thread import LoopThread
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.kafka import collector as kafka
from monitor.errors import StoreUnavailable
from monitor.model.spans import Fragment, Span
from monitor.model.turns import Turn
from monitor.payloads.otlp.fragments import decode_otlp
from monitor.payloads.turn_records.fragments import decode_turns
from monitor.runtime.intake import Intake
from monitor.settings.tree import IntakeSettings
from monitor.store.sql_store import SqlStore

if TYPE_CHECKING:
    from collectors.kafka.client_types import Record
    from collectors.kafka.status import KafkaStats
    from monitor.ports import SpanStore

QUICK: Mapping[str, object] = {
    "session_timeout": "1s",
    "max_poll_interval": "20s",
    "request_timeout": "2s",
    "check_every": "250ms",
    "reopen_after": "4s",
}
"""Settings for tests that need not wait: the broker allows sessions of 0.5 s."""

_NEVER = datetime(2100, 1, 1, tzinfo=UTC)


class Running:
    """The collector and the intake in an event loop of their own thread."""

    def __init__(self, config: kafka.Config, through: SpanStore) -> None:
        self._config, self._through = config, through
        self._thread = LoopThread(self._consuming)
        self.start, self.stop, self.ask_to_stop = self._thread.start, self._thread.stop, self._thread.ask_to_stop

    @asynccontextmanager
    async def _consuming(self) -> AsyncIterator[None]:
        async with Intake(self._through, IntakeSettings()) as self.intake:
            self.collector = kafka.build(self._config, self.intake, lambda: datetime.now(UTC))
            async with self.collector:
                yield

    @property
    def stats(self) -> KafkaStats:
        """The collector's numbers."""
        return self.collector.stats()

    @property
    def health(self) -> Mapping[str, str]:
        """The collector's problems."""
        return self.collector.health()

    def await_records(self, count: int, *, seconds: float = 20) -> None:
        """Return when `count` records are dealt with, whatever became of them."""
        wait_until(lambda: sum(self.stats.records.values()) >= count, f"{count} records", seconds=seconds)

    def await_no_lag(self, topic: str, *, seconds: float = 20) -> None:
        """Return when nothing of `topic` is left to read."""
        wait_until(lambda: self.stats.lag.get(topic) == 0, f"no lag of {topic}", seconds=seconds)

    def await_well(self, *, seconds: float = 20) -> None:
        """Return when nothing is wrong."""
        wait_until(lambda: not self.health, "good health", seconds=seconds)


class Switch:
    """Stands before the real store, and can be told to refuse or to wait as a full disk or a lock would."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.reason = ""
        self.gate = threading.Event()
        """Cleared, writes wait."""
        self.gate.set()
        self.waiting = False
        """Whether a write does."""

    def append(self, fragments: Sequence[Fragment]) -> int:
        """Store, or refuse with `reason`."""
        self.waiting = not self.gate.is_set()
        self.gate.wait(30)
        self.waiting = False
        if self.reason:
            raise StoreUnavailable("storing fragments", reason=self.reason)
        return self._store.append(fragments)


@dataclass
class Scene:
    """What a test acts on."""

    broker: KafkaBroker
    topic: TopicFactory
    store: SqlStore
    running: ExitStack = field(default_factory=ExitStack)

    def start(self, topics: object, *, through: SpanStore | None = None, **settings: object) -> Running:
        """Start a collector of `topics`, in a group of its own unless `settings` name another."""
        names = [topics] if isinstance(topics, str) else topics
        group = f"group-{next(iter(names))}"
        tree = {"bootstrap_servers": self.broker.bootstrap, "topics": names, "group_id": group, **QUICK, **settings}
        started = Running(kafka.Config.model_validate(tree), through or self.store)
        self.running.callback(started.stop)
        started.start()
        return started

    def produce(
        self,
        topic: str,
        *values: bytes | None,
        partition: int | None = 0,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        timestamp: datetime | None = None,
        compression: str | None = None,
    ) -> None:
        """Return when the broker has acknowledged `values`."""
        stamp = None if timestamp is None else int(timestamp.timestamp() * 1000)
        with KafkaProducer(
            bootstrap_servers=self.broker.bootstrap,
            acks="all",
            compression_type=compression,
            max_request_size=16_000_000,
        ) as producer:
            for sent in [producer.send(topic, v, key, list(headers), partition, stamp) for v in values]:
                sent.get(timeout=20)

    def committed(self, topic: str, partition: int = 0) -> int | None:
        """Ask the broker for the offset that the collectors of `topic` have committed."""
        with KafkaConsumer(bootstrap_servers=self.broker.bootstrap, group_id=f"group-{topic}") as consumer:
            offset: int | None = consumer.committed(TopicPartition(topic, partition), timeout_ms=10_000)
            return offset

    def await_committed(self, topic: str, *offsets: int) -> None:
        """Return when `offsets` are committed of the first partitions of `topic`."""
        wait_until(
            lambda: [*offsets] == [self.committed(topic, partition) for partition in range(len(offsets))],
            f"{offsets} to be committed",
            seconds=30,
        )

    def consume(self, topic: str, count: int) -> list[Record]:
        """Read the first records of `topic`."""
        with KafkaConsumer(
            bootstrap_servers=self.broker.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000
        ) as consumer:
            consumer.assign([TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)])
            return [record for _, record in zip(range(count), consumer, strict=False)]

    @staticmethod
    def cpu_seconds(pid: int) -> float:
        """Return the time that a process has spent on the processors."""
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def fragments(self) -> list[Fragment]:
        """Return all fragments in the store."""
        traces = self.store.due(quiet_since=_NEVER, open_since=_NEVER, limit=1_000_000)
        stored = self.store.fragments(traces)
        return [row.fragment for trace in traces for row in stored[trace]]

    def spans(self) -> list[Span]:
        """Return the spans in the store; one that was stored twice shows twice."""
        return [span for fragment in self.fragments() for span in decode_otlp(fragment).spans]

    def traces(self) -> list[int]:
        """Return the trace ids of `spans` as numbers, each once, in order."""
        return sorted({int(span.trace_id, 16) for span in self.spans()})

    def times_stored(self) -> Counter[int]:
        """Return how many spans are in the store once, twice, ..."""
        return Counter(Counter((span.trace_id, span.span_id) for span in self.spans()).values())

    def turns(self) -> list[Turn]:
        """Return the turns in the store that came as such."""
        return [turn for part in self.fragments() if part.signal == "turns" for turn in decode_turns(part).turns]


@pytest.fixture
def scene(store: SqlStore, kafka_broker: KafkaBroker, kafka_topic: TopicFactory) -> Iterator[Scene]:
    """The scene; its collectors are stopped at the end."""
    scene = Scene(kafka_broker, kafka_topic, store)
    with scene.running:
        yield scene


@pytest.fixture
def switch(store: SqlStore) -> Iterator[Switch]:
    """The store behind a switch."""
    switch = Switch(store)
    yield switch
    switch.gate.set()


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Reads what the collector has logged at WARNING or above."""
    caplog.set_level(logging.INFO, logger="collectors")
    return lambda: [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("collectors") and record.levelno >= logging.WARNING
    ]


@pytest.fixture(scope="session")
def bodies() -> Callable[[int, int], list[bytes]]:
    """Makes requests of one span each, whose traces are numbered from the first argument on."""

    def make(first: int, count: int) -> list[bytes]:
        requests = []
        for number in range(first, first + count):
            request = ExportTraceServiceRequest()
            span = request.resource_spans.add().scope_spans.add().spans.add()
            span.trace_id, span.span_id, span.name = number.to_bytes(16), number.to_bytes(8), "rag"
            span.start_time_unix_nano, span.end_time_unix_nano = 1_777_888_800_000_000_000, 1_777_888_801_000_000_000
            requests.append(request.SerializeToString())
        return requests

    return make
