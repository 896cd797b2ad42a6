"""The gRPC server and what stands before it: where it listens, over TLS or not, and its limits."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc  # type: ignore[import-untyped]  # its types are a distribution of their own
import grpc.aio  # type: ignore[import-untyped]

from collectors.otlp_grpc.private_folder import private_folder
from collectors.otlp_grpc.relay import FLOODS, Relay
from monitor.access.addresses import listening_sockets, written
from monitor.access.gate import Gate
from monitor.http_server.door import Door
from monitor.http_server.limits import Limits

_WHERE = "otlp_grpc"
_GRACE = timedelta(seconds=10)
_CHUNK = 64 * 1024
_KIBIBYTE = 1024


def _milliseconds(time: timedelta) -> int:
    return time // timedelta(milliseconds=1)


_LIMITS: Mapping[str, int] = {
    # With it, gRPC takes in whole requests that nobody reads yet: 64 of 3 MB held 190 MB instead of 7.
    "grpc.http2.bdp_probe": 0,
    # Else each connection may read into 4 MB at a time, which bounds nothing with many of them.
    "grpc.experimental.tcp_read_chunk_size": _CHUNK // 4,
    "grpc.experimental.tcp_max_read_chunk_size": _CHUNK,
    # Calls that are open at once on a connection; more wait at the client (RFC 9113, 5.1.2).
    "grpc.max_concurrent_streams": 100,
    # Calls that came and were not begun. Over the first, gRPC cancels some of anybody's, over the second all; by
    # default they are 1,000 and 3,000, which 10 connections of one client fill.
    "grpc.server.max_pending_requests": 20_000,
    "grpc.server.max_pending_requests_hard_limit": 40_000,
    # A call's header fields: over the first, gRPC begins to refuse, beyond the second it always does.
    "grpc.max_metadata_size": 16 * _KIBIBYTE,
    "grpc.absolute_max_metadata_size": 32 * _KIBIBYTE,
    # Clients that ask every 10 s whether we live, as many are set up to, are sent away by default (5 minutes).
    "grpc.http2.min_ping_interval_without_data_ms": _milliseconds(timedelta(seconds=5)),
    "grpc.keepalive_permit_without_calls": 1,
    # A client that is gone without a word is noticed.
    "grpc.keepalive_time_ms": _milliseconds(timedelta(minutes=1)),
    "grpc.keepalive_timeout_ms": _milliseconds(timedelta(seconds=20)),
    "grpc.server_handshake_timeout_ms": _milliseconds(timedelta(seconds=10)),
    # Both end with a word (GOAWAY), after which clients connect again by themselves.
    "grpc.max_connection_idle_ms": _milliseconds(timedelta(minutes=5)),
    "grpc.max_connection_age_ms": _milliseconds(timedelta(hours=1)),
    "grpc.max_connection_age_grace_ms": _milliseconds(timedelta(minutes=1)),
}


class GrpcServer(AbstractAsyncContextManager["GrpcServer"]):
    """Entered: it accepts. Exited: every call is answered, or was given 10 s.

    Args:
        host: see `monitor.settings.listener.Listener`.
        port: 0 takes any free one.
        unix_socket: listened on instead of host and port.
        gate: what stands before it.
        limits: what clients may hold.
        longest: bytes of one message.
        handlers: of methods, by service and name.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        unix_socket: Path | None,
        gate: Gate,
        limits: Limits,
        longest: int,
        handlers: Mapping[str, Mapping[str, grpc.RpcMethodHandler]],
    ) -> None:
        self._host, self._port, self._unix_socket = host, port, unix_socket
        self._gate, self._limits = gate, limits
        self._longest, self._handlers = longest, handlers
        self._sockets: tuple[socket.socket, ...] = ()
        self._relay: Relay | None = None
        self._door: Door | None = None
        self._running = AsyncExitStack()

    @property
    def address(self) -> tuple[str, int]:
        """The first host that is listened on, and the port, the real one even if 0 was asked for."""
        host, port = self._sockets[0].getsockname()[:2]
        return str(host), int(port)

    @property
    def places(self) -> tuple[str, ...]:
        """Where it listens, or will, as people write it."""
        if self._unix_socket is not None:
            return (str(self._unix_socket),)
        known = [one.getsockname()[:2] for one in self._sockets] or [(self._host, self._port)]
        return tuple(written(str(host), int(port)) for host, port in known)

    @property
    def connections(self) -> int:
        """Number of connections that are open now."""
        return self._door.connections if self._door else 0

    def peer(self, said: str) -> str:
        """Return the address that a call comes from; `said` is what gRPC calls the other side."""
        return self._started.peer(said)

    def at_work(self, said: str) -> AbstractContextManager[None]:
        """Mark the client of a call as one that waits for us, not we for it."""
        return self._started.at_work(said)

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            ConfigError: the address cannot be bound.
        """
        async with AsyncExitStack() as starting:
            self._sockets = listening_sockets(self._host, self._port, _WHERE, unix_socket=self._unix_socket)
            starting.callback(self._close_sockets)
            inside = starting.enter_context(private_folder(_WHERE)) / "server"
            relay = self._relay = Relay(inside)
            server = self._server(inside)
            starting.push_async_callback(relay.aclose)
            await server.start()
            starting.push_async_callback(server.stop, _GRACE.total_seconds())
            door = self._door = Door(
                self._limits,
                relay.client,
                self._gate.refusals,
                where=_WHERE,
                certificates=self._gate.certificates,
                floods=FLOODS,
            )
            await starting.enter_async_context(door.accepting(self._sockets))
            self._running = starting.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop accepting, answer what is under way, close."""
        await self._running.aclose()

    @property
    def _started(self) -> Relay:
        if self._relay is None:
            raise RuntimeError("the server is not running")
        return self._relay

    def _server(self, inside: Path) -> grpc.aio.Server:
        options = (("grpc.max_receive_message_length", self._longest), *_LIMITS.items())
        server = grpc.aio.server(options=options)
        for service, methods in self._handlers.items():
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
        server.add_insecure_port(f"unix:{inside}")
        return server

    def _close_sockets(self) -> None:
        for one in self._sockets:
            one.close()
        if self._unix_socket is not None:
            self._unix_socket.unlink(missing_ok=True)
