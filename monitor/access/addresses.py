"""Where a listener listens: what `host` names becomes bound sockets, and lines for people."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from monitor.access.unix_socket import bound_unix_socket
from monitor.errors import ConfigError
from monitor.settings.listener import LOCALHOST, Listener

_LOOPBACK = ("127.0.0.1", "::1")
"""What `localhost` is (RFC 6761, section 6.3), whatever a resolver says."""
_NOT_HERE = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
_TRIES = 10


def listening_sockets(
    host: str, port: int, where: str, *, unix_socket: Path | None = None, backlog: int = 1024
) -> tuple[socket.socket, ...]:
    """Return sockets that listen as `bound_sockets` says, or on a Unix socket alone, for its owner and group.

    Raises:
        ConfigError: as `bound_sockets`.
    """
    sockets = (bound_unix_socket(unix_socket, where),) if unix_socket else bound_sockets(host, port, where)
    for one in sockets:
        if one.family != socket.AF_UNIX:
            # Connections inherit it. asyncio sets it only on sockets that name their protocol, and a reply in two
            # packets then waits 40 ms for the client's delayed acknowledgement.
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.listen(backlog)
    return sockets


def bound_sockets(host: str, port: int, where: str) -> tuple[socket.socket, ...]:
    """Return sockets bound, not listening, to all addresses of `host` that this machine has, on one port.

    `::` is one socket for both families. Port 0 is any port that is free on all of them.

    Raises:
        ConfigError: an address cannot be bound, or there is none.
    """
    addresses = _addresses(host, where)
    for tries_left in reversed(range(_TRIES)):
        try:
            return _bound(addresses, port)
        except OSError as error:
            if port == 0 and error.errno == errno.EADDRINUSE and tries_left:
                continue
            place = written(*error.filename) if error.filename else written(host, port)
            # Some have the address in their text, too.
            why = os.strerror(error.errno) if error.errno else error.strerror
            raise ConfigError(f"cannot listen on {place}: {why}", where=where) from None
    raise AssertionError  # the last try returns or raises


def written(host: str, port: int) -> str:
    """Return host and port as URLs have them.

    >>> written("::1", 4318)
    '[::1]:4318'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def entrance(places: Sequence[str], listener: Listener, *, local: bool = False) -> str:
    """Return where one listens, whether what is sent is encrypted, and who may come in: a line for people.

    Args:
        places: where, as people write it.
        listener: its settings.
        local: it listens on a Unix socket.
    """
    encrypted = "TLS" if listener.tls else "not encrypted"
    who = "; ".join(_who(listener, local=local))
    return f"{' and '.join(places)} ({encrypted}; for {who})"


def _who(listener: Listener, *, local: bool) -> Iterator[str]:
    if listener.tls and listener.tls.client_ca_file:
        yield f"clients with a certificate of {listener.tls.client_ca_file}"
    if listener.auth:
        counts = (len(listener.auth.tokens), "token"), (len(listener.auth.users), "user")
        known = [f"{count} {noun}{'s' if count > 1 else ''}" for count, noun in counts if count]
        known += [str(file) for file in (listener.auth.tokens_file, listener.auth.users_file) if file]
        yield f"who has a token or password ({', '.join(known)})"
    elif not (listener.tls and listener.tls.client_ca_file):
        yield "the socket's owner and group" if local else _anybody(listener)


def _anybody(listener: Listener) -> str:
    return "anybody who reaches it" if listener.open else "anybody on this machine"


def _addresses(host: str, where: str) -> tuple[str, ...]:
    if host == LOCALHOST:
        return _LOOPBACK
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ConfigError(f"cannot listen on {host!r}: no address is known for this name", where=where) from None
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


def _bound(addresses: Sequence[str], port: int) -> tuple[socket.socket, ...]:
    """Return the sockets; where all are missing on this machine, raise what was said of the first."""
    missing: list[OSError] = []
    sockets: list[socket.socket] = []
    with ExitStack() as opened:
        for address in addresses:
            try:
                sockets.append(opened.enter_context(_bound_to(address, port)))
            except OSError as error:
                error.filename = address, port
                if error.errno not in _NOT_HERE:
                    raise
                missing.append(error)
                continue
            port = sockets[-1].getsockname()[1]
        if not sockets:
            raise missing[0]
        opened.pop_all()
    return tuple(sockets)


def _bound_to(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with ExitStack() as opened:
        opening = opened.enter_context(socket.socket(family))
        # A port whose connections of a moment ago still linger can be bound.
        opening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address != "::")
        opening.bind((address, port))
        opened.pop_all()
    return opening
