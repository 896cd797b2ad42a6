"""The exporters for an app's own SDK: what a live monitor gets, and what an app feels of one that is not."""

from __future__ import annotations

import http.server
import logging
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Self

import pytest
from deadline import wait_until
from loopback import free_port
from opentelemetry._logs import LogRecord
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Status, StatusCode

from monitor.errors import ConfigError
from monitor.exporter.exporters import RagMonitorLogExporter, RagMonitorSpanExporter
from monitor.model.spans import Span
from monitor.payloads.otlp.fragments import decode_otlp, split_otlp
from monitor.store.sql_store import SqlStore, open_store

if TYPE_CHECKING:
    from tests.services.otlp_service import Running, Serve

QUICK = timedelta(milliseconds=20)
UNBOUNDED = 30
"""Seconds that no bounded wait of these tests takes, on whatever machine; an unbounded one takes 60."""

Exporting = Callable[..., RagMonitorSpanExporter]
Spans = Callable[[int], list[ReadableSpan]]


def spans_in(store: SqlStore) -> list[Span]:
    """Return all spans in the store; one that was stored twice shows twice."""
    future = datetime(2100, 1, 1, tzinfo=UTC)
    stored = store.fragments(store.due(quiet_since=future, open_since=future, limit=1_000_000))
    return [span for rows in stored.values() for row in rows for span in decode_otlp(row.fragment).spans]


class App:
    """An app that answers questions, each in a trace of three spans."""

    def __init__(self, processor: SpanProcessor) -> None:
        self.provider = TracerProvider(resource=Resource({"service.name": "toy"}), shutdown_on_exit=False)
        self.provider.add_span_processor(processor)
        self._tracer = self.provider.get_tracer("toy")

    def answer(self, questions: int, text: str = "What is the fee?") -> None:
        """Answer."""
        for number in range(questions):
            with (
                self._tracer.start_as_current_span("rag", attributes={"input.value": text, "number": number}),
                self._tracer.start_as_current_span("retrieve"),
                self._tracer.start_as_current_span("chat"),
            ):
                pass


@pytest.fixture
def exporting() -> Iterator[Callable[..., RagMonitorSpanExporter]]:
    """Makes exporters, which are shut down after the test."""
    with ExitStack() as exporters:

        def make(**arguments: object) -> RagMonitorSpanExporter:
            exporter = RagMonitorSpanExporter(**{"linger": QUICK, "shutdown_timeout": QUICK, **arguments})  # type: ignore[arg-type]
            exporters.callback(exporter.shutdown)
            return exporter

        yield make


@pytest.fixture
def spans() -> Callable[[int], list[ReadableSpan]]:
    """Makes finished spans, as an SDK hands them to an exporter."""

    class Keeping(SpanExporter):
        def __init__(self) -> None:
            self.spans: list[ReadableSpan] = []

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            self.spans += spans
            return SpanExportResult.SUCCESS

    def make(count: int) -> list[ReadableSpan]:
        keeping = Keeping()
        tracer = App(SimpleSpanProcessor(keeping)).provider.get_tracer("toy")
        for number in range(count):
            tracer.start_span(f"span {number}").end()
        return keeping.spans

    return make


class Answering:
    """An HTTP server that answers requests with the given answers, one each; the last one again and again."""

    def __init__(self, answers: Sequence[tuple[int, Mapping[str, str], bytes]]) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[Mapping[str, str]] = []
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                server.headers.append(dict(self.headers))
                server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                status, headers, body = answers[min(len(server.bodies), len(answers)) - 1]
                if not status:
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def hanging() -> Iterator[str]:
    """Accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds SQLite's write lock."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


def url_of(running: Running) -> str:
    """Return the address of a running monitor's OTLP/HTTP collector."""
    host, port = running.http.address
    return f"http://{host}:{port}"


# A live monitor


