"""Lets clients in: accepts connections, within caps for all and for each peer, and closes those that take too long."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import resource
import socket
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from monitor.access.refusals import Refusals, peer_name
from monitor.access.tls import Certificates
from monitor.access.trust import WhileTrusted
from monitor.http_server.kept_out import KeptOut
from monitor.http_server.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger(__name__)

_AT_ONCE = 16
"""Connections accepted before others of the loop have their turn."""
_LOOK_EVERY = 1.0
_COUNT_EVERY = 0.05
"""Seconds for which a count of descriptors holds; in between, those that come are added."""
_DESCRIPTORS = Path("/dev/fd")
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_ALMOST_FULL, _NOT_FULL = 0.8, 0.6
"""Shares of the cap at which a line warns, and below which the next warning may come."""
_KEPT_OUT_SECONDS, _KEPT_OUT_PEERS = 2.0, 4096
"""Short, as a proxy in front is one peer, and others behind it wait as long."""


class Guest(Protocol):
    """The protocol of one connection, which is an `asyncio.Protocol`."""

    def may_give_way(self, now: float) -> bool:
        """Return whether it has done nothing for so long that somebody else may have its place."""

    def give_way(self) -> None:
        """Close, for somebody else."""

    def look(self, now: float) -> None:
        """End it when a time is over."""


MakeConnection = Callable[[Callable[[], None], Callable[[str, str], None], Callable[[], None]], Guest]
"""Takes what to call when it progressed, was refused (reason, text) and was lost."""


@dataclass(slots=True, eq=False)
class _Client:
    """One open connection."""

    peer: str
    """The address, of IPv6 the network; "" for a Unix socket."""
    name: str
    """For the log."""
    connection: Guest | None = None
    """None until its first byte: thousands may come that never send one, and a protocol costs more than all else."""
    silent: socket.socket | None = None
    """The connection, until then."""
    since: float = 0.0
    """The loop's time at which it came."""
    opening: asyncio.Task[None] | None = None
    """Connects the socket with its protocol: over TLS, the handshake; else one turn of the loop."""

    def leave(self) -> None:
        """Close it, for somebody else."""
        if self.silent is not None:
            asyncio.get_running_loop().remove_reader(self.silent.fileno())
            self.silent.close()
            self.silent = None
        if self.opening is not None:
            self.opening.cancel()
        if self.connection is not None:
            self.connection.give_way()


@dataclass(slots=True)
class _Peer:
    """The clients of one peer."""

    newcomers: OrderedDict[_Client, None] = field(default_factory=OrderedDict)
    """Nothing of them was answered yet; oldest first."""
    regulars: OrderedDict[_Client, None] = field(default_factory=OrderedDict)
    """In the order of their last progress. Senders keep their connections, so that one may be idle for long."""

    def __len__(self) -> int:
        return len(self.newcomers) + len(self.regulars)

    def __iter__(self) -> Iterator[_Client]:
        """Yield them in the order in which they give way."""
        yield from self.newcomers
        yield from self.regulars


