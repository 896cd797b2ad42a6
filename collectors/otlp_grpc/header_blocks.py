"""Header fields of HTTP/2 on the wire (RFC 9113, 6.10): gRPC reads them without end, to throw away what is too much."""

from __future__ import annotations

_HEAD = 9
"""Bytes before the payload of each frame: its length (3), kind, flags and stream (4); RFC 9113, 4.1."""
_PREFACE = 24
"""Bytes that a client begins with; RFC 9113, 3.4."""
_HEADERS, _CONTINUATION = 1, 9
_END_HEADERS = 4


class HeaderBlocks:
    """Follows the frames that one client sends.

    Args:
        most: bytes of the frames that hold the fields of one call; empty ones count, too.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._block = 0
        self._skip = _PREFACE
        """Bytes to come before the next frame."""
        self._head = b""
        """What is here of its first bytes."""

    def are_short(self, data: bytes) -> bool:
        """Return whether the fields of each call are within the limit, `data` included."""
        at, end = self._skip, len(data)
        while at < end:
            # The head may come in pieces.
            missing = _HEAD - len(self._head)
            self._head += data[at : at + missing]
            at += missing
            if len(self._head) < _HEAD:
                self._skip = 0
                return True
            head, self._head = self._head, b""
            length = int.from_bytes(head[:3])
            if not self._is_short(head[3], head[4], length):
                return False
            at += length
        self._skip = at - end
        return True

    def _is_short(self, kind: int, flags: int, length: int) -> bool:
        if kind in {_HEADERS, _CONTINUATION}:
            self._block = _HEAD + length + (self._block if kind == _CONTINUATION else 0)
            if self._block > self._most:
                return False
            if flags & _END_HEADERS:
                self._block = 0
        return True