@pytest.mark.parametrize("processor", [SimpleSpanProcessor, BatchSpanProcessor])
def test_all_arrives_once(
    running: Running, exporting: Exporting, processor: Callable[[SpanExporter], SpanProcessor]
) -> None:
    """What an app traces is in the monitor's store once, whichever processor the app uses."""
    exporter = exporting(endpoint=url_of(running), shutdown_timeout=timedelta(seconds=20))
    app = App(processor(exporter))
    app.answer(400)
    app.provider.shutdown()
    received = running.spans()
    assert 1200 == len(received) == len({(span.trace_id, span.span_id) for span in received})
    assert {"toy"} == {span.resource["service.name"] for span in received}
    assert list(range(400)) == sorted(span.attributes["number"] for span in received if "number" in span.attributes)
    assert (1200, {}, 0) == (exporter.stats().delivered, exporter.stats().dropped, exporter.stats().waiting)


@pytest.mark.parametrize("processor", [SimpleLogRecordProcessor, BatchLogRecordProcessor])
def test_log_records_of_traces_arrive(running: Running, processor: Callable[..., object]) -> None:
    """Log records inside a trace arrive with it; those outside of any are counted and not sent."""
    exporter = RagMonitorLogExporter(endpoint=url_of(running), linger=QUICK, shutdown_timeout=timedelta(seconds=20))
    provider = LoggerProvider(resource=Resource({"service.name": "toy"}), shutdown_on_exit=False)
    provider.add_log_record_processor(processor(exporter))  # type: ignore[arg-type]
    logger, tracer = provider.get_logger("toy"), TracerProvider(shutdown_on_exit=False).get_tracer("toy")
    logger.emit(LogRecord(body="outside"))
    with tracer.start_as_current_span("rag") as span:
        logger.emit(LogRecord(body={"role": "user", "content": "inside"}, event_name="gen_ai.user.message"))
    provider.shutdown()
    (record,) = running.logs()
    assert f"{span.get_span_context().span_id:016x}" == record.span_id
    assert {"role": "user", "content": "inside"} == record.event.body
    assert (1, 1, 0) == (exporter.stats().delivered, exporter.stats().ignored, exporter.dropped)


def test_store_gets_what_an_endpoint_would(exporting: Exporting, store: SqlStore, store_path: Path) -> None:
    """With the monitor's database instead of its address, spans are in it once."""
    exporter = exporting(store=f"sqlite:///{store_path}")
    app = App(SimpleSpanProcessor(exporter))
    app.answer(400)
    assert exporter.force_flush()
    received = spans_in(store)
    assert 1200 == len(received) == len({(span.trace_id, span.span_id) for span in received})
    assert 1200 == exporter.stats().delivered


def test_postgresql_store(exporting: Exporting, postgres_url: str) -> None:
    """The database may be PostgreSQL."""
    store = open_store(postgres_url)
    try:
        exporter = exporting(store=postgres_url)
        App(SimpleSpanProcessor(exporter)).answer(10)
        assert exporter.force_flush()
        assert 30 == len(spans_in(store))
        exporter.shutdown()
    finally:
        store.close()


def test_headers_and_path(exporting: Exporting, spans: Spans) -> None:
    """Headers go with every request, and the path is the one that OTLP gives the signal."""
    with Answering([(200, {}, b"")]) as server:
        exporter = exporting(endpoint=f"{server.endpoint}/otel/", headers={"Authorization": "Bearer t"})
        exporter.export(spans(1))
        assert exporter.force_flush(10_000)
    assert ("Bearer t", "application/x-protobuf") == tuple(
        server.headers[0][name] for name in ("Authorization", "Content-Type")
    )


def test_span_that_cannot_be_encoded_costs_only_itself(running: Running, exporting: Exporting) -> None:
    """Half a surrogate pair in a name loses that span, counted, and none beside it."""
    exporter = exporting(endpoint=url_of(running))
    tracer = App(SimpleSpanProcessor(exporter)).provider.get_tracer("toy")
    for number in range(20):
        span = tracer.start_span("good")
        if number == 7:
            span._start_time = "noon"  # noqa: SLF001 -- what nobody can encode
        span.end()
    assert not exporter.force_flush()
    assert (19, {"unencodable": 1}, 0) == (
        exporter.stats().delivered,
        exporter.stats().dropped,
        exporter.stats().waiting,
    )
    assert 19 == len(running.spans())


_ODD = {
    "text": "half \ud83d of it",
    "key \udc00": "kept",
    "number": 2**70,
    "list": ["whole", "half \ud83d"],
    "good": "as it is",
}


