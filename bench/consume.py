"""Spans per second made durable from Kafka on a SQLite file, and how an outage of the broker goes by.

The broker is the one that tests start (`make services`); the collector is a process of its own, whose CPU is shown.

    python bench/consume.py --spans 60000 --outage 30
"""

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from _ingest_load import Bodies
from google.protobuf import json_format
from kafka import KafkaProducer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "services"))

from guard import Guard  # noqa: E402 -- found through the path above
from kafka_service import KafkaBroker, find_java, kafka_home  # noqa: E402

SERVE = ROOT / "tests" / "collectors" / "kafka" / "serve_kafka.py"
PARTITIONS = 3
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Shape:
    """What a topic holds, and what the settings say of it."""

    spans: int
    json: bool = False
    compression: str | None = None
    options: Mapping[str, str] | None = None

    def __str__(self) -> str:
        said = "said" if self.options else "auto"
        return f"{self.spans:4} spans, {'json' if self.json else 'proto'}, {self.compression or 'plain'}, {said}"


SHAPES = (
    Shape(3),
    Shape(129),
    Shape(129, options={"encoding": "otlp_proto", "signal": "traces"}),
    Shape(129, compression="zstd"),
    Shape(129, json=True),
    Shape(513),
)


class Collector:
    """A collector in a process, on an empty database."""

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        self._out, self.log = folder / "out", folder / "log"
        command = [sys.executable, str(SERVE), json.dumps(settings), f"sqlite:///{folder / 'bench.db'}"]
        with self._out.open("w") as out, self.log.open("w") as log:
            self._process = subprocess.Popen(command, stdout=out, stderr=log)

    @property
    def last(self) -> Mapping[str, object]:
        """The numbers it printed last."""
        lines = [line for line in self._out.read_text().splitlines() if line.endswith("}")]
        return json.loads(lines[-1]) if lines else {"records": {}, "health": {"": ""}}

    def await_records(self, count: int) -> float:
        """Return how long the records took from the first on."""
        began = 0.0
        while (done := sum(self.last["records"].values())) < count:
            began = began or (time.monotonic() if done else 0.0)
            time.sleep(0.01)
        return time.monotonic() - began

    def cpu(self) -> float:
        """Return the CPU seconds it has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def stop(self) -> None:
        """Return when it has ended."""
        self._process.terminate()
        self._process.wait(30)


def bodies(shape: Shape, spans: int) -> Iterator[bytes]:
    """Yield export requests of `spans` spans in all."""
    made = Bodies(shape.spans, compress=False)
    for _ in range(spans // made.spans):
        body = made.next()
        yield as_json(body) if shape.json else body


def as_json(body: bytes) -> bytes:
    """Return a request as OTLP/JSON, whose ids are hexadecimal."""
    tree = json_format.MessageToDict(ExportTraceServiceRequest.FromString(body))
    for resource in tree["resourceSpans"]:
        for span in (span for scope in resource["scopeSpans"] for span in scope["spans"]):
            for key in ("traceId", "spanId", "parentSpanId"):
                span[key] = base64.b64decode(span.get(key, "")).hex()
    return json.dumps(tree).encode()


def produce(broker: KafkaBroker, topic: str, shape: Shape, spans: int) -> int:
    """Return how many records were acknowledged."""
    with KafkaProducer(
        bootstrap_servers=broker.bootstrap,
        acks="all",
        compression_type=shape.compression,
        linger_ms=20,
        batch_size=256 * 1024,
        max_request_size=8_000_000,
    ) as producer:
        sent = [
            producer.send(topic, body, partition=number % PARTITIONS)
            for number, body in enumerate(bodies(shape, spans))
        ]
        for one in sent:
            one.get(timeout=60)
    return len(sent)


@contextmanager
def collecting(broker: KafkaBroker, topic: str, options: Mapping[str, str] | None) -> Iterator[Collector]:
    """Yield a collector of `topic` with default settings."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"bootstrap_servers": broker.bootstrap, "topics": {topic: options}, "group_id": topic}
        collector = Collector(Path(folder), settings)
        try:
            yield collector
        finally:
            collector.stop()


def measure(broker: KafkaBroker, number: int, shape: Shape, spans: int) -> None:
    """Print the figures of one shape."""
    topic = f"shape-{number}"
    broker.create_topic(topic, partitions=PARTITIONS, configuration={"max.message.bytes": "8000000"})
    records = produce(broker, topic, shape, spans)
    with collecting(broker, topic, shape.options) as collector:
        collector.await_records(1)
        cpu = collector.cpu()
        seconds = collector.await_records(records)
        mebibytes = collector.last["record_bytes"] / 1024 / 1024
        used = collector.cpu() - cpu
    print(
        f"{shape}: {spans / seconds:8,.0f} spans/s, {mebibytes / seconds:5.1f} MiB/s, {used / spans * 1e6:4.0f} us/span"
    )


def outage(broker: KafkaBroker, seconds: float) -> None:
    """Print how the broker's absence went by."""
    broker.create_topic("outage", partitions=PARTITIONS, configuration={})
    produce(broker, "outage", Shape(3), 300)
    with collecting(broker, "outage", None) as collector:
        collector.await_records(100)
        broker.stop()
        cpu = collector.cpu()
        time.sleep(seconds)
        used, told = collector.cpu() - cpu, collector.last["health"]
        broker.start()
        produce(broker, "outage", Shape(3), 300)
        began = time.monotonic()
        collector.await_records(200)
        print(
            f"broker away for {seconds:g} s: {used / seconds:.1%} of a processor, "
            f"{len(collector.log.read_text().splitlines())} log lines, read on {time.monotonic() - began:.1f} s after;"
            f" health said {told}"
        )


def main() -> None:
    """Run all shapes, then the outage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, default=30_000, help="per shape (default: %(default)s)")
    parser.add_argument("--outage", type=float, default=10, help="seconds without a broker (default: %(default)s)")
    arguments = parser.parse_args()
    java, home = find_java(), kafka_home()
    if java is None or not any(home.glob("libs/kafka_2.13-*.jar")):
        print(f"skipped: needs Java 17 and Apache Kafka in {home}/libs (run `make services`)")
        return
    guard = Guard()
    try:
        broker = KafkaBroker(java, home, guard)
        for number, shape in enumerate(SHAPES):
            measure(broker, number, shape, arguments.spans)
        outage(broker, arguments.outage)
    finally:
        guard.close()


if __name__ == "__main__":
    main()
