"""Reception over HTTP, through real sockets into a real store."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import socket
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from broken_span import with_broken_span
from deadline import wait_until
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from http_request import export
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collectors.otlp_http import collector as otlp_http
from monitor.errors import ConfigError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.services.otlp_service import MakeRequest, Running, Serve, Switch

JSON = "application/json"
PROTOBUF = "application/x-protobuf"
GOLDEN = Path(__file__).parents[2] / "golden" / "otlp"


def test_protobuf(running: Running, make_request: MakeRequest) -> None:
    """A protobuf request is answered with an empty protobuf response, and its spans are in the store."""
    reply = running.post(make_request(2).SerializeToString())

    assert (200, PROTOBUF, b"") == (reply.status, reply.headers["content-type"], reply.body)
    assert ["retrieve", "chat", "rag"] * 2 == [span.name for span in running.spans()]


@pytest.mark.parametrize("content_type", [JSON, "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"])
def test_json(running: Running, turn_json: bytes, content_type: str) -> None:
    """A JSON request is answered with an empty JSON object."""
    reply = running.post(turn_json, content_type=content_type)

    assert (200, JSON, {}) == (reply.status, reply.headers["content-type"], json.loads(reply.body))
    assert 3 == len(running.spans())


def test_partial_success_in_json(running: Running, turn_json: bytes) -> None:
    """One bad span of four costs only itself; its count is a string, as an int64 is in protobuf's JSON."""
    request = json.loads(turn_json)
    request["resourceSpans"][0]["scopeSpans"][0]["spans"].insert(1, {"name": "secret words"})
    reply = running.post(json.dumps(request).encode(), content_type=JSON)

    partial = json.loads(reply.body)["partialSuccess"]
    message = "1 of 4 records rejected: 1 with a trace id missing, all zero or not 16 bytes"
    assert (200, {"rejectedSpans": "1", "errorMessage": message}) == (reply.status, partial)
    assert 3 == len(running.spans())


def test_partial_success_in_protobuf(running: Running, make_request: MakeRequest) -> None:
    """The same in protobuf; both signals have it."""
    request = make_request(1)
    request.resource_spans[0].scope_spans[0].spans.add(trace_id=b"t" * 16, span_id=b"")
    reply = running.post(request.SerializeToString())

    partial = ExportTraceServiceResponse.FromString(reply.body).partial_success
    message = "1 of 4 records rejected: 1 with a span id missing, all zero or not 8 bytes"
    assert (200, 1, message) == (reply.status, partial.rejected_spans, partial.error_message)
    assert {"span_id": 1} == running.http.stats().rejected


def test_span_of_a_wrong_shape(running: Running, make_request: MakeRequest) -> None:
    """A span that is no message costs only itself, and is told with its place."""
    reply = running.post(with_broken_span(make_request(1)))
    partial = ExportTraceServiceResponse.FromString(reply.body).partial_success
    place = "resourceSpans[0].scopeSpans[0].spans[3]: not an OTLP protobuf message"
    message = f"1 of 4 records rejected: 1 with content that cannot be read; the first at {place}"
    assert (200, 1, message) == (reply.status, partial.rejected_spans, partial.error_message)
    assert 3 == len(running.spans())


def test_everything_rejected(running: Running, make_request: MakeRequest) -> None:
    """A request of nothing but bad spans is a success in which all are rejected."""
    request = make_request(1)
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.trace_id = bytes(16)
    reply = running.post(request.SerializeToString())

    assert (200, 3) == (reply.status, ExportTraceServiceResponse.FromString(reply.body).partial_success.rejected_spans)
    assert [] == running.spans()


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [(b"", PROTOBUF, b""), (b"{}", JSON, b"{}"), (b'{"resourceSpans":[]}', JSON, b"{}"), (b"", JSON, b"{}")],
)
def test_empty_request(running: Running, body: bytes, content_type: str, expected: bytes) -> None:
    """An empty request succeeds without a word about partial success."""
    reply = running.post(body, content_type=content_type)
    assert (200, expected) == (reply.status, reply.body)


def _raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("GZIP", gzip.compress),
        ("x-gzip", gzip.compress),
        ("gzip", lambda body: gzip.compress(body[:100]) + gzip.compress(body[100:])),
        ("deflate", zlib.compress),
        ("deflate", _raw_deflate),
        ("zstd", zstd.compress),
        ("zstd", lambda body: zstd.compress(body[:100]) + zstd.compress(body[100:])),
        ("identity", bytes),
    ],
)
def test_compressed(running: Running, turn_pb: bytes, coding: str, pack: Callable[[bytes], bytes]) -> None:
    """A body is unpacked as its Content-Encoding says."""
    assert 200 == running.post(pack(turn_pb), headers={"Content-Encoding": coding}).status
    assert 3 == len(running.spans())