def test_values_that_otlp_cannot_hold(exporting: Exporting, running: Running, caplog: pytest.LogCaptureFixture) -> None:
    """They are replaced, counted and told; the rest of the span, and its neighbours, are as they were."""
    exporter = exporting(endpoint=url_of(running))
    resource = Resource({"service.name": "shop \ud83d", "service.version": "1"})
    tracer = TracerProvider(resource=resource, span_limits=SpanLimits(max_span_attributes=5))
    tracer.add_span_processor(SimpleSpanProcessor(exporter))
    toy = tracer.get_tracer("toy")
    span = toy.start_span("name \ud83d", attributes={"dropped": 1, **_ODD})
    span.add_event("event \ud83d", {"text": "half \ud83d"})
    span.set_status(Status(StatusCode.ERROR, "half \ud83d"))
    span.end()
    toy.start_span("good", attributes={"number": 7}).end()
    assert exporter.force_flush()
    odd, good = running.spans()
    assert {
        "text": "half \ufffd of it",
        "key \ufffd": "kept",
        "number": float(2**70),
        "list": ("whole", "half \ufffd"),
        "good": "as it is",
    } == odd.attributes
    assert ("name \ufffd", 1, "half \ufffd") == (odd.name, odd.dropped_attributes, odd.status_message)
    assert [("event \ufffd", {"text": "half \ufffd"})] == [(event.name, event.attributes) for event in odd.events]
    assert ("shop \ufffd", {"number": 7}) == (odd.resource["service.name"], good.attributes)
    # The resource is the other one's too.
    assert (2, {}, 2) == (exporter.stats().delivered, exporter.stats().dropped, exporter.stats().repaired)
    told = [record.getMessage() for record in caplog.records if record.name == "monitor.exporter"]
    assert 1 == len([line for line in told if "of the spans so far had text, numbers or objects that OTLP" in line])


def test_an_integer_beyond_any_number(exporting: Exporting, running: Running) -> None:
    """What no number with a point can be is said in words."""
    exporter = exporting(endpoint=url_of(running))
    tracer = App(SimpleSpanProcessor(exporter)).provider.get_tracer("toy")
    tracer.start_span("odd", attributes={"number": 1 << 5000}).end()
    assert exporter.force_flush()
    assert {"number": "an integer of 5001 bits"} == running.spans()[0].attributes


