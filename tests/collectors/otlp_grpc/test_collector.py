"""Reception over gRPC, through real sockets into a real store."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from broken_span import with_broken_span
from deadline import wait_until
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collectors.otlp_grpc import collector as otlp_grpc
from monitor.errors import ConfigError

if TYPE_CHECKING:
    from tests.services.otlp_service import MakeRequest, Running, Serve, Switch

    Call = Callable[..., bytes]

TRACES = "trace.v1.TraceService"
LOGS = "logs.v1.LogsService"
METRICS = "metrics.v1.MetricsService"


@pytest.fixture
def call() -> Iterator[Call]:
    """Calls `Export` with ready-made bytes."""
    channels: list[grpc.Channel] = []

    def export(
        running: Running, body: bytes, *, service: str = TRACES, compression: grpc.Compression | None = None
    ) -> bytes:
        host, port = running.grpc.address
        options = (("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
        channels.append(grpc.insecure_channel(f"{host}:{port}", options=options, compression=compression))
        method = channels[-1].unary_unary(f"/opentelemetry.proto.collector.{service}/Export")
        reply: bytes = method(body, timeout=20)
        return reply

    yield export
    for channel in channels:
        channel.close()


def _status(error: grpc.RpcError) -> Status:
    return Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_traces(running: Running, call: Call, make_request: MakeRequest, compression: grpc.Compression | None) -> None:
    """A request is answered with an empty response, and its spans are in the store, compressed or not."""
    assert b"" == call(running, make_request(2).SerializeToString(), compression=compression)
    assert ["retrieve", "chat", "rag"] * 2 == [span.name for span in running.spans()]


def test_empty_request(running: Running, call: Call) -> None:
    """An empty request succeeds."""
    assert b"" == call(running, b"")


def test_partial_success(running: Running, call: Call, make_request: MakeRequest) -> None:
    """One bad span of four costs only itself."""
    request = make_request(1)
    request.resource_spans[0].scope_spans[0].spans.add(span_id=b"s" * 8)
    partial = ExportTraceServiceResponse.FromString(call(running, request.SerializeToString())).partial_success

    message = "1 of 4 records rejected: 1 with a trace id missing, all zero or not 16 bytes"
    assert (1, message) == (partial.rejected_spans, partial.error_message)
    assert 3 == len(running.spans())


def test_span_of_a_wrong_shape(running: Running, call: Call, make_request: MakeRequest) -> None:
    """A span that is no message costs only itself, and is told with its place."""
    partial = ExportTraceServiceResponse.FromString(call(running, with_broken_span(make_request(1)))).partial_success
    place = "resourceSpans[0].scopeSpans[0].spans[3]: not an OTLP protobuf message"
    message = f"1 of 4 records rejected: 1 with content that cannot be read; the first at {place}"
    assert (1, message) == (partial.rejected_spans, partial.error_message)
    assert 3 == len(running.spans())


def test_logs(running: Running, call: Call) -> None:
    """Log records with a trace context are kept; the others are accepted, counted and ignored."""
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    records.add(trace_id=b"t" * 16, span_id=b"s" * 8, event_name="gen_ai.choice")
    records.add(event_name="started")
    reply = call(running, request.SerializeToString(), service=LOGS)

    assert ExportLogsServiceResponse() == ExportLogsServiceResponse.FromString(reply)
    assert ["gen_ai.choice"] == [log.event.name for log in running.logs()]
    assert {"log_records": 1} == running.grpc.stats().ignored


def test_metrics(running: Running, call: Call) -> None:
    """Metrics are answered with success and dropped."""
    assert b"" == call(running, b"anything", service=METRICS)
    assert {"metrics": 1} == running.grpc.stats().ignored


def test_unknown_service(running: Running, call: Call) -> None:
    """Any other service is unimplemented."""
    with pytest.raises(grpc.RpcError) as caught:
        call(running, b"", service="profiles.v1development.ProfilesService")
    assert grpc.StatusCode.UNIMPLEMENTED == caught.value.code()


def test_broken_body(running: Running, call: Call, make_request: MakeRequest) -> None:
    """A body that cannot be read is INVALID_ARGUMENT, without a hint to come again."""
    with pytest.raises(grpc.RpcError) as caught:
        call(running, make_request(1).SerializeToString()[:-1])
    assert (grpc.StatusCode.INVALID_ARGUMENT, 3, 0) == (
        caught.value.code(),
        _status(caught.value).code,
        len(_status(caught.value).details),
    )
    assert {"not_protobuf": 1} == running.grpc.stats().requests


def test_five_mebibytes(running: Running, call: Call, make_request: MakeRequest) -> None:
    """A request of 5 MiB, more than gRPC's own default, is accepted."""
    body = make_request(14, text="x" * 128 * 1024).SerializeToString()
    assert len(body) > 5 * 1024 * 1024
    assert b"" == call(running, body)
    assert 42 == len(running.spans())


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip])
def test_too_large(serve: Serve, call: Call, make_request: MakeRequest, compression: grpc.Compression | None) -> None:
    """A request over the limit, as sent or when unpacked, is RESOURCE_EXHAUSTED; the next one is kept."""
    running = serve(grpc={"max_body": 100_000})
    with pytest.raises(grpc.RpcError) as caught:
        call(running, make_request(1, text="x" * 40_000).SerializeToString(), compression=compression)
    assert grpc.StatusCode.RESOURCE_EXHAUSTED == caught.value.code()
    assert compression or "100000" in caught.value.details()
    assert b"" == call(running, make_request(1).SerializeToString())
    assert 3 == len(running.spans())


