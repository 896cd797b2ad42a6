"""Compressed bodies, unpacked up to a limit: a small request must not become a large one unseen."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from monitor.errors import MalformedPayload, Rejected

Coding: TypeAlias = Literal["identity", "gzip", "deflate", "zstd"]

_GZIP, _ZLIB, _RAW = zlib.MAX_WBITS | 16, zlib.MAX_WBITS, -zlib.MAX_WBITS
_GZIP_START = b"\x1f\x8b\x08"
_ZLIB_METHOD = 8
_EXPANSION = 6
"""How much longer telemetry typically is than its compressed form."""
_WINDOW_LOG = 25
"""Of 2: zstd's frames may refer this many bytes back. RFC 9659 allows 8 MiB; encoders that know a body's length declare
that, up to `max_body`'s 20 MiB."""


class Inflater(Protocol):
    """What is used of `zlib.decompressobj`, `isal_zlib.decompressobj` and `ZstdDecompressor`."""

    @property
    def eof(self) -> bool:
        """Whether the end of the compressed stream has passed."""

    @property
    def unused_data(self) -> bytes:
        """What follows that end."""

    def decompress(self, body: bytes, max_length: int, /) -> bytes:
        """Return at most `max_length` bytes of output."""


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
    start = _inflaters[coding](body)
    parts: list[bytes] = []
    size = 0
    try:
        # A body may be several streams, one after the other (RFC 1952, 2.2; RFC 8878, 3.1).
        while body:
            inflater = start()
            parts.append(inflater.decompress(body, most - size + 1))
            size += len(parts[-1])
            if size > most:
                raise Rejected(f"the body is longer than {most} bytes when unpacked", reason="too_large")
            if not inflater.eof:
                raise MalformedPayload(_ended_early(body, coding), reason="not_compressed")
            body = inflater.unused_data
    except _ERRORS:
        raise MalformedPayload(f"the body is not {coding}", reason="not_compressed") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _ended_early(body: bytes, coding: Coding) -> str:
    """Say what ails a body after which its unpacker waits for more: it does so for any few bytes, too."""
    if coding == "gzip" and not body.startswith(_GZIP_START[: len(body)]):
        return "the body is not gzip: it does not begin with 1f 8b 08"
    if coding == "deflate" and not _has_zlib_header(body):
        return "the body is not deflate, or is cut short"
    return f"the {coding} body is cut short"


def _gzip(_: bytes) -> Callable[[], Inflater]:
    return lambda: _gunzipper(_GZIP)


def _deflate(body: bytes) -> Callable[[], Inflater]:
    """`deflate` means zlib's format (RFC 9110, 8.4.1.2), yet some senders leave its two-byte header out."""
    wbits = _ZLIB if _has_zlib_header(body) else _RAW
    return lambda: zlib.decompressobj(wbits)


def _has_zlib_header(body: bytes) -> bool:
    header = int.from_bytes(body[:2])
    return header % 31 == 0 and header >> 8 & 0x0F == _ZLIB_METHOD


_gunzipper: Callable[[int], Inflater] = zlib.decompressobj
_inflaters: dict[Coding, Callable[[bytes], Callable[[], Inflater]]] = {"gzip": _gzip, "deflate": _deflate}
_errors: list[type[Exception]] = [zlib.error]

try:  # where it has wheels; it needs a third to a half of zlib's time
    from isal import igzip_lib, isal_zlib
except ModuleNotFoundError:
    pass
else:
    _gunzipper = isal_zlib.decompressobj
    _errors.append(igzip_lib.IsalError)  # type: ignore[arg-type]  # its stub takes the class for an instance

try:  # the extra `zstd`, a part of Python from 3.14 on
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
except ModuleNotFoundError:
    pass
else:
    _options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}
    _inflaters["zstd"] = lambda _: lambda: zstd.ZstdDecompressor(options=_options)
    _errors.append(zstd.ZstdError)

CODINGS: tuple[Coding, ...] = tuple(_inflaters)
"""What can be unpacked here."""
_ERRORS = tuple(_errors)