def test_log_records_that_otlp_cannot_hold(running: Running) -> None:
    """Body and attributes of log records are repaired likewise."""
    exporter = RagMonitorLogExporter(endpoint=url_of(running), linger=QUICK, shutdown_timeout=timedelta(seconds=20))
    provider = LoggerProvider(resource=Resource({"service.name": "toy"}), shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = provider.get_logger("toy")
    with TracerProvider(shutdown_on_exit=False).get_tracer("toy").start_as_current_span("rag"):
        body = {"content": "half \ud83d", "number": 2**70}
        logger.emit(LogRecord(body=body, attributes={"text": "half \ud83d", "good": 1}, event_name="gen_ai.choice"))
        logger.emit(LogRecord(body="good", attributes={"good": 2}))
    provider.shutdown()
    odd, good = sorted(running.logs(), key=lambda record: str(record.event.attributes["good"]))
    assert {"content": "half \ufffd", "number": float(2**70)} == odd.event.body
    assert {"text": "half \ufffd", "good": 1} == odd.event.attributes
    assert ("good", {"good": 2}) == (good.event.body, good.event.attributes)
    assert (2, 0, 1) == (exporter.stats().delivered, exporter.dropped, exporter.stats().repaired)


# A monitor that is away


def test_dead_monitor_comes_back(exporting: Exporting, serve: Serve, spans: Spans) -> None:
    """What waited while nothing listened is delivered when something does; what did not fit was dropped and counted."""
    port = free_port()
    exporter = exporting(endpoint=f"http://127.0.0.1:{port}", max_items=1000)
    for span in spans(1600):
        exporter.export([span])
    before = exporter.stats()
    assert before.dropped.get("full", 0) >= 1600 - 1000 - 512
    assert 1600 == sum(before.dropped.values()) + before.waiting
    running = serve(http={"port": port})
    # Not before a pause is over, unless somebody asks.
    exporter.force_flush(20_000)
    after = exporter.stats()
    assert (before.dropped, 0) == (after.dropped, after.waiting)
    assert after.delivered == len(running.spans()) == 1600 - exporter.dropped


def test_lost_reply_is_no_second_delivery(exporting: Exporting, spans: Spans, serve: Serve) -> None:
    """A request whose answer was lost is sent again byte for byte, and the monitor keeps it once."""
    with Answering([(0, {}, b""), (0, {}, b""), (200, {}, b"")]) as server:
        exporter = exporting(endpoint=server.endpoint)
        exporter.export(spans(30))
        wait_until(lambda: len(server.bodies) == 3, "three attempts", seconds=20)
    assert 1 == len(set(server.bodies))
    running = serve()
    for body in server.bodies:
        assert 200 == running.post(body).status
    assert 30 == len(running.spans())


def test_idle_connection_that_was_closed(exporting: Exporting, spans: Spans, caplog: pytest.LogCaptureFixture) -> None:
    """A connection that the server closed meanwhile is no failure: the request goes over a fresh one at once."""
    with (
        caplog.at_level(logging.WARNING, logger="monitor.exporter"),
        Answering([(200, {"Connection": "keep-alive"}, b""), (0, {}, b""), (200, {}, b"")]) as server,
    ):
        exporter = exporting(endpoint=server.endpoint)
        for span in spans(2):
            exporter.export([span])
            assert exporter.force_flush(10_000)
    assert server.bodies[1] == server.bodies[2]
    # A failed attempt would be followed by a pause, and by a warning.
    assert [] == caplog.records


def test_refusing_monitor_is_asked_again(exporting: Exporting, spans: Spans) -> None:
    """503, 429 and 500 are tried again, not before Retry-After; nothing is lost."""
    with Answering([(503, {"Retry-After": "1"}, b""), (429, {}, b""), (500, {}, b"?"), (200, {}, b"")]) as server:
        exporter = exporting(endpoint=server.endpoint)
        began = time.monotonic()
        exporter.export(spans(1))
        wait_until(lambda: len(server.bodies) >= 2, "a second attempt", seconds=20)
        assert time.monotonic() - began > 0.8
        assert exporter.force_flush(20_000) or exporter.force_flush(20_000)
    assert (1, {}) == (exporter.stats().delivered, exporter.stats().dropped)


@pytest.mark.parametrize(
    ("status", "reason"), [(400, "malformed"), (413, "too_large"), (401, "unauthorized"), (404, "http_404")]
)
def test_refusal_for_good(exporting: Exporting, spans: Spans, status: int, reason: str) -> None:
    """What the monitor will never take is dropped under its reason, and what comes later is sent."""
    with Answering([(status, {}, b"no"), (200, {}, b"")]) as server:
        exporter = exporting(endpoint=server.endpoint)
        exporter.export(spans(3))
        assert not exporter.force_flush(10_000)
        exporter.export(spans(1))
        assert exporter.force_flush(10_000)
    assert (1, {reason: 3}) == (exporter.stats().delivered, exporter.stats().dropped)


def test_partial_success(exporting: Exporting, spans: Spans) -> None:
    """Spans that the monitor left out of a request it took are counted as rejected."""
    reply = ExportTraceServiceResponse()
    reply.partial_success.rejected_spans = 2
    with Answering([(200, {}, reply.SerializeToString())]) as server:
        exporter = exporting(endpoint=server.endpoint)
        exporter.export(spans(5))
        assert not exporter.force_flush(10_000)
    assert (3, {"rejected": 2}) == (exporter.stats().delivered, exporter.stats().dropped)


def test_locked_store(exporting: Exporting, store: SqlStore, store_path: Path, spans: Spans) -> None:
    """While another program holds SQLite's lock spans wait; afterwards they are in it once."""
    exporter = exporting(store=f"sqlite:///{store_path}", timeout=timedelta(milliseconds=50))
    with locked(store_path):
        exporter.export(spans(10))
        assert not exporter.force_flush(400)
        assert 10 == exporter.stats().waiting
    assert exporter.force_flush(20_000)
    assert 10 == len(spans_in(store))


def test_database_that_is_not_there_yet(exporting: Exporting, tmp_path: Path, spans: Spans) -> None:
    """The exporter makes no database: it waits for the monitor to make it."""
    path = tmp_path / "late.db"
    exporter = exporting(store=f"sqlite:///{path}")
    exporter.export(spans(10))
    assert not exporter.force_flush(200)
    assert not path.exists()
    store = open_store(f"sqlite:///{path}")
    try:
        assert exporter.force_flush(20_000)
        assert 10 == len(spans_in(store))
    finally:
        exporter.shutdown()
        store.close()


# Bounds


@pytest.mark.parametrize(("when_full", "kept"), [("drop_oldest", range(40, 50)), ("drop_newest", range(10))])
def test_full_queue(exporting: Exporting, spans: Spans, when_full: str, kept: range) -> None:
    """Of more spans than may wait, the policy says which go; each is counted."""
    with Answering([(200, {}, b"")]) as server:
        exporter = exporting(endpoint=server.endpoint, max_items=10, when_full=when_full, linger=timedelta(hours=1))
        result = exporter.export(spans(50))
        assert (40, 10) == (exporter.dropped, exporter.stats().waiting)
        assert not exporter.force_flush(0)
        wait_until(lambda: exporter.stats().delivered == 10, "delivery", seconds=20)
        names = _names(server.bodies[0])
    assert [f"span {number}" for number in kept] == names
    assert (SpanExportResult.SUCCESS if when_full == "drop_oldest" else SpanExportResult.FAILURE) is result


def test_memory_is_bounded(exporting: Exporting) -> None:
    """Large attributes count by what they take, and one beyond all bounds is dropped by itself."""
    exporter = exporting(endpoint="http://127.0.0.1:1", max_bytes=1_000_000, linger=timedelta(hours=1))
    app = App(SimpleSpanProcessor(exporter))
    app.answer(1, "x" * 2_000_000)
    assert {"too_large": 1} == exporter.stats().dropped
    app.answer(50, "x" * 100_000)
    stats = exporter.stats()
    assert 1 + 50 * 3 + 2 == stats.waiting + sum(stats.dropped.values())
    assert 9 * 3 - 2 <= stats.waiting <= 10 * 3


def test_memory_is_given_back(exporting: Exporting) -> None:
    """What is on its way makes room, and a request holds about a megabyte however much waits."""
    with Answering([(200, {}, b"")]) as server:
        exporter = exporting(endpoint=server.endpoint, max_bytes=6_000_000)
        app = App(SimpleSpanProcessor(exporter))
        for _ in range(3):
            app.answer(50, "x" * 100_000)
            assert exporter.force_flush(10_000)
        assert (450, 0) == (exporter.stats().delivered, exporter.dropped)
    assert max(map(len, server.bodies)) < 1_200_000


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "rag-monitor-exporter"]