@pytest.mark.parametrize(
    ("coding", "body", "status"),
    [
        ("gzip", gzip.compress(b"words", mtime=0)[:-4], 400),
        ("gzip", gzip.compress(b"words", mtime=0)[:-8] + bytes(8), 400),
        ("gzip", b"words", 400),
        ("deflate", b"words", 400),
        ("br", b"words", 415),
        ("zstd", b"words", 400),
        ("zstd", zstd.compress(b"words")[:-2], 400),
        ("gzip, gzip", gzip.compress(gzip.compress(b"", mtime=0), mtime=0), 415),
    ],
)
def test_badly_compressed(running: Running, coding: str, body: bytes, status: int) -> None:
    """What cannot be unpacked is the sender's mistake, and so is a coding that we do not speak."""
    reply = running.post(body, headers={"Content-Encoding": coding})
    assert status == reply.status
    assert b"words" not in reply.body
    assert status != 415 or reply.headers["accept-encoding"] == "gzip, deflate, zstd"


@pytest.mark.parametrize(
    ("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("zstd", zstd.compress)]
)
def test_large_compressed(
    running: Running, make_request: MakeRequest, coding: str, pack: Callable[[bytes], bytes]
) -> None:
    """A body that takes long to unpack is kept, and one that is cut short is the sender's mistake."""
    packed = pack(make_request(text=os.urandom(20_000).hex()).SerializeToString())
    assert len(packed) > 20_000
    assert 200 == running.post(packed, headers={"Content-Encoding": coding}).status
    assert 3 == len(running.spans())
    assert 400 == running.post(packed[:-9], headers={"Content-Encoding": coding}).status
    assert 1 == running.http.stats().requests["not_compressed"]


def test_broken_body(running: Running, make_request: MakeRequest) -> None:
    """A body that cannot be read is answered with 400 and a Status in the request's encoding that quotes nothing."""
    body = make_request(1, text="secret words").SerializeToString()[:-1]
    reply = running.post(body)
    assert (400, PROTOBUF, 3) == (reply.status, reply.headers["content-type"], Status.FromString(reply.body).code)

    reply = running.post(b'{"resourceSpans": [{"secret words": ', content_type=JSON)
    assert (400, JSON, 3) == (reply.status, reply.headers["content-type"], json.loads(reply.body)["code"])
    assert b"secret" not in reply.body
    assert {"not_protobuf": 1, "not_json": 1} == running.http.stats().requests


@pytest.mark.parametrize(
    ("method", "path", "content_type", "status"),
    [
        ("GET", "/v1/traces", PROTOBUF, 405),
        ("PUT", "/v1/traces", PROTOBUF, 405),
        ("OPTIONS", "/v1/logs", "", 405),
        ("POST", "/", PROTOBUF, 404),
        ("POST", "/v1/profiles", PROTOBUF, 404),
        ("POST", "/v1/traces", "", 415),
        ("POST", "/v1/traces", "text/plain", 415),
        ("POST", "/v1/traces", "application/x-www-form-urlencoded", 415),
    ],
)
def test_foreign_request(running: Running, method: str, path: str, content_type: str, status: int) -> None:
    """What is not a POST of a known type to a known path is answered as HTTP says."""
    reply = running.post(b"x", method=method, path=path, content_type=content_type)
    assert status == reply.status
    assert status != 405 or reply.headers["allow"] == "POST"


@pytest.mark.parametrize("path", ["/v1/traces/", "/api/public/otel/v1/traces", "/v1/traces?key=1"])
def test_other_paths(running: Running, turn_pb: bytes, path: str) -> None:
    """Apps set up for Langfuse may keep their path, and a slash at the end does no harm."""
    assert 200 == running.post(turn_pb, path=path).status
    assert 3 == len(running.spans())


def test_logs(running: Running) -> None:
    """Log records with a trace context are kept; the others are accepted, counted and ignored."""
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    records.add(trace_id=b"t" * 16, span_id=b"s" * 8, event_name="gen_ai.choice")
    records.add(event_name="started")
    reply = running.post(request.SerializeToString(), path="/v1/logs")

    assert (200, b"") == (reply.status, reply.body)
    assert ["gen_ai.choice"] == [log.event.name for log in running.logs()]
    assert {"log_records": 1} == running.http.stats().ignored


@pytest.mark.parametrize(("content_type", "expected"), [(PROTOBUF, b""), (JSON, b"{}")])
def test_metrics(running: Running, content_type: str, expected: bytes) -> None:
    """Metrics are answered with success, so that nobody repeats them for ever, and dropped."""
    reply = running.post(b"anything" * 100_000, path="/v1/metrics", content_type=content_type)
    assert (200, expected) == (reply.status, reply.body)
    assert {"metrics": 1} == running.http.stats().ignored


def test_too_large(serve: Serve, make_request: MakeRequest) -> None:
    """A body over the limit is answered with 413: by its declared length, as it arrives, or as it is unpacked."""
    running = serve(http={"max_body": 100_000})
    body = make_request(1, text="x" * 40_000).SerializeToString()

    declared = running.post(body)
    chunked = running.post(iter([body[:50_000], body[50_000:]]))
    packed = [
        running.post(pack(body), headers={"Content-Encoding": coding})
        for coding, pack in (("gzip", gzip.compress), ("deflate", zlib.compress), ("zstd", zstd.compress))
    ]
    assert [413] * 5 == [reply.status for reply in (declared, chunked, *packed)]
    assert "100000" in Status.FromString(declared.body).message
    assert [] == running.spans()
    assert 200 == running.post(make_request(1).SerializeToString()).status


def test_full_buffer(serve: Serve, switch: Switch, make_request: MakeRequest) -> None:
    """While too much waits to be written: 503 with Retry-After in whole seconds, nothing kept; afterwards 200."""
    running = serve(through=switch, intake={"max_pending": 1})
    first, second = (make_request(1, first=n).SerializeToString() for n in (1, 2))
    switch.gate.clear()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(running.post, first)
        wait_until(lambda: running.intake.stats().pending_bytes, "the first request to wait", seconds=10)
        refused = running.post(second)
        assert not waiting.done()
        switch.gate.set()
        assert 200 == waiting.result(10).status

    assert (503, "1") == (refused.status, refused.headers["retry-after"])
    status = Status.FromString(refused.body)
    retry = RetryInfo()
    assert status.details[0].Unpack(retry)
    assert (14, 1) == (status.code, retry.retry_delay.seconds)
    assert 3 == len(running.spans())
    assert 200 == running.post(second).status
    assert 6 == len(running.spans())


def test_store_that_refuses(serve: Serve, switch: Switch, turn_json: bytes) -> None:
    """While the store refuses: 503 with Retry-After, and health says why; afterwards the same request is kept once."""
    running = serve(through=switch)
    switch.reason = "storage_full"
    refused = running.post(turn_json, content_type=JSON)
    assert (503, 14) == (refused.status, json.loads(refused.body)["code"])
    assert int(refused.headers["retry-after"]) >= 1
    assert {"intake": "storage_full"} == running.intake.health()

    switch.reason = ""
    assert [200, 200] == [running.post(turn_json, content_type=JSON).status for _ in range(2)]
    assert {} == running.intake.health()
    assert 3 == len(running.spans())


@pytest.mark.parametrize(
    ("content_type", "body"),
    [(JSON, (GOLDEN / "turn.json").read_bytes()), (PROTOBUF, (GOLDEN / "turn.pb").read_bytes())],
    ids=["json", "protobuf"],
)
def test_senders_are_not_told_where_the_store_is(
    serve: Serve, switch: Switch, content_type: str, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A refusal gives the reason in words; where the database is, the log says alone."""
    running = serve(through=switch)
    switch.reason = "unreachable"
    refused = running.post(body, content_type=content_type)
    assert 503 == refused.status
    assert b"the database does not answer" in refused.body
    assert not [part for part in switch.place.split(" of ") if part.encode() in refused.body]
    assert switch.place in caplog.text


def _start_of_request(running: Running, *, length: int) -> socket.socket:
    connection = socket.create_connection(running.http.address, timeout=10)
    head = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: {PROTOBUF}\r\nContent-Length: {length}\r\n\r\n"
    connection.sendall(head.encode() + b"\x0a")
    return connection


def test_slow_sender(serve: Serve) -> None:
    """A body that does not arrive in time is answered with 503, and the connection closed."""
    running = serve(http={"body_timeout": "200ms"})
    with _start_of_request(running, length=1000) as connection:
        reply = b""
        while chunk := connection.recv(65536):
            reply += chunk
    assert reply.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1\r\n" in reply
    assert {"slow": 1} == running.http.stats().requests


def test_sender_that_goes_away(running: Running, turn_pb: bytes) -> None:
    """A sender that hangs up within its request leaves nothing behind."""
    _start_of_request(running, length=1000).close()
    wait_until(lambda: running.http.stats().requests, "the disconnect to be seen", seconds=10)

    assert {"disconnected": 1} == running.http.stats().requests
    assert 200 == running.post(turn_pb).status
    assert 3 == len(running.spans())


def test_more_than_fits_in_flight(serve: Serve, make_request: MakeRequest) -> None:
    """Requests that do not fit in memory together are received one after the other, and all are kept."""
    running = serve(http={"max_in_flight": 500_000})
    bodies = [make_request(1, first=n, text="x" * 100_000).SerializeToString() for n in range(1, 21)]
    with ThreadPoolExecutor(20) as pool:
        assert {200} == {reply.status for reply in pool.map(running.post, bodies)}
    assert 60 == len(running.spans())


def test_stalled_senders_do_not_block_the_others(serve: Serve, turn_pb: bytes) -> None:
    """Senders that declare much and send nothing give way within the time a body may take."""
    running = serve(http={"max_in_flight": 1_000_000, "max_body": 1_000_000, "body_timeout": "500ms"})
    stalled = [_start_of_request(running, length=1_000_000) for _ in range(3)]
    reply = running.post(turn_pb)
    for connection in stalled:
        connection.close()
    assert 200 == reply.status


def test_announced_bytes_hold_no_room(serve: Serve, turn_pb: bytes) -> None:
    """Senders that announce all that fits in memory and send one byte of it keep nobody waiting."""
    running = serve()
    liars = [_start_of_request(running, length=12 * 1024 * 1024) for _ in range(20)]
    wait_until(lambda: running.http.stats().connections == 20, "the liars", seconds=20)
    assert [200] * 5 == [running.post(turn_pb).status for _ in range(5)]
    assert not running.http.stats().requests.get("refused")
    for liar in liars:
        liar.close()


def test_halves_of_bodies_give_way(serve: Serve, make_request: MakeRequest) -> None:
    """Bodies that fill the room and do not go on are answered 503 for one that comes."""
    running = serve(http={"max_in_flight": 800_000})
    halves = [_start_of_request(running, length=1_000_000) for _ in range(10)]
    for half in halves:
        half.sendall(b"x" * 60_000)
    body = make_request(1, text="x" * 150_000).SerializeToString()
    assert 200 == running.post(body).status
    assert 3 == len(running.spans())
    assert running.http.stats().requests["refused"] >= 1
    for half in halves:
        half.close()


def test_stopping_answers_what_is_under_way(serve: Serve, switch: Switch, turn_pb: bytes) -> None:
    """A request that is being written when the collector stops is answered when it is on disk."""
    running = serve(through=switch)
    switch.gate.clear()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(running.post, turn_pb)
        wait_until(lambda: running.intake.stats().pending_bytes, "the request to wait", seconds=10)
        stopping = pool.submit(running.stop)
        switch.gate.set()
        assert 200 == waiting.result(10).status
        stopping.result(20)
    assert 3 == len(running.spans())


def test_two_requests_on_one_connection(running: Running, turn_pb: bytes) -> None:
    """A connection is kept for the next request, also after one that was too large or wrong."""
    head = "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: %d\r\n\r\n"
    good = (head % ("/v1/traces", len(turn_pb))).encode() + turn_pb
    wrong = (head % ("/v1/profiles", len(turn_pb))).encode() + turn_pb
    with socket.create_connection(running.http.address, timeout=10) as connection:
        for request, status in ((good, b"200"), (wrong, b"404"), (good, b"200")):
            connection.sendall(request)
            reply = b""
            while b"\r\n\r\n" not in reply:
                reply += connection.recv(65536)
            assert status == reply.split()[1]
            if status == b"404":
                length = int(reply.lower().partition(b"content-length: ")[2].split()[0])
                while len(reply.partition(b"\r\n\r\n")[2]) < length:
                    reply += connection.recv(65536)


async def test_address_in_use(running: Running) -> None:
    """A taken port is a mistake in the settings, and the error says so."""
    again = otlp_http.build(otlp_http.Config(port=running.http.address[1]), running.intake, lambda: datetime.now(UTC))
    with pytest.raises(ConfigError, match="otlp_http: cannot listen on "):
        await again.__aenter__()


async def test_fault_of_ours(turn_json: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """A fault costs its request alone; neither the answer nor the log says what it quoted."""

    class Faulty:
        """A sink that breaks its promise."""

        async def put(self, _: object) -> None:
            """Fail with a text."""
            raise RuntimeError("secret words")

    async with otlp_http.build(otlp_http.Config(port=0), Faulty(), lambda: datetime.now(UTC)) as collector:
        answer = await asyncio.to_thread(export, collector.address, turn_json, {"Content-Type": JSON})
        assert {"fault": 1} == collector.stats().requests
    assert (500, 13) == (answer.status, json.loads(answer.body)["code"])
    assert "an internal error: RuntimeError at" in caplog.text
    assert "secret" not in caplog.text + answer.body.decode()
