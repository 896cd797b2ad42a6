"""Connections in front of the gRPC server, which itself listens on a socket that only this process reaches.

gRPC for Python knows no limit on the connections of one peer. Its TLS resumes the sessions of clients without their
certificates, keeps those that are trusted no more, and says who was refused in a format of its own, without an address.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast
from urllib.parse import unquote

from collectors.otlp_grpc.frames import Frames, Refusal
from monitor.access.refusals import peer_name

_PROGRESS = 4 * 1024
"""Bytes that count as progress: who sends a byte now and then makes none."""
_MOST_BYTES, _MOST_FIELDS = 64 * 1024, 128
"""Of a call's fields, on the wire; the server, which counts their bytes unpacked, refuses fewer with an answer."""
_MOST_SMALL_FRAMES = 1000
"""A second, of one connection: one of few bytes takes as long as one of thousands."""
_MOST_RESETS = 200
"""Calls given up a second, of one connection: twice as many as it may have open, and each is work for the server."""
FLOODS: frozenset[Refusal] = frozenset({"small_frames", "resets"})
"""Of which each connection may do a little before it is cut off, so that the next one must not follow at once.

With 50 such connections a second, gRPC had more calls waiting than it takes, and gave up those of others.
"""
_TEXTS: Mapping[Refusal, str] = {
    "head_too_large": f"a call has more than {_MOST_FIELDS} fields, or more than {_MOST_BYTES} bytes of them",
    "small_frames": f"more than {_MOST_SMALL_FRAMES} frames of a few bytes came in a second",
    "resets": f"more than {_MOST_RESETS} calls were given up in a second",
    "not_http": "what was sent is not HTTP/2",
}
_PREFACE_SECONDS = 10.0
_NEWCOMER_PATIENCE, _PATIENCE = 0.1, 1.0
"""Seconds without progress after which a connection may have to give way, before its first call and afterwards."""


class Relay:
    """Carries what clients and the server send each other.

    Args:
        inside: the server's Unix socket; the names of our ends of its connections begin with it.
    """

    def __init__(self, inside: Path) -> None:
        self._inside = inside
        self._clients: dict[str, Client] = {}
        self._opening: set[asyncio.Task[None]] = set()
        self._made = 0

    def client(
        self, progressed: Callable[[], None], refused: Callable[[str, str], None], lost: Callable[[], None]
    ) -> Client:
        """Return the protocol of one client; what is called when it makes progress, is cut off, and is gone."""
        self._made += 1
        name = f"{self._inside}.{self._made}"

        def forget() -> None:
            self._clients.pop(name, None)
            lost()

        client = Client(lambda: self._open(name), progressed, refused, forget)
        self._clients[name] = client
        return client

    def peer(self, said: str) -> str:
        """Return the address that a call comes from; `said` is what gRPC calls the other side."""
        client = self._client(said)
        return client.peer if client else peer_name(None)

    @contextmanager
    def at_work(self, said: str) -> Iterator[None]:
        """Mark the client of a call as one that waits for us, not we for it."""
        client = self._client(said)
        if client is None:
            yield
            return
        client.calls += 1
        client.progress()
        try:
            yield
        finally:
            client.calls -= 1
            client.progress()

    async def aclose(self) -> None:
        """Close what is open still."""
        for client in tuple(self._clients.values()):
            client.give_way()
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)

    def _client(self, said: str) -> Client | None:
        return self._clients.get(unquote(said.removeprefix("unix:")))

    def _open(self, name: str) -> None:
        task = asyncio.get_running_loop().create_task(self._connect(name), name="otlp_grpc relay")
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _connect(self, name: str) -> None:
        """Connect to the server under this name, by which it knows the calls of one client."""
        client = self._clients.get(name)
        if client is None:
            return
        try:
            client.join(await self._connected(name, client))
        except OSError:  # the server is stopping
            client.give_way()
        except BaseException:
            client.give_way()
            raise

    async def _connected(self, name: str, client: Client) -> asyncio.Transport:
        loop = asyncio.get_running_loop()
        opening = socket.socket(socket.AF_UNIX)
        try:
            opening.setblocking(False)  # noqa: FBT003 -- the standard library's
            opening.bind(name)
            os.unlink(name)  # noqa: PTH108 -- it is gone at once
            await loop.sock_connect(opening, str(self._inside))
        except BaseException:
            opening.close()
            raise
        try:
            transport, _ = await loop.create_unix_connection(lambda: _Inside(client), sock=opening)
        except BaseException:
            # The loop has closed the descriptor, whose number may be another connection's already.
            opening.detach()
            raise
        return transport


