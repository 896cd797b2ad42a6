"""Frames of HTTP/2 on the wire (RFC 9113): gRPC reads header fields without end, and frames that carry nothing."""

from __future__ import annotations

from typing import Literal, TypeAlias

from collectors.otlp_grpc.header_fields import HeaderFields

Refusal: TypeAlias = Literal["head_too_large", "small_frames", "resets", "not_http"]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client begins with; RFC 9113, 3.4."""
_HEAD = 9
"""Bytes before the payload of each frame: its length (3), kind, flags and stream (4); RFC 9113, 4.1."""
_DATA, _HEADERS, _RST_STREAM, _CONTINUATION = 0, 1, 3, 9
_PADDED, _PRIORITY = 0x8, 0x20
_PADDING_BYTES, _PRIORITY_BYTES = 1, 5
_SMALLEST_DATA = 64
"""Bytes below which a frame of a message costs more than it carries."""
_WINDOW_SECONDS = 1.0


class Frames:
    """Follows the frames that one client sends.

    Args:
        most_bytes: of the frames that hold the fields of one call; empty ones count, too.
        most_fields: of one call.
        most_small: frames a second that are neither fields nor a good piece of a message.
        most_resets: of these, frames that give up a call.
    """

    def __init__(self, *, most_bytes: int, most_fields: int, most_small: int, most_resets: int) -> None:
        self._most_bytes, self._most_small, self._most_resets = most_bytes, most_small, most_resets
        self._fields = HeaderFields(most_fields)
        self._block = 0
        self._preface = PREFACE
        """What is to come of it."""
        self._in_block = False
        """Whether the payload at hand holds fields."""
        self._before_fields = 0
        """Bytes of it that stand before them."""
        self._payload = 0
        """Bytes of it to come before the next frame."""
        self._head = b""
        """What is here of its first bytes."""
        self._small = self._resets = 0
        self._since = 0.0

    @property
    def has_begun(self) -> bool:
        """Whether all of the preface is here."""
        return not self._preface

    def refusal(self, data: bytes, now: float) -> Refusal | None:
        """Return why the client is to be cut off, `data` included; None where it is not. `now` is in seconds."""
        at, end = 0, len(data)
        if self._preface:
            at = min(len(self._preface), end)
            if not self._preface.startswith(data[:at]):
                return "not_http"
            self._preface = self._preface[at:]
        while at < end:
            if self._payload:
                step = min(self._payload, end - at)
                if self._in_block and not self._are_few(data[at : at + step]):
                    return "head_too_large"
                self._payload -= step
                at += step
                continue
            # The head may come in pieces.
            missing = _HEAD - len(self._head)
            self._head += data[at : at + missing]
            at += missing
            if len(self._head) < _HEAD:
                return None
            head, self._head = self._head, b""
            if refusal := self._begin(head[3], head[4], int.from_bytes(head[:3]), now):
                return refusal
        return None

    def _begin(self, kind: int, flags: int, length: int, now: float) -> Refusal | None:
        self._payload = length
        self._in_block = kind in {_HEADERS, _CONTINUATION}
        if not self._in_block:
            if kind == _DATA and length >= _SMALLEST_DATA:
                return None
            if now - self._since >= _WINDOW_SECONDS:
                self._since, self._small, self._resets = now, 0, 0
            self._small += 1
            self._resets += kind == _RST_STREAM
            if self._resets > self._most_resets:
                return "resets"
            return "small_frames" if self._small > self._most_small else None
        self._before_fields = 0
        if kind == _HEADERS:
            self._block = 0
            self._fields.begin()
            self._before_fields = bool(flags & _PADDED) * _PADDING_BYTES + bool(flags & _PRIORITY) * _PRIORITY_BYTES
        self._block += _HEAD + length
        return "head_too_large" if self._block > self._most_bytes else None

    def _are_few(self, payload: bytes) -> bool:
        before = min(self._before_fields, len(payload))
        self._before_fields -= before
        # What pads a frame counts as fields: nobody pads these, least of all by hundreds.
        return self._fields.are_few(payload[before:])
