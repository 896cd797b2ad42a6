"""How much a request holds, found out before it is read: two bytes make a message, which in memory takes a hundred.

The walk follows OTLP's messages (opentelemetry-proto, trace.proto, logs.proto, common.proto) and reads no value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from monitor.errors import MalformedPayload

MAX_RECORDS = 100_000
"""Resources, scopes and records of one request."""
MAX_PARTS = 1_000_000
"""Messages in it, down to attributes and the values in them."""

_SMALL = 2 * MAX_PARTS
"""Bytes of a body that cannot hold more."""
_DENSE = 16
"""Bytes a message, on average, below which messages are counted."""
_LENGTHS_OF_MORE = bytes(range(_DENSE, 256))
"""What is no length of a message shorter than `_DENSE`."""
_DELIMITED = 2
_SKIPPED = {1: 8, 5: 4}
"""Bytes of values by wire type; varints and delimited bytes say it themselves."""

_MORE, _LONGEST = 0x80, 63
"""Of a varint: the bit that says that it goes on, and the last bit that it may have."""

_Messages = Mapping[str, Mapping[int, str]]
_OUTER: Mapping[str, _Messages] = {
    signal: {"request": {1: "resource_records"}, "resource_records": {2: "scope_records"}, "scope_records": {2: record}}
    for signal, record in (("traces", "span"), ("logs", "log_record"))
}
"""Which fields hold messages that count as records, and of which kind."""
_INNER: _Messages = {
    "resource": {1: "pair"},
    "scope": {3: "pair"},
    "span": {9: "pair", 11: "event", 13: "link", 15: "status"},
    "log_record": {5: "value", 6: "pair"},
    "event": {3: "pair"},
    "link": {4: "pair"},
    "pair": {2: "value"},
    "value": {5: "array", 6: "map"},
    "array": {1: "value"},
    "map": {1: "pair"},
}
_ALL: Mapping[str, _Messages] = {
    signal: {
        **_INNER,
        **outer,
        "resource_records": {1: "resource", **outer["resource_records"]},
        "scope_records": {1: "scope", **outer["scope_records"]},
    }
    for signal, outer in _OUTER.items()
}


def bound_protobuf(body: bytes, signal: Literal["traces", "logs"]) -> None:
    """Let pass what holds a bounded number of records and messages; what is no protobuf, too: its parser says so.

    Raises:
        MalformedPayload: it holds more (`too_many_records`).
    """
    if _messages(body, _OUTER[signal], MAX_RECORDS) > MAX_RECORDS:
        raise MalformedPayload(f"more than {MAX_RECORDS} records in one request", reason="too_many_records")
    if len(body) <= _SMALL or len(body.translate(None, _LENGTHS_OF_MORE)) * _DENSE < len(body):
        return
    if _messages(body, _ALL[signal], MAX_PARTS) > MAX_PARTS:
        raise _too_many_parts()


def bound_json(body: bytes) -> None:
    """Let pass what holds a bounded number of objects and arrays, where braces in its text count, too.

    Raises:
        MalformedPayload: it holds more (`too_many_records`).
    """
    if body.count(b"{") + body.count(b"[") > MAX_PARTS:
        raise _too_many_parts()


def _too_many_parts() -> MalformedPayload:
    return MalformedPayload(f"more than {MAX_PARTS} objects, or values, in one request", reason="too_many_records")


def _messages(body: bytes, kinds: _Messages, most: int) -> int:
    """Return how many messages there are in a request; once there are more than `most`, that is enough."""
    waiting = [(0, len(body), kinds["request"])]
    count = 0
    try:
        while waiting:
            at, end, inner = waiting.pop()
            while at < end:
                tag, at = _varint(body, at)
                wire_type = tag & 7
                if wire_type == _DELIMITED:
                    length, at = _varint(body, at)
                    kind = inner.get(tag >> 3)
                    if kind is not None:
                        count += 1
                        if count > most:
                            return count
                        if kind in kinds:
                            waiting.append((at, min(end, at + length), kinds[kind]))
                    at += length
                elif wire_type == 0:
                    _, at = _varint(body, at)
                else:
                    at += _SKIPPED.get(wire_type, end)
    except IndexError:
        # It ends within a number.
        return count
    return count


def _varint(body: bytes, at: int) -> tuple[int, int]:
    byte = body[at]
    if byte < _MORE:
        return byte, at + 1
    number, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = body[at]
        number |= (byte & 0x7F) << shift
        if byte < _MORE:
            return number, at + 1
        shift += 7
        if shift > _LONGEST:
            raise IndexError