def _names(body: bytes) -> list[str]:
    fragments = split_otlp(body, "traces", received_at=datetime.now(UTC)).fragments
    return [span.name for fragment in fragments for span in decode_otlp(fragment).spans]


def test_shutdown_is_bounded(exporting: Exporting, spans: Spans, caplog: pytest.LogCaptureFixture) -> None:
    """A monitor that never answers delays the end of an app by `shutdown_timeout`, and costs what waited."""
    with hanging() as endpoint, caplog.at_level(logging.WARNING, logger="monitor.exporter"):
        exporter = exporting(
            endpoint=endpoint, shutdown_timeout=timedelta(milliseconds=300), timeout=timedelta(seconds=60)
        )
        exporter.export(spans(2000))
        began = time.monotonic()
        exporter.shutdown()
        assert 0.25 < time.monotonic() - began < UNBOUNDED
        assert {"unsent": 2000} == exporter.stats().dropped
        assert SpanExportResult.FAILURE is exporter.export(spans(1))
        assert {"unsent": 2000, "closed": 1} == exporter.stats().dropped
        assert ["shut down before"] == [record.getMessage()[:16] for record in caplog.records]
        began = time.monotonic()
        exporter.shutdown()
        assert exporter.force_flush(60_000)
        assert time.monotonic() - began < UNBOUNDED
    wait_until(lambda: not _threads(), "the last attempt to fail", seconds=60)
    assert {"unsent": 2000, "closed": 1} == exporter.stats().dropped


