"""Protobuf's wire format, as far as framing ready-made bytes needs it (protobuf.dev/programming-guides/encoding)."""

from __future__ import annotations

import functools
import struct

_SEPTET = 0x7F
_SIXTY_FOUR_BITS = (1 << 64) - 1


@functools.lru_cache(maxsize=16_384)
def varint(value: int) -> bytes:
    """Return `value` as a base-128 varint; negative numbers as the 64-bit two's complement that int64 uses.

    >>> varint(300).hex()
    'ac02'
    """
    value &= _SIXTY_FOUR_BITS
    septets = bytearray()
    while value > _SEPTET:
        septets.append(value & _SEPTET | 0x80)
        value >>= 7
    septets.append(value)
    return bytes(septets)


def framed(number: int, payload: bytes) -> bytes:
    """Return `payload` as length-delimited field `number`, which must be below 16.

    >>> framed(2, b"abc").hex()
    '1203616263'
    """
    return b"%c%b%b" % (number << 3 | 2, varint(len(payload)), payload)


def header(number: int, size: int) -> bytes:
    """Return what precedes `size` bytes of length-delimited field `number`, which must be below 16.

    >>> (header(2, 3) + b"abc").hex()
    '1203616263'
    """
    return b"%c%b" % (number << 3 | 2, varint(size))


def scalar(number: int, value: int) -> bytes:
    """Return `value` as varint field `number` below 16: bool, enum, int64, uint32."""
    return b"%c%b" % (number << 3, varint(value))


def fixed64(number: int, value: int) -> bytes:
    """Return `value`, of 0 to 2**64 - 1, as fixed64 field `number` below 16."""
    return b"%c%b" % (number << 3 | 1, struct.pack("<Q", value))


def double(number: int, value: float) -> bytes:
    """Return `value` as double field `number` below 16."""
    return b"%c%b" % (number << 3 | 1, struct.pack("<d", value))