class Door:
    """The accepting half of a server.

    Args:
        limits: what clients may hold.
        make: makes a connection's protocol.
        refusals: is told who was not let in or was sent away.
        where: the listener, for the log.
        certificates: None where nothing is encrypted.
        come_back: what is sent, where nothing is encrypted, to who is not let in for want of room.
        floods: reasons of being cut off after which the peer is not let in for 2 s; its open connections stay.
    """

    def __init__(
        self,
        limits: Limits,
        make: MakeConnection,
        refusals: Refusals,
        *,
        where: str,
        certificates: Certificates | None,
        come_back: bytes = b"",
        floods: Collection[str] = (),
    ) -> None:
        self._limits, self._make, self._refusals = limits, make, refusals
        self._where, self._certificates, self._come_back = where, certificates, come_back
        self._floods, self._kept_out = floods, KeptOut(seconds=_KEPT_OUT_SECONDS, most=_KEPT_OUT_PEERS)
        self._peers: dict[str, _Peer] = {}
        self._open = 0
        self._warned = False
        self._paused: list[asyncio.TimerHandle] = []
        self._turn_at = 0.0
        """The loop's time of the latest turn in which connections were accepted."""
        self._descriptors = 0
        """How many the process may have in use when this listener lets somebody in."""
        self._in_use, self._counted_at = 0, float("-inf")

    @property
    def connections(self) -> int:
        """Number of connections that are open now."""
        return self._open

    @asynccontextmanager
    async def accepting(self, sockets: Sequence[socket.socket]) -> AsyncIterator[None]:
        """Accept from these listening sockets while entered; connections stay open afterwards."""
        loop = asyncio.get_running_loop()
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._descriptors = descriptors - min(self._limits.reserved_descriptors, descriptors // 4)
        for listener in sockets:
            listener.setblocking(False)  # noqa: FBT003 -- the standard library's
            loop.add_reader(listener.fileno(), self._accept, listener)
        looking = asyncio.create_task(self._keep_looking(), name=f"door of {self._where}")
        try:
            yield
        finally:
            for waiting in self._paused:
                waiting.cancel()
            for listener in sockets:
                loop.remove_reader(listener.fileno())
            looking.cancel()
            for client in tuple(self._clients()):
                if client.silent is not None:
                    self._left(client)
                    client.leave()
            openings = [client.opening for client in self._clients() if client.opening is not None]
            if self._certificates is not None:
                for opening in openings:
                    opening.cancel()
            await asyncio.gather(looking, *openings, return_exceptions=True)

    def _accept(self, listener: socket.socket) -> None:
        self._turn_at = asyncio.get_running_loop().time()
        if self._turn_at - self._counted_at > _COUNT_EVERY:
            self._counted_at = self._turn_at
            # Counting takes one itself; where there is none left, accepting says so.
            with suppress(OSError):
                self._in_use = sum(1 for _ in _DESCRIPTORS.iterdir())
        for _ in range(_AT_ONCE):
            try:
                accepted, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listener, error)
                return
            self._admit(accepted, address[0] if isinstance(address, tuple) else "")

    def _pause(self, listener: socket.socket, error: OSError) -> None:
        """Accept again in a second: until then the loop would call us without end."""
        if error.errno in _NO_ROOM:
            self._refusals.refused("descriptors", "anybody", f"cannot accept connections: {error.strerror}")
        else:
            log.error("%s: accepting connections: %s", self._where, error.strerror)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener.fileno())
        again = loop.call_later(_LOOK_EVERY, loop.add_reader, listener.fileno(), self._accept, listener)
        self._paused = [waiting for waiting in self._paused if waiting.when() > loop.time()] + [again]

    def _admit(self, accepted: socket.socket, address: str) -> None:
        accepted.setblocking(False)  # noqa: FBT003 -- the standard library's
        client = _Client(peer_of(address), peer_name(address))
        if self._kept_out.holds(client.peer, self._turn_at):
            self._refusals.refused("kept_out", client.name, f"was cut off less than {_KEPT_OUT_SECONDS:g} s ago")
            accepted.close()
            return
        if not self._has_room(client):
            if self._certificates is None:
                with suppress(OSError):
                    accepted.send(self._come_back)
            accepted.close()
            return
        self._peers.setdefault(client.peer, _Peer()).newcomers[client] = None
        self._open += 1
        self._in_use += 1
        self._warn()
        loop = asyncio.get_running_loop()
        client.silent, client.since = accepted, loop.time()
        loop.add_reader(accepted.fileno(), self._begin, client, accepted)

    def _begin(self, client: _Client, accepted: socket.socket) -> None:
        """Make a connection of what has sent its first byte."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(accepted.fileno())
        client.silent = None
        client.connection = connection = self._make(
            lambda: self._progressed(client),
            lambda reason, text: self._refused(client, reason, text),
            lambda: self._left(client),
        )
        client.opening = loop.create_task(self._serve(client, connection, accepted), name=f"opening {self._where}")

    def _refused(self, client: _Client, reason: str, text: str) -> None:
        if reason in self._floods and client.peer:
            self._kept_out.add(client.peer, asyncio.get_running_loop().time())
        self._refusals.refused(reason, client.name, text)

    def _has_room(self, client: _Client) -> bool:
        """Return whether one more may come in; one that does nothing has to leave for it where there is no room."""
        limits = self._limits
        of_peer = self._peers.get(client.peer, ())
        if client.peer and len(of_peer) >= limits.max_connections_per_peer:
            text = f"{len(of_peer)} connections are open from there (max_connections_per_peer)"
            return self._made_room(client, client.peer, "peer_full", text)
        if self._open >= limits.max_connections:
            text = f"{self._open} connections are open (max_connections)"
        elif self._in_use >= self._descriptors:
            text = f"{self._in_use} file descriptors are in use; others are left to the store, the judge and web"
        else:
            return True
        reason = "full" if self._open >= limits.max_connections else "descriptors"
        largest = max(self._peers, key=lambda peer: len(self._peers[peer]), default="")
        return self._made_room(client, largest, reason, text)

    def _made_room(self, client: _Client, peer: str, reason: str, text: str) -> bool:
        now = asyncio.get_running_loop().time()
        for other in self._peers.get(peer, ()):
            if self._may_give_way(other, now):
                self._refusals.refused("gave_way", other.name, f"did nothing for longest, and {text}")
                self._left(other)
                other.leave()
                return True
        self._refusals.refused(reason, client.name, text)
        return False

    def _may_give_way(self, client: _Client, now: float) -> bool:
        if client.connection is None:
            # Within the same turn of the loop, nobody can have seen what it sent.
            return client.since < self._turn_at
        if client.opening is not None and self._certificates is None:
            return False
        return client.connection.may_give_way(now)

    async def _serve(self, client: _Client, connection: Guest, accepted: socket.socket) -> None:
        """Connect the socket with its protocol; over TLS, that is the handshake."""
        certificates = self._certificates
        loaded = certificates.now() if certificates else None
        protocol = cast("asyncio.Protocol", connection)
        if certificates and loaded and loaded.client_ca is not None:
            protocol = WhileTrusted(protocol, partial(certificates.trusts, loaded.client_ca))
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol,
                accepted,
                ssl=loaded.context if loaded else None,
                ssl_handshake_timeout=self._limits.head_timeout.total_seconds() if loaded else None,
            )
        except (OSError, asyncio.CancelledError) as error:  # of which ssl.SSLError and TimeoutError are some
            self._left(client)
            connection.give_way()
            accepted.close()
            if isinstance(error, asyncio.CancelledError):
                raise
            if loaded is not None:
                self._refusals.refused("tls_handshake", client.name, f"no TLS handshake: {_why(error)}")
        finally:
            client.opening = None

    def _clients(self) -> Iterator[_Client]:
        return (client for clients in self._peers.values() for client in clients)

    def _progressed(self, client: _Client) -> None:
        peer = self._peers.get(client.peer)
        if peer is not None and client in peer.newcomers:
            del peer.newcomers[client]
            peer.regulars[client] = None
        elif peer is not None and client in peer.regulars:
            peer.regulars.move_to_end(client)

    def _left(self, client: _Client) -> None:
        peer = self._peers.get(client.peer)
        if peer is None or not (client in peer.newcomers or client in peer.regulars):
            return
        peer.newcomers.pop(client, None)
        peer.regulars.pop(client, None)
        self._open -= 1
        if not len(peer):
            del self._peers[client.peer]

    def _warn(self) -> None:
        most = self._limits.max_connections
        if self._open < _NOT_FULL * most:
            self._warned = False
        if self._warned or self._open < _ALMOST_FULL * most:
            return
        self._warned = True
        peer, clients = max(self._peers.items(), key=lambda item: len(item[1]))
        log.warning(
            "%s: %d of %d connections are open (max_connections), %d of them from %s",
            self._where,
            self._open,
            most,
            len(clients),
            peer_name(peer),
        )

    async def _keep_looking(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            for client in tuple(self._clients()):
                self._look(client, loop.time())

    def _look(self, client: _Client, now: float) -> None:
        if client.connection is not None:
            if client.opening is None:
                client.connection.look(now)
        elif now - client.since > self._limits.head_timeout.total_seconds():
            self._left(client)
            client.leave()


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return (error.reason or "refused").lower().replace("_", " ")
    return "it left" if isinstance(error, ConnectionResetError) else "it took too long"


def peer_of(address: str) -> str:
    """Return what counts as one peer: an IPv4 address, or the /64 network of an IPv6 address; "" for a Unix socket.

    >>> peer_of("::ffff:10.0.0.7"), peer_of("2001:db8:0:1:2:3:4:5%eth0")
    ('10.0.0.7', '2001:db8:0:1::/64')
    """
    if ":" not in address:
        return address
    ip = ipaddress.IPv6Address(address.partition("%")[0])
    return str(ip.ipv4_mapped or ipaddress.IPv6Network((ip, 64), strict=False))
