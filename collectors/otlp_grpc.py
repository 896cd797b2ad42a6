"""OTLP over gRPC: `Export` of the trace, logs and metrics services. OK means on disk.

Source: OTLP 1.10, https://opentelemetry.io/docs/specs/otlp/#otlpgrpc.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Literal, Protocol, Self

import grpc  # type: ignore[import-untyped]  # its types are a distribution of their own
import grpc.aio  # type: ignore[import-untyped]
from pydantic import Field

from collectors._otlp import OtlpSignal
from collectors._otlp_admission import Admission
from collectors._otlp_reception import Reception, ReceptionStats, left_out
from collectors._otlp_status import export_response, status
from monitor.errors import ConfigError, MalformedPayload, Overloaded, Permanent, Retryable
from monitor.ports import Clock, Sink
from monitor.settings import Duration, Section

_MEBIBYTE = 1024 * 1024
_TYPICAL = 4 * _MEBIBYTE
"""Bytes assumed of a request: gRPC tells its length only with the whole message."""
_GRACE = timedelta(seconds=10)
_SHORTEST_RETRY = timedelta(seconds=1)
_SERVICES: Mapping[str, OtlpSignal | Literal["metrics"]] = {
    "opentelemetry.proto.collector.trace.v1.TraceService": "traces",
    "opentelemetry.proto.collector.logs.v1.LogsService": "logs",
    "opentelemetry.proto.collector.metrics.v1.MetricsService": "metrics",
}


class Call(Protocol):
    """What is used of gRPC's `ServicerContext`."""

    async def read(self) -> object:
        """Return the next message, or `grpc.aio.EOF`."""

    def set_trailing_metadata(self, metadata: tuple[tuple[str, bytes], ...], /) -> None:
        """Set what follows the response."""

    async def abort(self, code: grpc.StatusCode, details: str, /) -> None:
        """End the call with an error; does not return."""


class Config(Section):
    """The section of an `otlp_grpc` collector."""

    host: str = "127.0.0.1"
    port: int = Field(default=4317, ge=0, le=65535)
    """0 takes any free port."""
    max_body: int = Field(default=20 * _MEBIBYTE, gt=0)
    """Bytes of one request when unpacked; more is answered with RESOURCE_EXHAUSTED."""
    max_in_flight: int = Field(default=24 * _MEBIBYTE, gt=0)
    """Bytes of all requests in memory at once, counting 4 MiB for each; others wait unread in their connections."""
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
        self._admission = Admission(config.max_in_flight)
        self._server: grpc.aio.Server | None = None
        self._port = 0

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that are listened on; the port is the real one even if 0 was asked for."""
        return self._config.host, self._port

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
        )
        server = grpc.aio.server(options=options)
        for service, handler in self._handlers():
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": handler}),))
        host = f"[{self._config.host}]" if ":" in self._config.host else self._config.host
        try:
            self._port = server.add_insecure_port(f"{host}:{self._config.port}")
        except RuntimeError:
            raise ConfigError(f"otlp_grpc: cannot listen on {host}:{self._config.port}") from None
        await server.start()
        self._server = server
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            await self._server.stop(_GRACE.total_seconds())
        self._reception.close()

    def health(self) -> Mapping[str, str]:
        """Return nothing: while it runs, what can go wrong is the sink's to tell."""
        return {}

    def stats(self) -> ReceptionStats:
        """Return counts since the collector was built."""
        return self._reception.stats()

    def _handlers(self) -> Iterator[tuple[str, grpc.RpcMethodHandler]]:
        """Yield the services. A stream of one message is a unary call on the wire, and is read when there is room."""
        for service, signal in _SERVICES.items():
            yield service, grpc.stream_unary_rpc_method_handler(functools.partial(self._export, signal))

    async def _export(self, signal: OtlpSignal | Literal["metrics"], _: object, call: Call) -> bytes:
        try:
            with self._reception.counting():
                return await self._answer(signal, call)
        except Permanent as error:
            await _abort(call, grpc.StatusCode.INVALID_ARGUMENT, error)
        except TimeoutError:
            seconds = self._config.body_timeout.total_seconds()
            await _abort(call, grpc.StatusCode.UNAVAILABLE, Overloaded(f"no whole request within {seconds:g} s"))
        except Retryable as error:
            await _abort(call, grpc.StatusCode.UNAVAILABLE, error)
        return b""

    async def _answer(self, signal: OtlpSignal | Literal["metrics"], call: Call) -> bytes:
        async with self._admission.hold(min(_TYPICAL, self._config.max_body)):
            if signal == "metrics":
                await self._message(call)
                self._reception.ignore_metrics()
                return b""
            found = await self._reception.take(
                await self._message(call), signal, encoding="protobuf", coding="identity"
            )
        return export_response(found.rejected, left_out(found))

    async def _message(self, call: Call) -> bytes:
        async with asyncio.timeout(self._config.body_timeout.total_seconds()):
            message = await call.read()
        if not isinstance(message, bytes):
            raise MalformedPayload("the call holds no request", reason="no_message")
        return message


async def _abort(call: Call, code: grpc.StatusCode, error: Permanent | Retryable) -> None:
    """End the call with what is wrong, and for what may work later, when.

    UNAVAILABLE and not RESOURCE_EXHAUSTED, which exporters may only retry when they find and read `RetryInfo`.
    """
    wait = max(error.retry_after or _SHORTEST_RETRY, _SHORTEST_RETRY) if isinstance(error, Retryable) else None
    details = status(code.value[0], str(error), retry_after=wait)
    call.set_trailing_metadata((("grpc-status-details-bin", details),))
    await call.abort(code, str(error))
