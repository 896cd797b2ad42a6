"""Header fields of HTTP/2, counted without being read (HPACK, RFC 7541): one byte may stand for four kilobytes."""

from __future__ import annotations

_LONGEST_NUMBER = 28
"""Bits of a number beyond which it is none that anybody means."""
_NAME_AND_VALUE, _VALUE = 2, 1


class HeaderFields:
    """Follows the fields of one connection, however their bytes come.

    Args:
        most: fields of one block, changes of the table's size among them.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._strings = 0
        """Of the field at hand, that are still to come."""
        self._string = 0
        """Bytes of the string at hand that are still to come."""
        self._number = 0
        self._bits: int | None = None
        """Of the number at hand that are here; None where none is."""
        self._is_field = False
        """Whether the number at hand tells a field's name, not the length of a string."""

    def begin(self) -> None:
        """Begin a block."""
        self._count = self._strings = self._string = 0
        self._bits = None

    def are_few(self, data: bytes) -> bool:
        """Return whether the block is within the limit, `data` included."""
        at, end = 0, len(data)
        while at < end:
            if self._string:
                step = min(self._string, end - at)
                self._string -= step
                at += step
            else:
                if not self._is_readable(data[at]):
                    return False
                at += 1
        return True

    def _is_readable(self, byte: int) -> bool:
        if self._bits is not None:
            self._number += (byte & 0x7F) << self._bits
            self._bits += 7
            if byte & 0x80:
                return self._bits <= _LONGEST_NUMBER
            self._end_number()
        elif self._strings:
            self._begin_number(byte, 0x7F, is_field=False)
        else:
            self._count += 1
            self._begin_field(byte)
        return self._count <= self._most

    def _begin_field(self, byte: int) -> None:
        """Its first byte says what follows (RFC 7541, 6): nothing, a value, or a name and a value."""
        if byte & 0x80:
            prefix, self._strings = 0x7F, 0
        elif byte & 0x40:
            prefix, self._strings = 0x3F, _VALUE
        elif byte & 0x20:
            prefix, self._strings = 0x1F, 0
        else:
            prefix, self._strings = 0x0F, _VALUE
        if self._strings and not byte & prefix:
            self._strings = _NAME_AND_VALUE
        self._begin_number(byte, prefix, is_field=True)

    def _begin_number(self, byte: int, prefix: int, *, is_field: bool) -> None:
        self._is_field, self._number = is_field, byte & prefix
        if self._number == prefix:
            self._bits = 0
        else:
            self._end_number()

    def _end_number(self) -> None:
        self._bits = None
        if not self._is_field:
            self._strings -= 1
            self._string = self._number
