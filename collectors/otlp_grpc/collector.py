"""OTLP over gRPC: `Export` of the trace, logs and metrics services. OK means on disk.

Source: OTLP 1.10, https://opentelemetry.io/docs/specs/otlp/#otlpgrpc.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self
from urllib.parse import unquote

import grpc  # type: ignore[import-untyped]  # its types are a distribution of their own
import grpc.aio  # type: ignore[import-untyped]
from pydantic import Field

from collectors._otlp_receiver.admission import Admission
from collectors._otlp_receiver.reception import Reception, ReceptionStats, rejection_message
from collectors._otlp_receiver.responses import export_response, status, told
from monitor.access.addresses import bound_sockets, entrance, written
from monitor.access.credentials import Access
from monitor.access.refusals import Refusals, peer_name
from monitor.access.tls import Certificates, Pems
from monitor.errors import ConfigError, MalformedPayload, Overloaded, Permanent, Retryable
from monitor.http_server.server import UNIX_SOCKET_MODE, clear_unix_socket
from monitor.payloads.otlp.fragments import OtlpSignal
from monitor.ports import Clock, Sink
from monitor.settings.listener import Listener
from monitor.settings.section import Duration

_MEBIBYTE = 1024 * 1024
_TYPICAL = 4 * _MEBIBYTE
"""Bytes assumed of a request: gRPC says its length only with the whole message."""
_STALLED = timedelta(seconds=2)
"""How long a message may take to arrive while others wait; gRPC shows no part of it before it is whole."""
_CHUNK = 64 * 1024
_GRACE = timedelta(seconds=10)
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
        """Return where it comes from: `ipv4:`, `ipv6:` or `unix:` and an address."""

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
    they do, those whose message has not come after 2 s give way. One request may go over it."""
    body_timeout: Duration = timedelta(seconds=30)
    """How long a request may take to arrive."""


def build(config: Config, sink: Sink, clock: Clock) -> OtlpGrpc:
    """Return the collector, not yet listening."""
    return OtlpGrpc(config, sink, clock)