class Client(asyncio.Protocol):
    """A client's end of a connection.

    Args:
        begin: called when it speaks HTTP/2.
        progressed: called when it did something.
        refused: called with why (reason, text) when it is cut off for what it sent.
        lost: called when it is gone.
    """

    def __init__(
        self,
        begin: Callable[[], None],
        progressed: Callable[[], None],
        refused: Callable[[str, str], None],
        lost: Callable[[], None],
    ) -> None:
        self._begin, self._progressed, self._refused, self._lost = begin, progressed, refused, lost
        self._frames = Frames(
            most_bytes=_MOST_BYTES,
            most_fields=_MOST_FIELDS,
            most_small=_MOST_SMALL_FRAMES,
            most_resets=_MOST_RESETS,
        )
        self._transport: asyncio.Transport | None = None
        self._inside: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self._piece = 0
        self._is_new = True
        self._progress_at = asyncio.get_running_loop().time()
        self.calls = 0
        """That wait for us."""
        self.peer = peer_name(None)

    def join(self, inside: asyncio.Transport) -> None:
        """Send what it sent, and sends, to the server."""
        self._inside = inside
        if self._transport is None or self._transport.is_closing():
            inside.close()
            return
        if inside.is_closing():
            self._transport.close()
            return
        inside.writelines(self._early)
        self._early.clear()
        self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        """Send it what the server sends, if it is there still: uvloop raises else."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Close, when it has taken what is on its way."""
        if self._transport is not None:
            self._transport.close()

    def let_read(self, *, go_on: bool) -> None:
        """Stop reading from it, or go on."""
        if self._transport is not None and not self._transport.is_closing():
            if go_on:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def progress(self) -> None:
        """Note that it did something."""
        self._is_new = False
        self._progress_at = asyncio.get_running_loop().time()
        self._progressed()

    def may_give_way(self, now: float) -> bool:
        """Return whether it has done nothing for so long that somebody else may have its place."""
        patience = _NEWCOMER_PATIENCE if self._is_new else _PATIENCE
        return not self.calls and now - self._progress_at >= patience

    def give_way(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def look(self, now: float) -> None:
        """End it when it does not begin to speak; the server ends what takes too long later, and what is idle."""
        if not self._frames.has_begun and now - self._progress_at > _PREFACE_SECONDS:
            self.give_way()
            self._refused("slow_head", "it did not begin to speak HTTP/2 in time")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep it."""
        self._transport = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("peername")
        self.peer = peer_name(address[0] if isinstance(address, tuple) else None)

    def data_received(self, data: bytes) -> None:
        """Pass it on; what comes first, when it is connected to the server, and it is not read meanwhile.

        A connection to the server costs more than all else, and many never say a word of HTTP/2.
        """
        had_begun = self._frames.has_begun
        if refusal := self._frames.refusal(data, asyncio.get_running_loop().time()):
            self.give_way()
            self._refused(refusal, _TEXTS[refusal])
            return
        self._piece += len(data)
        if self._piece >= _PROGRESS:
            self._piece = 0
            self.progress()
        if self._inside is None:
            self._early.append(data)
            if self._frames.has_begun:
                self.let_read(go_on=False)
            if self._frames.has_begun and not had_begun:
                self._begin()
        elif not self._inside.is_closing():
            self._inside.write(data)

    def pause_writing(self) -> None:
        """It takes what it is sent slowly; let the server wait."""
        if self._inside is not None and not self._inside.is_closing():
            self._inside.pause_reading()

    def resume_writing(self) -> None:
        """Let the server go on."""
        if self._inside is not None and not self._inside.is_closing():
            self._inside.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- either way it is over
        """Close the other end."""
        if self._inside is not None:
            self._inside.close()
        self._lost()


class _Inside(asyncio.Protocol):
    """Our end of a connection to the server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        self._client.write(data)

    def pause_writing(self) -> None:
        """The server has enough; let the client wait."""
        self._client.let_read(go_on=False)

    def resume_writing(self) -> None:
        """Let the client go on."""
        self._client.let_read(go_on=True)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- either way it is over
        """Close the client's end."""
        self._client.close()
