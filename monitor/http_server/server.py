"""Serves an ASGI application on uvicorn inside the caller's event loop, without signal handlers or access log.

Of uvicorn it takes the protocol and the end; accepting is `door`'s, which knows how much a client may hold.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import uvicorn

from monitor.access.addresses import listening_sockets, written
from monitor.access.refusals import Refusals
from monitor.access.tls import Certificates
from monitor.http_server.connection import Connection
from monitor.http_server.door import Door
from monitor.http_server.limits import Limits

if TYPE_CHECKING:
    from uvicorn._types import ASGIApplication  # uvicorn keeps the type of its own argument private

log = logging.getLogger(__name__)

_FOR_PEOPLE = Limits()
_COME_BACK = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Server(AbstractAsyncContextManager["Server"]):
    """One listening application. Entered: it accepts. Exited: requests under way got `grace` seconds to be answered."""

    def __init__(
        self,
        application: ASGIApplication,
        *,
        host: str,
        port: int,
        where: str,
        refusals: Refusals,
        limits: Limits = _FOR_PEOPLE,
        unix_socket: Path | None = None,
        certificates: Certificates | None = None,
        backlog: int = 1024,
        grace: int = 10,
    ) -> None:
        self._host, self._port, self._where, self._backlog = host, port, where, backlog
        self._unix_socket = unix_socket
        self._config = _configuration(application, limits, grace=grace)
        self._limits = limits
        self._server = uvicorn.Server(self._config)
        self._sockets: tuple[socket.socket, ...] = ()
        # There are none of uvicorn's own to close in the end.
        self._server.servers = []
        self._door = Door(
            limits, self._connection, refusals, where=where, certificates=certificates, come_back=_COME_BACK
        )
        self._accepting = AsyncExitStack()
        self._loop: asyncio.Task[None] | None = None

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Hosts and port that are listened on; the port is the real one even if 0 was asked for."""
        if not self._sockets:
            raise RuntimeError("the server is not running")
        return tuple((str(host), int(port)) for host, port, *_ in (one.getsockname() for one in self._sockets))

    @property
    def address(self) -> tuple[str, int]:
        """The first of `addresses`."""
        return self.addresses[0]

    @property
    def places(self) -> tuple[str, ...]:
        """What `addresses` are, or will be, as people write them."""
        known = self.addresses if self._sockets else ((self._host, self._port),)
        return tuple(written(*address) for address in known)

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            ConfigError: the address cannot be bound.
        """
        self._sockets = listening_sockets(
            self._host, self._port, self._where, unix_socket=self._unix_socket, backlog=self._backlog
        )
        # uvicorn's serve() takes over the process's signals, which belong to whoever runs us; its three steps do not.
        self._config.load()
        self._server.lifespan = self._config.lifespan_class(self._config)
        await self._accepting.enter_async_context(self._door.accepting(self._sockets))
        self._loop = asyncio.create_task(self._server.main_loop(), name=f"serve {self._where}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop accepting, answer what is under way, close."""
        await self._accepting.aclose()
        self._server.should_exit = True
        if self._loop is not None:
            await self._loop
        if self._sockets:
            await self._server.shutdown(sockets=list(self._sockets))
            if self._unix_socket is not None:
                self._unix_socket.unlink(missing_ok=True)

    @property
    def connections(self) -> int:
        """Number of connections that are open now."""
        return self._door.connections

    def _connection(
        self, progressed: Callable[[], None], refused: Callable[[str, str], None], lost: Callable[[], None]
    ) -> Connection:
        return Connection(
            self._config, self._server.server_state, self._limits, progressed=progressed, refused=refused, lost=lost
        )


def _configuration(application: ASGIApplication, limits: Limits, *, grace: int) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        # Else uvicorn takes a bound method for an application of ASGI 2.
        interface="asgi3",
        http="httptools",
        loop="none",
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=math.ceil(limits.keep_alive.total_seconds()),
        timeout_graceful_shutdown=grace,
    )