def test_shutdown_does_not_wait_for_the_dead(exporting: Exporting, spans: Spans) -> None:
    """Where nothing listens one last attempt is enough, however long shutting down may take."""
    exporter = exporting(endpoint=f"http://127.0.0.1:{free_port()}", shutdown_timeout=timedelta(seconds=60))
    exporter.export(spans(2000))
    began = time.monotonic()
    exporter.shutdown()
    assert time.monotonic() - began < UNBOUNDED
    assert {"unsent": 2000} == exporter.stats().dropped


def test_flush_is_bounded(exporting: Exporting, spans: Spans) -> None:
    """Flushing gives up when its time is over, and is true at once when nothing waits."""
    with hanging() as endpoint:
        exporter = exporting(endpoint=endpoint, timeout=timedelta(seconds=60))
        assert exporter.force_flush(10_000)
        exporter.export(spans(1))
        began = time.monotonic()
        assert not exporter.force_flush(100)
        assert time.monotonic() - began < UNBOUNDED


def test_flush_does_not_wait_for_a_pause_to_end(exporting: Exporting, spans: Spans) -> None:
    """While it waits for a refusing monitor, flushing makes it try at once."""
    with Answering([(503, {"Retry-After": "30"}, b""), (200, {}, b"")]) as server:
        exporter = exporting(endpoint=server.endpoint)
        exporter.export(spans(1))
        wait_until(lambda: server.bodies, "the first attempt", seconds=20)
        # The first may still be in the attempt that is refused.
        assert exporter.force_flush(5_000) or exporter.force_flush(5_000)


def test_one_warning_a_minute(exporting: Exporting, spans: Spans, caplog: pytest.LogCaptureFixture) -> None:
    """However often it fails, the log gets one warning, without secrets; then one line when it works again."""
    port = free_port()
    with caplog.at_level(logging.INFO, logger="monitor.exporter"):
        exporter = exporting(endpoint=f"http://127.0.0.1:{port}", headers={"Authorization": "hunter2"}, max_items=100)
        for _ in range(5):
            exporter.export(spans(200))
            exporter.force_flush(30)
        warnings = [record.getMessage() for record in caplog.records]
        assert 1 == len(warnings)
        assert warnings[0].startswith(f"the monitor at http://127.0.0.1:{port} does not accept spans: /v1/traces: Conn")
        with http.server.HTTPServer(("127.0.0.1", port), http.server.BaseHTTPRequestHandler):
            pass
        assert "hunter" not in caplog.text


def test_recovery_is_logged_once(exporting: Exporting, spans: Spans, caplog: pytest.LogCaptureFixture) -> None:
    """After a warning, the first success is a line of its own."""
    with (
        Answering([(503, {}, b""), (200, {}, b"")]) as server,
        caplog.at_level(logging.INFO, logger="monitor.exporter"),
    ):
        exporter = exporting(endpoint=server.endpoint)
        for span in spans(3):
            exporter.export([span])
            exporter.force_flush(10_000)
    levels = [record.levelname for record in caplog.records]
    assert ["WARNING", "INFO"] == levels


def test_own_log_lines_do_not_feed_themselves() -> None:
    """With the app's log exported through us, our own warnings are not sent, as they belong to no trace."""
    exporter = RagMonitorLogExporter(endpoint="http://127.0.0.1:1", linger=QUICK, shutdown_timeout=QUICK)
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = provider.get_logger("root")

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logger.emit(LogRecord(body=record.getMessage()))

    handler = Handler()
    logging.getLogger("monitor.exporter").addHandler(handler)
    try:
        with TracerProvider(shutdown_on_exit=False).get_tracer("toy").start_as_current_span("rag"):
            logger.emit(LogRecord(body="inside"))
        wait_until(lambda: exporter.stats().ignored, "a warning", seconds=20)
        assert (1, 0) == (exporter.stats().waiting, exporter.dropped)
    finally:
        logging.getLogger("monitor.exporter").removeHandler(handler)
        exporter.shutdown()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give either endpoint or store"),
        ({"endpoint": "http://127.0.0.1:4318", "store": "sqlite:///x.db"}, "give either endpoint or store"),
        ({"endpoint": "127.0.0.1:4318"}, "expected a URL such as http"),
        ({"endpoint": "http://127.0.0.1:port"}, "expected a URL such as http"),
        ({"store": "/var/lib/x.db"}, "expected a URL such as sqlite"),
        ({"store": "mysql://user:secret@host/x"}, "expected a URL such as sqlite"),
    ],
)
def test_wrong_arguments(arguments: Mapping[str, str], message: str) -> None:
    """A wrong address is refused when the exporter is made, without secrets; nothing else ever raises."""
    for exporter in (RagMonitorSpanExporter, RagMonitorLogExporter):
        with pytest.raises(ConfigError, match=message) as caught:
            exporter(**arguments)  # type: ignore[arg-type]
        assert "secret" not in str(caught.value)


