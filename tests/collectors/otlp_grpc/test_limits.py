"""What a client may do to the gRPC receiver, frame by frame, and that others do not feel it."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import grpc
import pytest
import uvloop
from deadline import wait_until
from http2_client import (
    CONTINUATION,
    END_HEADERS,
    GOAWAY,
    HEADERS,
    MAX_CONCURRENT_STREAMS,
    PING,
    RST_STREAM,
    SETTINGS,
    Http2Client,
    call_fields,
    fields,
    frame,
)

from collectors.otlp_grpc import collector as otlp_grpc

if TYPE_CHECKING:
    from tests.services.otlp_service import Running, Serve

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
CALLS_AT_ONCE = 100
"""Of a connection."""


@pytest.fixture
def good(running: Running) -> Iterator[grpc.Channel]:
    """A sender that behaves."""
    host, port = running.grpc.address
    with grpc.insecure_channel(f"{host}:{port}", options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
        yield channel


def export(channel: grpc.Channel, body: bytes) -> bytes:
    """Return the reply."""
    reply: bytes = channel.unary_unary(EXPORT)(body, timeout=20)
    return reply


@pytest.mark.long
def test_pings_of_a_client_that_keeps_alive(running: Running, turn_pb: bytes) -> None:
    """A client that asks every 10 s whether we live, without a call, is not sent away."""
    host, port = running.grpc.address
    options = (
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.use_local_subchannel_pool", 1),
    )
    seen: list[grpc.ChannelConnectivity] = []
    with grpc.insecure_channel(f"{host}:{port}", options=options) as channel:
        export(channel, turn_pb)
        channel.subscribe(seen.append)
        wait_until(lambda: seen, "the state of the channel", seconds=10)
        with pytest.raises(TimeoutError):
            wait_until(lambda: seen != [grpc.ChannelConnectivity.READY], "the channel to be sent away", seconds=45)
        assert b"" == export(channel, turn_pb)


def test_flood_of_pings(running: Running, good: grpc.Channel, turn_pb: bytes) -> None:
    """Who asks all the time is sent away with GOAWAY; others are served."""
    with Http2Client(running.grpc.address) as client:
        client.send(frame(PING, 0, 0, b"whatever") * 500)
        assert GOAWAY in [one.kind for one in client.frames()]
    assert b"" == export(good, turn_pb)


def test_calls_begun_and_given_up(running: Running, good: grpc.Channel, turn_pb: bytes) -> None:
    """Who gives up calls by the hundred is cut off, and not let in for 2 s; who has a connection keeps it."""
    assert b"" == export(good, turn_pb)
    given_up = b"".join(
        frame(HEADERS, END_HEADERS, stream, fields(call_fields(EXPORT))) + frame(RST_STREAM, 0, stream, b"\0\0\0\x08")
        for stream in range(1, 403, 2)
    )

    def kept_out() -> bool:
        with Http2Client(running.grpc.address) as client:
            client.send(given_up)
            assert RST_STREAM not in [one.kind for one in client.frames()]
        with Http2Client(running.grpc.address) as again:
            return next(iter(again.frames()), None) is None

    # A machine that is busy for 2 s lets it in again.
    wait_until(kept_out, "a client that was cut off to be kept out", seconds=60)
    with Http2Client(running.grpc.address, source="127.0.0.2") as other:
        assert SETTINGS == next(iter(other.frames())).kind
    assert {"resets", "kept_out"} == set(running.grpc.stats().clients_refused)
    assert b"" == export(good, turn_pb)


def test_fields_without_end(running: Running, good: grpc.Channel, turn_pb: bytes) -> None:
    """Fifty megabytes of header fields, in frames that never end them, are not taken in; others are served."""
    field = fields([("x-padding", "x" * 16_000)])
    with Http2Client(running.grpc.address) as client:
        client.send(frame(HEADERS, 0, 1, fields(call_fields(EXPORT))))
        sent = 0
        while sent < 50_000_000 and client.send(frame(CONTINUATION, 0, 1, field)):
            sent += len(field)
        assert sent < 50_000_000
    assert {"head_too_large": 1} == running.grpc.stats().clients_refused
    assert b"" == export(good, turn_pb)


def test_fields_of_a_call(running: Running, turn_pb: bytes) -> None:
    """A call with more than 32 KiB of fields is refused, one with 10 KiB is not."""
    host, port = running.grpc.address
    with grpc.insecure_channel(f"{host}:{port}", options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
        method = channel.unary_unary(EXPORT)
        assert b"" == method(turn_pb, timeout=20, metadata=(("x-padding", "x" * 10_000),))
        with pytest.raises(grpc.RpcError) as caught:
            method(turn_pb, timeout=20, metadata=(("x-padding", "x" * 40_000),))
        assert grpc.StatusCode.RESOURCE_EXHAUSTED == caught.value.code()


def test_thousand_open_calls(running: Running, good: grpc.Channel, turn_pb: bytes) -> None:
    """A connection may have 100 calls open; of a thousand the rest is refused, and others are served meanwhile."""
    with Http2Client(running.grpc.address, source="127.0.0.2") as client:
        settings = next(one for one in client.frames() if one.kind == SETTINGS)
        limits = [settings.payload[at : at + 6] for at in range(0, len(settings.payload), 6)]
        assert 100 == {int.from_bytes(one[:2]): int.from_bytes(one[2:]) for one in limits}[MAX_CONCURRENT_STREAMS]
        calls = (frame(HEADERS, 4, stream, fields(call_fields(EXPORT))) for stream in range(1, 2001, 2))
        client.send(b"".join(calls))
        refused = (one for one in client.frames() if one.kind in {RST_STREAM, GOAWAY})
        assert next(refused)
        assert b"" == export(good, turn_pb)


def test_calls_that_begin_at_once(running: Running, good: grpc.Channel, turn_pb: bytes) -> None:
    """Fifteen thousand calls of one client that begin at once do not make the server cancel those of others."""
    assert b"" == export(good, turn_pb)
    begun = b"".join(
        frame(HEADERS, END_HEADERS, stream, fields(call_fields(EXPORT))) for stream in range(1, 2 * CALLS_AT_ONCE, 2)
    )
    method = good.unary_unary(EXPORT)
    with ExitStack() as stack:
        clients = [stack.enter_context(Http2Client(running.grpc.address, source="127.0.0.2")) for _ in range(150)]
        for client in clients:
            assert SETTINGS == next(iter(client.frames())).kind
        assert all(client.send(begun) for client in clients)
        missing = CALLS_AT_ONCE
        while missing:
            replies = [method.future(turn_pb, timeout=60) for _ in range(missing)]
            codes = Counter(reply.code() for reply in replies)
            # On a busy machine one may be told to come again, as a sender does.
            missing = codes.pop(grpc.StatusCode.UNAVAILABLE, 0)
            assert {grpc.StatusCode.OK} == set(codes)


def test_connections_of_one_peer(serve: Serve, turn_pb: bytes) -> None:
    """An address with all its connections idle loses the idlest to its own newcomer, and no other address feels it."""
    running = serve(grpc={"max_connections_per_peer": 4, "max_connections": 6})
    host, port = running.grpc.address
    with ExitStack() as crowd:

        def come() -> Http2Client:
            return crowd.enter_context(Http2Client((host, port), source="127.0.0.2"))

        def somebody_gave_way() -> bool:
            come()
            return running.grpc.stats().clients_refused.get("gave_way", 0) > 0

        first, *_ = (come() for _ in range(4))
        wait_until(lambda: running.grpc.stats().connections == 4, "four connections", seconds=10)
        with grpc.insecure_channel(f"{host}:{port}", options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
            assert b"" == export(channel, turn_pb)
            wait_until(somebody_gave_way, "the idlest to give way", seconds=10)
            assert {SETTINGS} >= {one.kind for one in first.frames()}
            assert b"" == export(channel, turn_pb)
    assert {"gave_way", "peer_full"} >= set(running.grpc.stats().clients_refused)
    wait_until(lambda: running.grpc.stats().connections == 0, "all to be gone", seconds=10)


def test_garbage(caplog: pytest.LogCaptureFixture) -> None:
    """Connections that say nothing of HTTP/2, or leave at once, end without an error of ours, on the loop of `run`."""

    def throw(address: tuple[str, int]) -> None:
        for number in range(200):
            with socket.create_connection(address, timeout=20) as client, suppress(ConnectionError):
                client.sendall(random.Random(number).randbytes(10_000 * (number % 2)))  # noqa: S311 -- any bytes do

    async def serve() -> None:
        config = otlp_grpc.Config(port=0)
        async with otlp_grpc.build(config, None, lambda: datetime.now(UTC)) as collector:  # type: ignore[arg-type]
            host, port, *_ = (*collector.address, 0)
            await asyncio.to_thread(throw, (str(host), int(port)))
            async with asyncio.timeout(20):
                while collector.stats().connections:  # noqa: ASYNC110 -- nobody tells when the last one is gone
                    await asyncio.sleep(0.01)

    uvloop.run(serve())
    assert [] == [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
