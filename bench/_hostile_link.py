"""A hostile client's connection, and what an attack is: one connection made, misused and given up, over and over."""

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import cycle

TEXT = b"what-a-user-wrote"
"""Stands wherever an attack can put a word: nothing of it may turn up in a log."""
IP_BIND_ADDRESS_NO_PORT = 24
"""From linux/in.h: the port is chosen at the connect, so that each address has all of them for each destination."""


class Link(asyncio.Protocol):
    """A connection that writes what it is told to, and drops what it is answered."""

    def __init__(self, until: float) -> None:
        self.until, self.answered = until, 0
        self._gone, self._writable = asyncio.Event(), asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Count it."""
        self.answered += len(data)

    def pause_writing(self) -> None:
        """Let those who send wait."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let them go on."""
        self._writable.set()

    def connection_lost(self, _: Exception | None) -> None:
        """Wake those who wait."""
        self._gone.set()
        self._writable.set()

    @property
    def open(self) -> bool:
        """Whether it is worth going on."""
        return not self._gone.is_set() and time.monotonic() < self.until

    def deaf(self) -> None:
        """Read nothing from now on."""
        if not self._gone.is_set():
            self.transport.pause_reading()

    async def send(self, *pieces: bytes) -> None:
        """Write; return when there is room for more.

        Raises:
            ConnectionResetError: the other side hung up.
        """
        if self._gone.is_set():
            raise ConnectionResetError
        self.transport.writelines(pieces)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._writable.wait(), max(0.0, self.until - time.monotonic()))
        await asyncio.sleep(0)

    async def wait(self, seconds: float = 1e9) -> None:
        """Do nothing until the other side hangs up, so many seconds are over, or the attack is."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._gone.wait(), max(0.0, min(seconds, self.until - time.monotonic())))

    async def again(self, piece: bytes, *, every: float = 0.0) -> None:
        """Write a piece over and over."""
        while self.open:
            await self.send(piece)
            if every:
                await self.wait(every)


@dataclass(frozen=True)
class Attack:
    """What one connection does, and how many do it at once."""

    run: Callable[[Link], Awaitable[None]]
    links: int
    listener: str
    """`http`, `grpc` or `web`."""
    secure: bool = False
    """Whether the listener speaks TLS."""
    context: ssl.SSLContext | None = None
    """With which the attacker speaks TLS himself; null when he writes bytes into the socket."""
    reset: bool = False
    """Whether connections are given up by a reset."""


@dataclass
class Tally:
    """What an attack came to."""

    made: int = 0
    failed: int = 0


async def attack(what: Attack, port: int, sources: list[str], until: float, *, per_second: float) -> Tally:
    """Keep an attack up from these addresses, with so many new connections a second."""
    tally, addresses, due = Tally(), cycle(sources), time.monotonic()

    async def one() -> None:
        nonlocal due
        while (now := time.monotonic()) < until:
            due = max(now, due + 1 / per_second)
            await asyncio.sleep(min(due, until) - now)
            try:
                link = await connected(what, port, next(addresses), until)
            except (OSError, TimeoutError):
                tally.failed += 1
                await asyncio.sleep(0.1)
                continue
            tally.made += 1
            with contextlib.suppress(OSError):
                await what.run(link)
            link.transport.abort() if what.reset else link.transport.close()

    await asyncio.gather(*(one() for _ in range(what.links)))
    return tally


async def connected(what: Attack, port: int, source: str, until: float) -> Link:
    """Return a new connection from an address of this machine."""
    made = socket.socket()
    made.setblocking(False)  # noqa: FBT003 -- the standard library's
    made.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
    try:
        made.bind((source, 0))
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(5):
            await loop.sock_connect(made, ("127.0.0.1", port))
            name = "localhost" if what.context else None
            _, link = await loop.create_connection(
                lambda: Link(until), sock=made, ssl=what.context, server_hostname=name
            )
    except BaseException:
        made.close()
        raise
    return link
