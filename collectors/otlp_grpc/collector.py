"""OTLP over gRPC: `Export` of the trace, logs and metrics services. OK means on disk.

Source: OTLP 1.10, https://opentelemetry.io/docs/specs/otlp/#otlpgrpc.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self

import grpc  # type: ignore[import-untyped]  # its types are a distribution of their own
import grpc.aio  # type: ignore[import-untyped]
from pydantic import Field

from collectors._otlp_receiver.admission import Admission
from collectors._otlp_receiver.descriptors import RESERVED_DESCRIPTORS
from collectors._otlp_receiver.reception import Reception, rejection_message
from collectors._otlp_receiver.responses import export_response, status, told
from collectors._otlp_receiver.stats import ReceiverStats, receiver_stats
from collectors.otlp_grpc.peers import Peers
from collectors.otlp_grpc.server import GrpcServer
from monitor.access.addresses import entrance
from monitor.access.gate import gate
from monitor.errors import MalformedPayload, Overloaded, Permanent, Retryable
from monitor.http_server.limits import Limits
from monitor.payloads.otlp.fragments import OtlpSignal
from monitor.ports import Clock, Sink
from monitor.settings.listener import Listener
from monitor.settings.section import Duration

_MEBIBYTE = 1024 * 1024
_TYPICAL = 4 * _MEBIBYTE
"""Bytes assumed of a request: gRPC says its length only with the whole message."""
_STALLED = timedelta(seconds=2)
"""How long a message may take to arrive while others wait; gRPC shows no part of it before it is whole."""
_SHORTEST_RETRY = timedelta(seconds=1)
_SERVICES: Mapping[str, OtlpSignal | Literal["metrics"]] = {
    "opentelemetry.proto.collector.trace.v1.TraceService": "traces",
    "opentelemetry.proto.collector.logs.v1.LogsService": "logs",
    "opentelemetry.proto.collector.metrics.v1.MetricsService": "metrics",
}


_CODES: Mapping[str, grpc.StatusCode] = {
    "unauthenticated": grpc.StatusCode.UNAUTHENTICATED,
    "too_large": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "too_many_records": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "fault": grpc.StatusCode.INTERNAL,
}
"""By the reason of a `Permanent` error; INVALID_ARGUMENT for the rest."""


class Call(Protocol):
    """What is used of gRPC's `ServicerContext`."""

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]] | None:
        """Return what was sent ahead of the messages."""

    def peer(self) -> str:
        """Return the name of the other end of its connection."""

    async def read(self) -> object:
        """Return the next message, or `grpc.aio.EOF`."""

    def set_trailing_metadata(self, metadata: tuple[tuple[str, bytes], ...], /) -> None:
        """Set what follows the response."""

    async def abort(self, code: grpc.StatusCode, details: str, /) -> None:
        """End the call with an error; does not return."""


class Config(Listener):
    """The section of an `otlp_grpc` collector."""

    port: int = Field(default=4317, ge=0, le=65535)
    """0 takes any free port."""
    unix_socket: Path | None = None
    """Listen on this socket, for its owner and group, instead of on `host` and `port`."""
    max_body: int = Field(default=20 * _MEBIBYTE, gt=0)
    """Bytes of one request when unpacked; more is answered with RESOURCE_EXHAUSTED."""
    max_in_flight: int = Field(default=16 * _MEBIBYTE, gt=0)
    """Bytes of all requests in memory at once, 4 MiB for one that is being read; others wait unread, and while
    they do, those whose message has not come after 2 s give way. One request may go over it.
    One address holds half of it at the most."""
    body_timeout: Duration = timedelta(seconds=30)
    """How long a request may take to arrive."""
    max_connections: int = Field(default=1024, gt=0)
    """Connections open at once. Beyond, the one that did nothing for longest gives way; while all are busy, nobody
    comes in."""
    max_connections_per_peer: int = Field(default=512, gt=0)
    """Of these, from one address (of IPv6, a /64 network); a proxy in front is one address."""


def build(config: Config, sink: Sink, clock: Clock) -> OtlpGrpc:
    """Return the collector, not yet listening."""
    return OtlpGrpc(config, sink, clock)