def test_odd_batch_raises_nothing(exporting: Exporting) -> None:
    """Even what is no span at all is only counted."""
    exporter = exporting(endpoint="http://127.0.0.1:1")
    assert SpanExportResult.FAILURE is exporter.export([None, "x"])
    assert {"internal": 2} == exporter.stats().dropped


# Processes

FORKING = """
import os, sys
from datetime import timedelta
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from monitor.exporter.exporters import RagMonitorSpanExporter

where, url = sys.argv[1:]
times = {"linger": timedelta(milliseconds=20), "shutdown_timeout": timedelta(seconds=20)}
exporter = RagMonitorSpanExporter(**{where: url}, **times)
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("toy")
for number in range(50):
    tracer.start_span("before").end()
assert exporter.force_flush(20_000)
tracer.start_span("waits in the parent").end()
children = []
for number in range(3):
    child = os.fork()
    if not child:
        open_files = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
        assert not [path for path in open_files if path.startswith(url.removeprefix("sqlite:///"))], open_files
        for number in range(50):
            tracer.start_span("child").end()
        assert exporter.force_flush(20_000), exporter.stats()
        assert exporter.stats().delivered == 50, exporter.stats()
        provider.shutdown()
        os._exit(0)
    children.append(child)
for number in range(50):
    tracer.start_span("after").end()
assert exporter.force_flush(20_000), exporter.stats()
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
provider.shutdown()
assert exporter.stats().delivered == 101, exporter.stats()
"""

FORKING_WHILE_LOCKED = """
import os, sqlite3, sys, time
from datetime import timedelta
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from monitor.exporter.exporters import RagMonitorSpanExporter

path = sys.argv[1]
times = {"linger": timedelta(0), "shutdown_timeout": timedelta(seconds=2), "timeout": timedelta(seconds=60)}
exporter = RagMonitorSpanExporter(store=f"sqlite:///{path}", **times)
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("toy")
tracer.start_span("before").end()
assert exporter.force_flush(20_000)
lock = sqlite3.connect(path, isolation_level=None)
lock.execute("BEGIN IMMEDIATE")
tracer.start_span("waits").end()
assert not exporter.force_flush(500)
began = time.monotonic()
child = os.fork()
if not child:
    tracer.start_span("child").end()
    provider.shutdown()
    assert exporter.stats().dropped == {"unsent": 1}, exporter.stats()
    os._exit(0)
assert time.monotonic() - began < 30
assert os.waitpid(child, 0)[1] == 0
lock.execute("ROLLBACK")
lock.close()
assert exporter.force_flush(20_000), exporter.stats()
provider.shutdown()
"""

THREADLESS = """
import sys, threading
from datetime import timedelta
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from monitor.exporter.exporters import RagMonitorSpanExporter

exporter = RagMonitorSpanExporter(endpoint=sys.argv[1], shutdown_timeout=timedelta(seconds=20))
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
threading.stack_size(2**46)
try:
    threading.Thread(target=print).start()
except RuntimeError:
    pass
else:
    sys.exit("a thread could be started")
for number in range(50):
    provider.get_tracer("toy").start_span("alone").end()
"""


