"""A client that writes frames of HTTP/2 as it pleases (RFC 9113), without the manners of a library."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, CONTINUATION = 0, 1, 3, 4, 6, 7, 9
END_HEADERS = 4
MAX_CONCURRENT_STREAMS = 3
REFUSED_STREAM = 7


@dataclass(frozen=True)
class Frame:
    """What the server sent."""

    kind: int
    flags: int
    stream: int
    payload: bytes


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame on the wire."""
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def fields(pairs: Sequence[tuple[str, str]]) -> bytes:
    """Return header fields, each written out (RFC 7541, 6.2.2: literal without indexing, a new name)."""

    def text(value: str) -> bytes:
        size = len(value)
        if size < 0x7F:
            return bytes((size,)) + value.encode()
        size -= 0x7F
        prefix = bytearray((0x7F,))
        while size >= 0x80:
            prefix.append(size % 0x80 + 0x80)
            size //= 0x80
        prefix.append(size)
        return bytes(prefix) + value.encode()

    return b"".join(b"\0" + text(name) + text(value) for name, value in pairs)


def call_fields(path: str) -> list[tuple[str, str]]:
    """Return the fields that begin a call."""
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ]


class Http2Client:
    """One connection, from an address of the loopback network."""

    def __init__(self, address: tuple[str, int], *, source: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection(address, timeout=30, source_address=(source, 0))
        self._read = b""
        self.send(PREFACE + frame(SETTINGS, 0, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, data: bytes) -> bool:
        """Send it; return whether the other side still takes it."""
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        return True

    def frames(self) -> Iterator[Frame]:
        """Yield what comes, until the other side closes."""
        while True:
            while len(self._read) < 9 or len(self._read) < 9 + int.from_bytes(self._read[:3]):
                piece = b""
                with suppress(ConnectionError):
                    piece = self._socket.recv(65536)
                if not piece:
                    return
                self._read += piece
            size = int.from_bytes(self._read[:3])
            head, payload = self._read[:9], self._read[9 : 9 + size]
            self._read = self._read[9 + size :]
            yield Frame(head[3], head[4], int.from_bytes(head[5:9]), payload)
