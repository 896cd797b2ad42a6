"""Compressed bodies, unpacked up to a limit: a small request must not become a large one unseen."""

from __future__ import annotations

import zlib
from typing import Literal, TypeAlias

from monitor.errors import MalformedPayload, Rejected

Coding: TypeAlias = Literal["identity", "gzip", "deflate"]

_GZIP, _ZLIB, _RAW = zlib.MAX_WBITS | 16, zlib.MAX_WBITS, -zlib.MAX_WBITS
_ZLIB_METHOD = 8
_EXPANSION = 6
"""How much longer telemetry typically is than its compressed form."""


def unpacked_estimate(length: int, coding: Coding) -> int:
    """Return about how many bytes a body of `length` bytes will be."""
    return length if coding == "identity" else length * _EXPANSION


def unpacked(body: bytes, coding: Coding, *, most: int) -> bytes:
    """Return the decoded body; never holds more than `most` bytes and a few of it.

    Raises:
        Rejected: it is longer than `most` (`too_large`).
        MalformedPayload: it is not what `coding` says, or is cut short (`not_compressed`).
    """
    if coding == "identity":
        return body
    wbits = _GZIP if coding == "gzip" else _deflate_wbits(body)
    parts: list[bytes] = []
    size = 0
    try:
        # A gzip body may be several, one after the other (RFC 1952, 2.2).
        while body:
            inflater = zlib.decompressobj(wbits)
            parts.append(inflater.decompress(body, most - size + 1))
            size += len(parts[-1])
            if size > most:
                raise Rejected(f"the body is longer than {most} bytes when unpacked", reason="too_large")
            if not inflater.eof:
                raise MalformedPayload(f"the {coding} body is cut short", reason="not_compressed")
            body = inflater.unused_data
    except zlib.error:
        raise MalformedPayload(f"the body is not {coding}", reason="not_compressed") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _deflate_wbits(body: bytes) -> int:
    """`deflate` means zlib's format (RFC 9110, 8.4.1.2), yet some senders leave its two-byte header out."""
    header = int.from_bytes(body[:2])
    return _ZLIB if header % 31 == 0 and header >> 8 & 0x0F == _ZLIB_METHOD else _RAW
