"""An HTTP server of ours with a small application, and clients that speak to it byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from monitor.access.refusals import Refusals
from monitor.access.tls import Certificates
from monitor.http_server.limits import Limits
from monitor.http_server.server import Server

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, HTTPScope, Scope

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Echo:
    """Answers with the length of what was sent; `/early` at once, before any of the body, `/large` with 40 MB."""

    def __init__(self) -> None:
        self.inside = 0
        """Requests under way."""
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Answer one request."""
        assert scope["type"] == "http"
        self.inside += 1
        try:
            await self._answer(scope, receive, send)
        finally:
            self.inside -= 1

    async def _answer(self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        size, more = 0, scope["path"] != "/early"
        while more:
            event = await receive()
            if event["type"] != "http.request":
                return
            size += len(event["body"])
            more = event["more_body"]
        await self.go_on.wait()
        body = b"x" * 40_000_000 if scope["path"] == "/large" else b"%d" % size
        headers = ((b"content-length", b"%d" % len(body)),)
        await send({"type": "http.response.start", "status": 200, "headers": headers, "trailers": False})
        await send({"type": "http.response.body", "body": body, "more_body": False})


@asynccontextmanager
async def serving(
    limits: Limits, *, certificates: Certificates | None = None
) -> AsyncIterator[tuple[Server, Refusals, Echo]]:
    """A server on a free port."""
    refusals, echo = Refusals("here", lambda: datetime.now(UTC)), Echo()
    server = Server(
        echo, host="127.0.0.1", port=0, where="here", refusals=refusals, limits=limits, certificates=certificates
    )
    async with server:
        yield server, refusals, echo


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def say(self, *pieces: bytes) -> None:
        """Send them, one after the other, as far as the other side takes them."""
        with suppress(ConnectionError):
            for piece in pieces:
                self._writer.write(piece)
                await self._writer.drain()

    async def answer(self) -> bytes:
        """Return one reply with a body of a stated length."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split()[0])
        return head + await self._reader.readexactly(length)

    async def rest(self) -> bytes:
        """Return what comes until the other side closes."""
        received = b""
        with suppress(ConnectionError):
            while piece := await self._reader.read(65536):
                received += piece
        return received

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


@asynccontextmanager
async def client_of(server: Server, *, address: str = "127.0.0.1") -> AsyncIterator[Client]:
    """A connection to the server, from an address of the loopback network."""
    client = Client(*await asyncio.open_connection(*server.address, local_addr=(address, 0)))
    try:
        yield client
    finally:
        await client.close()


async def until(condition: Callable[[], object], what: str) -> None:
    """Return once `condition()` is true.

    Raises:
        TimeoutError: it stayed false for 20 s; the message says `what` was awaited.
    """
    try:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110 -- what is awaited is another part's, without an event
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise TimeoutError(f"waiting for {what}") from None
