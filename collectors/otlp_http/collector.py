"""OTLP over HTTP: protobuf and JSON on `/v1/traces`, `/v1/logs` and `/v1/metrics`. 200 means on disk.

Source: OTLP 1.10, https://opentelemetry.io/docs/specs/otlp/#otlphttp.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pydantic import Field

from collectors._otlp_receiver.admission import Admission, Share
from collectors._otlp_receiver.descriptors import RESERVED_DESCRIPTORS
from collectors._otlp_receiver.reception import Reception, rejection_message
from collectors._otlp_receiver.stats import ReceiverStats, receiver_stats
from collectors.otlp_http.cors import Origins
from collectors.otlp_http.reply import Reply, accepted, failed, no_content
from collectors.otlp_http.request import Head, body_of, drain, encoding_of, head_of
from monitor.access.addresses import entrance
from monitor.access.gate import gate
from monitor.access.refusals import peer_name
from monitor.errors import Overloaded, Permanent, Retryable
from monitor.http_server.limits import Limits
from monitor.http_server.server import Server
from monitor.ports import Clock, Sink
from monitor.settings.listener import Listener
from monitor.settings.section import Duration

if TYPE_CHECKING:
    from uvicorn._types import (
        ASGIReceiveCallable,
        ASGISendCallable,
        HTTPScope,
        Scope,
    )  # uvicorn keeps its types private

_MEBIBYTE = 1024 * 1024


class Config(Listener):
    """The section of an `otlp_http` collector."""

    port: int = Field(default=4318, ge=0, le=65535)
    """0 takes any free port."""
    unix_socket: Path | None = None
    """Listen on this socket, for its owner and group, instead of on `host` and `port`."""
    cors_origins: tuple[str, ...] = ()
    """Web pages that may send, as origins: `https://chat.example.org`, `https://*.example.org`, `*` for all."""
    max_body: int = Field(default=20 * _MEBIBYTE, gt=0)
    """Bytes of one request, as sent and when unpacked; more is answered with 413."""
    max_in_flight: int = Field(default=12 * _MEBIBYTE, gt=0)
    """Bytes of all requests in memory at once, as they arrive; others wait unread in their connections, and while
    they do, those whose bytes do not come give way. One request may go over it."""
    body_timeout: Duration = timedelta(seconds=30)
    """How long a request's body may take to arrive."""
    max_head: int = Field(default=32 * 1024, gt=0)
    """Bytes of a request's head; more, or more than 100 fields, is answered with 431."""
    head_timeout: Duration = timedelta(seconds=10)
    """How long a request's head, or a TLS handshake, may take to arrive."""
    max_connections: int = Field(default=4096, gt=0)
    """Connections open at once. Beyond, the one that did nothing for longest gives way; while all are busy, 503."""
    max_connections_per_peer: int = Field(default=1024, gt=0)
    """Of these, from one address (of IPv6, a /64 network); a proxy in front is one address."""


def build(config: Config, sink: Sink, clock: Clock) -> OtlpHttp:
    """Return the collector, not yet listening."""
    return OtlpHttp(config, sink, clock)


class OtlpHttp:
    """Receives OTLP over HTTP. Entered: it accepts. Exited: every request is answered."""

    def __init__(self, config: Config, sink: Sink, clock: Clock) -> None:
        self._config = config
        self._reception = Reception(sink, clock, max_body=config.max_body)
        self._admission = Admission(config.max_in_flight, spare=config.max_in_flight // 4)
        self._gate = gate(config, "otlp_http", clock)
        self._origins = Origins(config.cors_origins)
        self._server = Server(
            self,
            host=config.host,
            port=config.port,
            where="otlp_http",
            refusals=self._gate.refusals,
            limits=Limits(
                max_connections=config.max_connections,
                max_connections_per_peer=config.max_connections_per_peer,
                max_head=config.max_head,
                head_timeout=config.head_timeout,
                rest_timeout=config.body_timeout,
                reserved_descriptors=RESERVED_DESCRIPTORS,
            ),
            unix_socket=config.unix_socket,
            certificates=self._gate.certificates,
        )
        self._running = AsyncExitStack()

    @property
    def address(self) -> tuple[str, int] | tuple[str]:
        """Host and port that are listened on, the first of them, or the path of the socket."""
        return (str(self._config.unix_socket),) if self._config.unix_socket else self._server.address

    def entrance(self) -> str:
        """Return where it listens, or will, and who may come in; see `ports.Entrance`."""
        if self._config.unix_socket is not None:
            return entrance((str(self._config.unix_socket),), self._config, local=True)
        return entrance(self._server.places, self._config)

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

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Answer one request: the ASGI 3 interface."""
        if scope["type"] != "http":
            return
        fields = dict(scope["headers"])
        preflight = self._origins.preflight(scope["method"], fields)
        if preflight is not None:
            await no_content(send, preflight)
            return
        try:
            reply = await self._answer(scope, fields, receive)
        except ConnectionResetError:
            return
        except TimeoutError:
            seconds = self._config.body_timeout.total_seconds()
            late = Overloaded(f"the body did not arrive within {seconds:g} s")
            reply = failed(late, encoding_of(fields) or "json", hang_up=True)
        except (Permanent, Retryable) as error:
            reply = failed(error, encoding_of(fields) or "json")
        await reply.send(send, self._origins.shared(fields))

    async def _answer(self, scope: HTTPScope, fields: Mapping[bytes, bytes], receive: ASGIReceiveCallable) -> Reply:
        config = self._config
        with self._reception.counting():
            self._gate.access.admit(fields.get(b"authorization", b""), _peer(scope))
            head = head_of(scope["method"], scope["path"], fields, max_body=config.max_body)
            if head.signal == "metrics":
                async with asyncio.timeout(config.body_timeout.total_seconds()):
                    await drain(receive)
                self._reception.ignore_metrics()
                return accepted(head.signal, head.encoding)
            async with self._admission.share(within=config.body_timeout) as share:
                split = await self._reception.take(
                    await self._body(head, receive, share), head.signal, encoding=head.encoding, coding=head.coding
                )
            return accepted(head.signal, head.encoding, rejected=split.rejected, message=rejection_message(split))

    async def _body(self, head: Head, receive: ASGIReceiveCallable, share: Share) -> bytes:
        """Return the body, with room for what it unpacks to."""
        body = await body_of(receive, share, most=self._config.max_body)
        await share.hold_whole(head.estimate(len(body), most=self._config.max_body))
        return body


def _peer(scope: HTTPScope) -> str:
    client = scope["client"]
    return peer_name(client[0] if client else None)