def run(script: str, *arguments: str) -> str:
    """Run a script to its end and return what it said on standard error."""
    # Python warns of every fork beside threads from 3.12 on.
    command = [sys.executable, "-W", "error", "-W", "ignore:This process:DeprecationWarning", "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (0, "") == (done.returncode, done.stdout), done.stderr
    return done.stderr


def test_fork_with_endpoint(running: Running) -> None:
    """Parent and children deliver what each of them traced, once; what waits at the fork is the parent's."""
    assert "" == run(FORKING, "endpoint", url_of(running))
    names = [span.name for span in running.spans()]
    assert {"before": 50, "waits in the parent": 1, "child": 150, "after": 50} == {
        n: names.count(n) for n in set(names)
    }


def test_fork_with_store(store: SqlStore, store_path: Path) -> None:
    """A connection to the database does not go through a fork: every process opens its own, and all is kept."""
    assert "" == run(FORKING, "store", f"sqlite:///{store_path}")
    names = [span.name for span in spans_in(store)]
    assert {"before": 50, "waits in the parent": 1, "child": 150, "after": 50} == {
        n: names.count(n) for n in set(names)
    }
    store.check()


def test_fork_while_the_store_is_locked(store: SqlStore, store_path: Path) -> None:
    """A fork does not wait long for a write; the child, which may have half of it, never opens the store."""
    output = run(FORKING_WHILE_LOCKED, str(store_path))
    assert "forked while the store was being written" in output
    assert ["before", "waits"] == sorted(span.name for span in spans_in(store))


def test_process_without_a_thread_to_spare(running: Running) -> None:
    """Where no thread can be started, as while an interpreter shuts down, shutting down delivers what waits."""
    assert "" == run(THREADLESS, url_of(running))
    assert 50 == len(running.spans())


DOCUMENTED = """
from opentelemetry._logs import LogRecord

provider.add_span_processor(SimpleSpanProcessor(exporter))
with provider.get_tracer("shop").start_as_current_span("rag"):
    logs.get_logger("shop").emit(LogRecord(body="inside"))
provider.shutdown()
logs.shutdown()
"""


def test_documented_code(running: Running, store: SqlStore, store_path: Path) -> None:
    """What docs/in-process.md shows sends a span twice, to the endpoint and to the store, and a log record."""
    page = Path(__file__).parents[3].joinpath("docs", "in-process.md").read_text(encoding="utf-8")
    blocks = "\n".join(part.split("```")[0] for part in page.split("```python\n")[1:])
    shown = blocks.replace("http://127.0.0.1:4318", url_of(running))
    shown = shown.replace("sqlite:////var/lib/rag-monitor/rag-monitor.db", f"sqlite:///{store_path}")
    assert "" == run(shown + DOCUMENTED)
    # The same bytes of the same trace are one row, wherever they came from.
    assert ["rag"] == [span.name for span in spans_in(store)]
    assert ["inside"] == [record.event.body for record in running.logs()]


# What the app feels


def latencies(app: App, questions: int) -> list[float]:
    """Return the seconds that each answer took."""
    seconds = []
    for _ in range(questions):
        began = time.perf_counter()
        app.answer(1)
        seconds.append(time.perf_counter() - began)
    return seconds


def test_app_feels_nothing(exporting: Exporting, running: Running, store_path: Path) -> None:
    """An answer takes as long with a monitor that is live, dead, hanging, refusing or locked as with none.

    Held to what waiting for one of them would take; bench/exporter.py measures milliseconds.
    """

    class Nowhere(SpanExporter):
        def export(self, _: Sequence[ReadableSpan]) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    bare = median(latencies(App(SimpleSpanProcessor(Nowhere())), 500))
    with ExitStack() as stack:
        endpoints = {
            "live": url_of(running),
            "dead": f"http://127.0.0.1:{free_port()}",
            "hanging": stack.enter_context(hanging()),
            "refusing": stack.enter_context(Answering([(503, {"Retry-After": "1"}, b"")])).endpoint,
        }
        stack.enter_context(locked(store_path))
        exporters = {name: exporting(endpoint=endpoint) for name, endpoint in endpoints.items()}
        exporters["locked"] = exporting(store=f"sqlite:///{store_path}")
        measured = {name: latencies(App(SimpleSpanProcessor(exporter)), 500) for name, exporter in exporters.items()}
        for exporter in exporters.values():
            exporter.shutdown()
    # An export that waits for one of them waits seconds, 500 times; a busy machine takes a tenth of one now and then.
    assert {} == {name: median(times) for name, times in measured.items() if median(times) > bare + 0.5}