def test_store_that_refuses(serve: Serve, call: Call, switch: Switch, make_request: MakeRequest) -> None:
    """While the store refuses: UNAVAILABLE with RetryInfo; afterwards the same request is kept."""
    running = serve(through=switch)
    switch.reason = "locked"
    body = make_request(1).SerializeToString()
    with pytest.raises(grpc.RpcError) as caught:
        call(running, body)
    retry = RetryInfo()
    assert _status(caught.value).details[0].Unpack(retry)
    assert (grpc.StatusCode.UNAVAILABLE, 14, 1) == (
        caught.value.code(),
        _status(caught.value).code,
        retry.retry_delay.seconds,
    )

    switch.reason = ""
    assert b"" == call(running, body)
    assert 3 == len(running.spans())


def test_senders_are_not_told_where_the_store_is(
    serve: Serve, call: Call, switch: Switch, make_request: MakeRequest, caplog: pytest.LogCaptureFixture
) -> None:
    """A refusal gives the reason in words, in details and status; where the database is, the log says alone."""
    running = serve(through=switch)
    switch.reason = "unreachable"
    with pytest.raises(grpc.RpcError) as caught:
        call(running, make_request(1).SerializeToString())
    for message in (caught.value.details(), _status(caught.value).message):
        assert "the database does not answer" in message
        assert not [part for part in switch.place.split(" of ") if part in message]
    assert switch.place in caplog.text


def test_full_buffer(serve: Serve, call: Call, switch: Switch, make_request: MakeRequest) -> None:
    """While too much waits to be written: UNAVAILABLE with RetryInfo; what waited is kept."""
    running = serve(through=switch, intake={"max_pending": 1})
    switch.gate.clear()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(call, running, make_request(1).SerializeToString())
        wait_until(lambda: running.intake.stats().pending_bytes, "the first request to wait", seconds=10)
        with pytest.raises(grpc.RpcError) as caught:
            call(running, make_request(1, first=2).SerializeToString())
        switch.gate.set()
        assert b"" == waiting.result(10)
    assert (grpc.StatusCode.UNAVAILABLE, 1) == (caught.value.code(), len(_status(caught.value).details))
    assert 3 == len(running.spans())


def test_more_than_fits_in_flight(serve: Serve, call: Call, make_request: MakeRequest) -> None:
    """Calls that do not fit in memory together are received one after the other, and all are kept."""
    running = serve(grpc={"max_in_flight": 9_000_000})
    bodies = [make_request(1, first=n, text="x" * 100_000).SerializeToString() for n in range(1, 21)]
    with ThreadPoolExecutor(20) as pool:
        assert {b""} == set(pool.map(lambda body: call(running, body), bodies))
    assert 60 == len(running.spans())


def test_call_without_a_message(running: Running) -> None:
    """A stream that ends without a message is INVALID_ARGUMENT."""
    host, port = running.grpc.address
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        method = channel.stream_unary(f"/opentelemetry.proto.collector.{TRACES}/Export")
        with pytest.raises(grpc.RpcError) as caught:
            method(iter(()), timeout=20)
    assert grpc.StatusCode.INVALID_ARGUMENT == caught.value.code()


async def test_slow_sender(serve: Serve) -> None:
    """A message that does not arrive in time is UNAVAILABLE."""
    running = serve(grpc={"body_timeout": "200ms"})
    host, port = running.grpc.address
    async with grpc.aio.insecure_channel(f"{host}:{port}") as channel:
        stream = channel.stream_unary(f"/opentelemetry.proto.collector.{TRACES}/Export")(timeout=20)
        assert grpc.StatusCode.UNAVAILABLE == await stream.code()
    assert {"slow": 1} == running.grpc.stats().requests


def test_stopping_answers_what_is_under_way(
    serve: Serve, call: Call, switch: Switch, make_request: MakeRequest
) -> None:
    """A call that is being written when the collector stops is answered when it is on disk."""
    running = serve(through=switch)
    switch.gate.clear()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(call, running, make_request(1).SerializeToString())
        wait_until(lambda: running.intake.stats().pending_bytes, "the call to wait", seconds=10)
        stopping = pool.submit(running.stop)
        switch.gate.set()
        assert b"" == waiting.result(10)
        stopping.result(20)
    assert 3 == len(running.spans())


async def test_address_in_use(running: Running) -> None:
    """A taken port is a mistake in the settings, and the error says so."""
    again = otlp_grpc.build(otlp_grpc.Config(port=running.grpc.address[1]), running.intake, lambda: datetime.now(UTC))
    with pytest.raises(ConfigError, match="otlp_grpc: cannot listen on "):
        await again.__aenter__()


async def test_long_path_of_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: Running, turn_pb: bytes
) -> None:
    """Where the folder of temporary files has a path too long for a socket, another one is taken, and left empty."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    async with otlp_grpc.build(otlp_grpc.Config(port=0), running.intake, lambda: datetime.now(UTC)) as collector:
        host, port = collector.address
        async with grpc.aio.insecure_channel(f"{host}:{port}") as channel:
            reply = await channel.unary_unary(f"/opentelemetry.proto.collector.{METRICS}/Export")(turn_pb, timeout=20)
        assert b"" == reply
    assert [] == list(folder.iterdir())
