"""Collectors of others between apps and a real monitor: what the app exported is in the store, once."""

from __future__ import annotations

import logging
import signal
from typing import TYPE_CHECKING

import pytest
from deadline import wait_until
from loopback import free_port
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

if TYPE_CHECKING:
    from collections.abc import Callable

    from front import Front, StartFront
    from kafka_service import KafkaBroker, TopicFactory

    from tests.scenarios.conftest import Monitor, StartMonitor

    StoredSpans = Callable[[str], dict[tuple[str, str], int]]

TURNS = 50


@pytest.fixture(autouse=True)
def _quiet_exporter(caplog: pytest.LogCaptureFixture) -> None:
    """The exporter complains while a collector starts."""
    caplog.set_level(logging.CRITICAL, logger="opentelemetry")


def chat(front: Front, turns: int = TURNS) -> set[tuple[str, str]]:
    """Trace an app's turns through the collector in front; return the ids of all spans, once it has taken them."""
    kept = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "helpdesk"}), shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"http://127.0.0.1:{front.port}", insecure=True)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_export_batch_size=37))
    provider.add_span_processor(BatchSpanProcessor(kept))
    tracer = provider.get_tracer("demo.rag")
    for number in range(turns):
        with tracer.start_as_current_span("rag") as root:
            root.set_attributes({"input.value": f"What is the fee of account {number}?", "nul": "a\0b"})
            with tracer.start_as_current_span("chat") as call:
                call.set_attribute("llm.token_count.prompt", 812)
    assert provider.force_flush()
    provider.shutdown()
    return {(f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}") for span in kept.get_finished_spans()}


def arrived(running: Monitor, spans: int) -> None:
    """Return when so many spans are durable."""
    line = 'rag_monitor_received_total{signal="traces"} '
    wait_until(
        lambda: any(
            found.startswith(line) and float(found.removeprefix(line)) >= spans
            for found in running.metrics().splitlines()
        ),
        f"{spans} spans to arrive",
        seconds=60,
    )


def store_of(running: Monitor) -> str:
    """Return the URL of its store."""
    return f"sqlite:///{running.log.with_name('rag-monitor.db')}"


@pytest.mark.parametrize(
    ("name", "transport", "options"),
    [
        ("rotel", "http", {}),
        ("rotel", "grpc", {}),
        ("otelcol", "http", {}),
        ("otelcol", "http", {"encoding": "json", "compression": "zstd"}),
        ("otelcol", "http", {"compression": "deflate"}),
        ("otelcol", "grpc", {}),
    ],
)
def test_otlp(  # noqa: PLR0917 -- pytest passes them by name
    monitor: StartMonitor,
    front: StartFront,
    stored_spans: StoredSpans,
    name: str,
    transport: str,
    options: dict[str, str],
) -> None:
    """Over HTTP and gRPC, in either encoding, as the collector compresses."""
    running = monitor()
    port = running.http if transport == "http" else running.grpc
    sent = chat(front(name, {transport: f"127.0.0.1:{port}", **options}))
    arrived(running, 2 * TURNS)
    assert dict.fromkeys(sent, 1) == stored_spans(store_of(running))


@pytest.mark.parametrize("transport", ["http", "grpc"])
@pytest.mark.parametrize("name", ["rotel", "otelcol"])
def test_monitor_that_is_killed(
    monitor: StartMonitor, front: StartFront, stored_spans: StoredSpans, name: str, transport: str
) -> None:
    """A collector keeps what the monitor, killed and started again, did not acknowledge; nothing is lost or doubled."""
    running = monitor()
    port = running.http if transport == "http" else running.grpc
    collector = front(name, {transport: f"127.0.0.1:{port}"})
    sent = chat(collector)
    arrived(running, 2 * TURNS)
    running.stop(signal.SIGKILL)
    sent |= chat(collector)
    running.start()
    sent |= chat(collector)
    arrived(running, 4 * TURNS)
    assert dict.fromkeys(sent, 1) == stored_spans(store_of(running))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rotel", {"format": "protobuf"}),
        ("rotel", {"format": "json"}),
        ("otelcol", {"format": "otlp_proto"}),
        ("otelcol", {"format": "otlp_json"}),
        ("otelcol", {"format": "otlp_proto", "partition_traces_by_id": "true", "compression": "gzip"}),
    ],
)
def test_kafka(  # noqa: PLR0917 -- pytest passes them by name
    monitor: StartMonitor,
    front: StartFront,
    kafka_broker: KafkaBroker,
    kafka_topic: TopicFactory,
    stored_spans: StoredSpans,
    name: str,
    options: dict[str, str],
) -> None:
    """Through a topic of three partitions, in each format that the collector's Kafka exporter writes."""
    topic = kafka_topic(3)
    running = monitor(
        {
            "collectors": [
                {"kind": "otlp_http", "port": (port := free_port())},
                {"kind": "kafka", "bootstrap_servers": kafka_broker.bootstrap, "topics": [topic], "group_id": topic},
            ]
        },
        http=port,
    )
    sent = chat(front(name, {"kafka": kafka_broker.bootstrap, "topic": topic, **options}))
    arrived(running, 2 * TURNS)
    assert dict.fromkeys(sent, 1) == stored_spans(store_of(running))