class OtlpGrpc:
    """Receives OTLP over gRPC. Entered: it accepts. Exited: every call is answered, or was given 10 s."""

    def __init__(self, config: Config, sink: Sink, clock: Clock) -> None:
        self._config = config
        self._reception = Reception(sink, clock, max_body=config.max_body)
        self._admission = Admission(config.max_in_flight, stalled=_STALLED)
        self._peers = Peers(config.max_in_flight, left=_TYPICAL, stalled=_STALLED, clock=time.monotonic)
        self._gate = gate(config, "otlp_grpc", clock, application="h2")
        self._server = GrpcServer(
            host=config.host,
            port=config.port,
            unix_socket=config.unix_socket,
            gate=self._gate,
            limits=Limits(
                max_connections=config.max_connections,
                max_connections_per_peer=config.max_connections_per_peer,
                reserved_descriptors=RESERVED_DESCRIPTORS,
            ),
            longest=config.max_body,
            handlers={service: {"Export": handler} for service, handler in self._handlers()},
        )
        self._running = AsyncExitStack()

    @property
    def address(self) -> tuple[str, int] | tuple[str]:
        """Host and port that are listened on, the first of them, or the path of the socket."""
        return (str(self._config.unix_socket),) if self._config.unix_socket else self._server.address

    def entrance(self) -> str:
        """Return where it listens, or will, and who may come in; see `ports.Entrance`."""
        return entrance(self._server.places, self._config, local=self._config.unix_socket is not None)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as starting:
            starting.callback(self._reception.close)
            await starting.enter_async_context(self._server)
            self._running = starting.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._running.aclose()

    def health(self) -> Mapping[str, str]:
        """Return nothing: while it runs, what can go wrong is the sink's to tell."""
        return {}

    def stats(self) -> ReceiverStats:
        """Return a snapshot."""
        return receiver_stats(self._reception, self._gate, connections=self._server.connections)

    def _handlers(self) -> Iterator[tuple[str, grpc.RpcMethodHandler]]:
        """Yield the services. A stream of one message is a unary call on the wire, and is read when there is room."""
        for service, signal in _SERVICES.items():
            yield service, grpc.stream_unary_rpc_method_handler(functools.partial(self._export, signal))

    async def _export(self, signal: OtlpSignal | Literal["metrics"], _: object, call: Call) -> bytes:
        try:
            with self._reception.counting():
                peer = self._server.peer(call.peer())
                self._gate.access.admit(_authorization(call), peer)
                with self._peers.gate_of(peer) as peer_gate:
                    return await self._answer(signal, call, peer_gate)
        except Permanent as error:
            await _abort(call, _CODES.get(error.reason, grpc.StatusCode.INVALID_ARGUMENT), error)
        except TimeoutError:
            seconds = self._config.body_timeout.total_seconds()
            await _abort(call, grpc.StatusCode.UNAVAILABLE, Overloaded(f"no whole request within {seconds:g} s"))
        except Retryable as error:
            await _abort(call, grpc.StatusCode.UNAVAILABLE, error)
        return b""

    async def _answer(self, signal: OtlpSignal | Literal["metrics"], call: Call, peer_gate: Admission) -> bytes:
        within, typical = self._config.body_timeout, min(_TYPICAL, self._config.max_body)
        async with peer_gate.share(within=within) as of_peer, self._admission.share(within=within) as share:
            await of_peer.hold(typical)
            await share.hold(typical)
            message = await _message(call)
            await of_peer.hold_whole(len(message))
            await share.hold_whole(len(message))
            if signal == "metrics":
                self._reception.ignore_metrics()
                return b""
            taking = self._reception.take(message, signal, encoding="protobuf", coding="identity")
            del message
            with self._server.at_work(call.peer()):
                split = await taking
        return export_response(split.rejected, rejection_message(split))


async def _message(call: Call) -> bytes:
    message = await call.read()
    if not isinstance(message, bytes):
        raise MalformedPayload("the call contains no request", reason="no_message")
    return message


def _authorization(call: Call) -> bytes:
    for key, value in call.invocation_metadata() or ():
        if key == "authorization":
            return value if isinstance(value, bytes) else value.encode("utf-8", "replace")
    return b""


async def _abort(call: Call, code: grpc.StatusCode, error: Permanent | Retryable) -> None:
    """End the call with what is wrong, and for what may work later, when.

    UNAVAILABLE and not RESOURCE_EXHAUSTED, which exporters may only retry when they find and read `RetryInfo`.
    """
    wait = max(error.retry_after or _SHORTEST_RETRY, _SHORTEST_RETRY) if isinstance(error, Retryable) else None
    details = status(code.value[0], told(error), retry_after=wait)
    call.set_trailing_metadata((("grpc-status-details-bin", details),))
    await call.abort(code, told(error))
