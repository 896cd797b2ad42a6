"""The exporters that apps really use, against both collectors and a real store."""

from __future__ import annotations

import base64
import json
import logging
import time
from typing import TYPE_CHECKING

import grpc
import pytest
from deadline import wait_until
from google.protobuf.json_format import MessageToDict
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import LogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, Status, StatusCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.services.otlp_service import Running, Serve, Switch

RESOURCE = Resource({"service.name": "helpdesk", "service.version": "1.4.2"})


def _span_exporter(running: Running, kind: str) -> SpanExporter:
    host, port = running.http.address
    url = f"http://{host}:{port}/v1/traces"
    match kind:
        case "http":
            return HttpSpanExporter(endpoint=url, compression=Compression.NoCompression)
        case "http gzip":
            return HttpSpanExporter(endpoint=url, compression=Compression.Gzip)
        case "http deflate":
            return HttpSpanExporter(endpoint=url, compression=Compression.Deflate)
        case _:
            host, port = running.grpc.address
            compression = grpc.Compression.Gzip if kind == "grpc gzip" else None
            return GrpcSpanExporter(endpoint=f"http://{host}:{port}", insecure=True, compression=compression)


def _tell(provider: TracerProvider, turns: int) -> None:
    tracer = provider.get_tracer("demo.rag", "1.0")
    for number in range(turns):
        with tracer.start_as_current_span("rag", kind=SpanKind.SERVER) as root:
            root.set_attributes({"session.id": f"c-{number}", "input.value": "What is the fee?"})
            with tracer.start_as_current_span("chat") as chat:
                chat.set_attribute("llm.token_count.prompt", 812)
                chat.set_attribute("tags", ("a", "b"))
                chat.add_event("first_token", {"index": 0})
                chat.set_status(Status(StatusCode.ERROR, "late"))


@pytest.mark.parametrize("kind", ["http", "http gzip", "http deflate", "grpc", "grpc gzip"])
def test_spans(running: Running, kind: str) -> None:
    """What OpenTelemetry's exporters send is in the store as the app recorded it."""
    exported = InMemorySpanExporter()
    provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_span_exporter(running, kind)))
    provider.add_span_processor(BatchSpanProcessor(exported))
    _tell(provider, 20)
    provider.shutdown()

    expected = {
        (f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"): span
        for span in exported.get_finished_spans()
    }
    received = {(span.trace_id, span.span_id): span for span in running.spans()}
    assert 40 == len(received) == len(running.spans())
    assert expected.keys() == received.keys()
    for key, span in expected.items():
        assert dict(span.attributes or {}) == received[key].attributes
        assert (span.name, span.start_time, span.end_time) == (
            received[key].name,
            received[key].start_ns,
            received[key].end_ns,
        )
        assert (f"{span.parent.span_id:016x}" if span.parent else None) == received[key].parent_id
        assert span.status.status_code.value == received[key].status
        assert dict(span.resource.attributes) == received[key].resource
        assert [(event.name, event.timestamp) for event in span.events] == [
            (event.name, event.time_ns) for event in received[key].events
        ]


@pytest.mark.parametrize("kind", ["http", "grpc"])
def test_log_records(running: Running, kind: str) -> None:
    """Log records within a span are in the store with their body; those outside are not, and nobody complains."""
    exporter: LogRecordExporter
    if kind == "http":
        host, port = running.http.address
        exporter = HttpLogExporter(endpoint=f"http://{host}:{port}/v1/logs")
    else:
        host, port = running.grpc.address
        exporter = GrpcLogExporter(endpoint=f"http://{host}:{port}", insecure=True)
    provider = LoggerProvider(resource=RESOURCE, shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = provider.get_logger("openai")
    body = {"role": "assistant", "content": "12 euros", "parts": ["a", 1]}
    with TracerProvider(shutdown_on_exit=False).get_tracer("t").start_as_current_span("chat") as span:
        logger.emit(LogRecord(timestamp=time.time_ns(), event_name="gen_ai.choice", body=body))
        context = span.get_span_context()
    logger.emit(LogRecord(timestamp=time.time_ns(), severity_number=SeverityNumber.INFO, body="started"))
    provider.shutdown()

    (log,) = running.logs()
    assert (f"{context.trace_id:032x}", f"{context.span_id:016x}") == (log.trace_id, log.span_id)
    assert ("gen_ai.choice", {"role": "assistant", "content": "12 euros", "parts": ("a", 1)}) == (
        log.event.name,
        log.event.body,
    )


def test_json_of_a_javascript_app(running: Running) -> None:
    """The JSON that OpenTelemetry for JavaScript writes of the same spans reads as their protobuf does."""
    exported = InMemorySpanExporter()
    provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exported))
    _tell(provider, 2)
    provider.shutdown()
    request = MessageToDict(encode_spans(exported.get_finished_spans()), use_integers_for_enums=True)
    for span in request["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in {"traceId", "spanId", "parentSpanId"} & span.keys():
            span[name] = base64.b64decode(span[name]).hex()
        for attribute in span["attributes"]:
            if "intValue" in attribute["value"]:
                attribute["value"]["intValue"] = int(attribute["value"]["intValue"])
    assert 200 == running.post(json.dumps(request).encode(), content_type="application/json").status
    from_json = running.spans()
    assert 4 == len(from_json)
    assert 200 == running.post(encode_spans(exported.get_finished_spans()).SerializeToString()).status
    from_both = running.spans()
    assert 8 == len(from_both)
    for span in from_json:
        assert 2 == from_both.count(span)


@pytest.mark.parametrize("kind", ["http gzip", "grpc"])
def test_exporter_comes_back(serve: Serve, switch: Switch, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """An exporter that was refused comes back when it was told to, and its spans are stored once."""
    caplog.set_level(logging.CRITICAL, logger="opentelemetry")
    running = serve(through=switch)
    switch.reason = "locked"
    provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_span_exporter(running, kind), schedule_delay_millis=10))
    _tell(provider, 1)
    refused: Callable[[], object] = lambda: running.intake.stats().failed_batches  # noqa: E731
    wait_until(refused, "the first attempt to be refused", seconds=10)
    switch.reason = ""
    wait_until(lambda: running.intake.stats().spans, "the exporter to come back", seconds=20)
    provider.shutdown()
    assert ["chat", "rag"] == sorted(span.name for span in running.spans())