class OtlpGrpc:
    """Receives OTLP over gRPC. Entered: it accepts. Exited: every call is answered, or was given 10 s."""

    def __init__(self, config: Config, sink: Sink, clock: Clock) -> None:
        self._config = config
        self._reception = Reception(sink, clock, max_body=config.max_body)
        self._admission = Admission(config.max_in_flight, stalled=_STALLED)
        self._refusals = Refusals("otlp_grpc", clock)
        self._access = Access(config.auth, "otlp_grpc", self._refusals)
        self._certificates = Certificates(config.tls, "otlp_grpc") if config.tls else None
        self._server: grpc.aio.Server | None = None
        self._addresses: tuple[tuple[str, int], ...] = ()

    @property
    def address(self) -> tuple[str, int] | tuple[str]:
        """Host and port that are listened on, the first of them, or the path of the socket."""
        return (str(self._config.unix_socket),) if self._config.unix_socket else self._addresses[0]

    def entrance(self) -> str:
        """Return where it listens, or will, and who may come in; see `ports.Entrance`."""
        config = self._config
        if config.unix_socket is not None:
            return entrance((str(config.unix_socket),), config, local=True)
        return entrance([written(*one) for one in self._addresses or ((config.host, config.port),)], config)

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            ConfigError: the address cannot be bound.
        """
        options = (
            ("grpc.max_receive_message_length", self._config.max_body),
            ("grpc.so_reuseport", 0),
            # With it, gRPC takes in whole requests that nobody reads yet: 64 of 3 MB held 190 MB instead of 7.
            ("grpc.http2.bdp_probe", 0),
            # Else each connection may read into 4 MB at a time, which bounds nothing with many of them.
            ("grpc.experimental.tcp_read_chunk_size", _CHUNK // 4),
            ("grpc.experimental.tcp_max_read_chunk_size", _CHUNK),
        )
        server = grpc.aio.server(options=options)
        for service, handler in self._handlers():
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": handler}),))
        self._bind(server)
        await server.start()
        self._server = server
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            await self._server.stop(_GRACE.total_seconds())
            if self._config.unix_socket is not None:
                self._config.unix_socket.unlink(missing_ok=True)
        self._reception.close()

    def health(self) -> Mapping[str, str]:
        """Return nothing: while it runs, what can go wrong is the sink's to tell."""
        return {}

    def stats(self) -> ReceptionStats:
        """Return counts since the collector was built."""
        return self._reception.stats()

    def _bind(self, server: grpc.aio.Server) -> None:
        config = self._config
        if config.unix_socket is not None:
            clear_unix_socket(config.unix_socket, "otlp_grpc")
            self._add(server, f"unix:{config.unix_socket}")
            config.unix_socket.chmod(UNIX_SOCKET_MODE)
            return
        # gRPC names no reason for what it cannot bind, and takes no socket: it gets what could be bound a moment ago.
        sockets = bound_sockets(config.host, config.port, "otlp_grpc")
        self._addresses = tuple((str(host), int(port)) for host, port, *_ in (one.getsockname() for one in sockets))
        for one in sockets:
            one.close()
        for address in self._addresses:
            self._add(server, written(*address))

    def _add(self, server: grpc.aio.Server, place: str) -> None:
        try:
            if self._certificates is None:
                server.add_insecure_port(place)
            else:
                server.add_secure_port(place, _credentials(self._certificates))
        except RuntimeError:
            raise ConfigError(f"cannot listen on {place}", where="otlp_grpc") from None

    def _handlers(self) -> Iterator[tuple[str, grpc.RpcMethodHandler]]:
        """Yield the services. A stream of one message is a unary call on the wire, and is read when there is room."""
        for service, signal in _SERVICES.items():
            yield service, grpc.stream_unary_rpc_method_handler(functools.partial(self._export, signal))

    async def _export(self, signal: OtlpSignal | Literal["metrics"], _: object, call: Call) -> bytes:
        try:
            with self._reception.counting():
                self._access.admit(_authorization(call), _peer(call))
                return await self._answer(signal, call)
        except Permanent as error:
            await _abort(call, _CODES.get(error.reason, grpc.StatusCode.INVALID_ARGUMENT), error)
        except TimeoutError:
            seconds = self._config.body_timeout.total_seconds()
            await _abort(call, grpc.StatusCode.UNAVAILABLE, Overloaded(f"no whole request within {seconds:g} s"))
        except Retryable as error:
            await _abort(call, grpc.StatusCode.UNAVAILABLE, error)
        return b""

    async def _answer(self, signal: OtlpSignal | Literal["metrics"], call: Call) -> bytes:
        async with self._admission.share(within=self._config.body_timeout) as share:
            await share.hold(min(_TYPICAL, self._config.max_body))
            message = await _message(call)
            await share.hold_whole(len(message))
            if signal == "metrics":
                self._reception.ignore_metrics()
                return b""
            taking = self._reception.take(message, signal, encoding="protobuf", coding="identity")
            del message
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


def _peer(call: Call) -> str:
    """Return the address that a call comes from, without its port."""
    kind, _, address = call.peer().partition(":")
    host = unquote(address.rpartition(":")[0]).strip("[]")
    return peer_name(host if kind in {"ipv4", "ipv6"} else None)


def _credentials(certificates: Certificates) -> grpc.ServerCredentials:
    """Return credentials whose every handshake uses the files of that moment."""

    def configuration(pems: Pems) -> grpc.ServerCertificateConfiguration:
        pair = (pems.key, pems.certificate)
        return grpc.ssl_server_certificate_configuration((pair,), root_certificates=pems.client_ca)

    used = certificates.pems()

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal used
        pems = certificates.pems()
        if pems is used:
            return None
        used = pems
        return configuration(pems)

    return grpc.dynamic_ssl_server_credentials(
        configuration(used), renewed, require_client_authentication=used.client_ca is not None
    )


async def _abort(call: Call, code: grpc.StatusCode, error: Permanent | Retryable) -> None:
    """End the call with what is wrong, and for what may work later, when.

    UNAVAILABLE and not RESOURCE_EXHAUSTED, which exporters may only retry when they find and read `RetryInfo`.
    """
    wait = max(error.retry_after or _SHORTEST_RETRY, _SHORTEST_RETRY) if isinstance(error, Retryable) else None
    details = status(code.value[0], told(error), retry_after=wait)
    call.set_trailing_metadata((("grpc-status-details-bin", details),))
    await call.abort(code, told(error))
