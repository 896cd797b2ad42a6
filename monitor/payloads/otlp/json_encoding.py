"""OTLP/JSON becomes the protobuf request it stands for, so that both take one path from then on.

OTLP/JSON is protobuf's JSON mapping except that trace and span ids are hexadecimal (OTLP 1.10, "JSON Protobuf
Encoding"). Read leniently: numbers as strings or numbers, enums as numbers or names, snake_case field names, null or
nothing in any field, unknown fields, a bare array of resources, lone surrogates, and NaN as a literal.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import orjson

from monitor.errors import MalformedPayload
from monitor.payloads.otlp.wire import double, fixed64, framed, scalar

Json: TypeAlias = "Mapping[str, Json] | list[Json] | str | int | float | bool | None"

_MAX_DEPTH = 30
"""Of nested values: protobuf reads 100 messages deep, and a map in a map takes three."""
_INT32 = (1 << 31) - 1
_INT64 = 1 << 63
_UINT32 = (1 << 32) - 1
_UINT64 = (1 << 64) - 1
_HALVES = re.compile("[\ud800-\udc7f\udd00-\udfff]")
"""Halves of surrogate pairs, but for those that Python reads bytes as that are not UTF-8 (PEP 383)."""
_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_ENUMS = {f"SPAN_KIND_{name}": number for number, name in enumerate(_KINDS)} | {
    f"STATUS_CODE_{name}": number for number, name in enumerate(("UNSET", "OK", "ERROR"))
}
_TYPES: Mapping[type, str] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}
_NAMES = {
    "traces": ("resourceSpans", "scopeSpans", "spans"),
    "logs": ("resourceLogs", "scopeLogs", "logRecords"),
}


def to_protobuf(body: bytes, signal: Literal["traces", "logs"]) -> tuple[bytes, int]:
    """Return the request as protobuf bytes, and how many records had to be left out as unreadable.

    What is of the wrong type above the records counts as the records in it, or as one. Ids that are not hexadecimal
    become empty, for the caller to reject.

    Raises:
        MalformedPayload: not JSON, JSON without the signal's field, or of the wrong type above the records and no
            record is left; the message names the place.
    """
    resources, scopes, records = _NAMES[signal]
    record = _span if signal == "traces" else _log_record
    lost = _Lost()
    readable = 0
    out = []
    for place, resource in _resources(_loaded(body), resources, scopes, lost):
        try:
            around = framed(1, _resource(resource))
        except _UnreadableError as error:
            # Whose records they are cannot be told.
            lost.leave_out(f"{place}: {error}", count=_records_in(resource, scopes, records))
            continue
        inner = []
        for at, scope in _objects_at(place, resource, scopes, lost):
            try:
                by = _scope(scope)
            except _UnreadableError as error:
                lost.leave_out(f"{at}: {error}", count=_records_in(scope, records))
                continue
            framed_records = []
            for _, one in _entries(at, scope, records, lost):
                try:
                    framed_records.append(framed(2, record(one)))
                except _UnreadableError:
                    lost.count += 1
            readable += len(framed_records)
            inner.append(framed(2, by + b"".join(framed_records) + _url(scope)))
        out.append(framed(1, around + b"".join(inner) + _url(resource)))
    if lost.why and not readable:
        raise MalformedPayload(lost.why, reason="not_otlp")
    return b"".join(out), lost.count


class _UnreadableError(Exception):
    """One record, or what stands around several, cannot be expressed; they alone are left out."""


@dataclass(slots=True)
class _Lost:
    """What is left out of one request."""

    count: int = 0
    why: str = ""
    """The first place above the records that is wrong, what was found there and what is allowed."""

    def leave_out(self, why: str, *, count: int = 1) -> None:
        """Count what stands at a place above the records."""
        self.why = self.why or why
        self.count += max(1, count)


def _loaded(body: bytes) -> Json:
    body = body.removeprefix(b"\xef\xbb\xbf").strip() or b"{}"
    try:
        loaded: Json = orjson.loads(body)
    except orjson.JSONDecodeError:
        # The standard library also reads NaN and the halves of a surrogate pair that a JavaScript sender cut in two.
        # Bytes that are not UTF-8 stay what they are until `_text`.
        try:
            loaded = json.loads(body.decode("utf-8", "surrogateescape"))
        except (ValueError, RecursionError):
            raise MalformedPayload("the body is not JSON", reason="not_json") from None
    return loaded


def _resources(loaded: Json, name: str, scopes: str, lost: _Lost) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """Yield each resource of a request, of an array of requests, or of an array of resources, with its place."""
    if isinstance(loaded, dict) and (not loaded or _holds(loaded, name)):
        yield from _objects_at("", loaded, name, lost)
    elif isinstance(loaded, list):
        for number, one in enumerate(loaded):
            place = f"[{number}]"
            if isinstance(one, dict) and _holds(one, name):
                yield from _objects_at(place, one, name, lost)
            elif isinstance(one, dict) and (not one or _holds(one, scopes) or "resource" in one):
                yield place, one
            else:
                lost.leave_out(f"{place}: {_found(one)}; allowed: an object with {name!r} or {scopes!r}")
    else:
        raise MalformedPayload(f"the JSON holds no {name!r}", reason="not_otlp")


def _objects_at(
    place: str, owner: Mapping[str, Json], name: str, lost: _Lost
) -> Iterator[tuple[str, Mapping[str, Json]]]:
    for at, one in _entries(place, owner, name, lost):
        if isinstance(one, dict):
            yield at, one
        else:
            lost.leave_out(f"{at}: {_found(one)}; allowed: an object")


def _entries(place: str, owner: Mapping[str, Json], name: str, lost: _Lost) -> Iterator[tuple[str, Json]]:
    """Yield what an array above the records, or of records, holds, each with its place; both spellings may be there."""
    for spelling in dict.fromkeys((name, _snake(name))):
        held = owner.get(spelling)
        at = f"{place}.{spelling}" if place else spelling
        if isinstance(held, list):
            for number, one in enumerate(held):
                yield f"{at}[{number}]", one
        elif held is not None:
            lost.leave_out(f"{at}: {_found(held)}; allowed: an array of objects")


def _records_in(owner: Json, *names: str) -> int:
    """Return how many records stand in what cannot be read, under these names one in the other."""
    if not names or not isinstance(owner, dict):
        return 1
    return sum(_records_in(one, *names[1:]) for one in _list(owner, names[0]))


def _found(value: Json) -> str:
    return f"found {'null' if value is None else _TYPES[type(value)]}"


def _holds(owner: Mapping[str, Json], name: str) -> bool:
    return name in owner or _snake(name) in owner


@functools.cache
def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _get(owner: Mapping[str, Json], name: str) -> Json:
    value = owner.get(name)
    return value if value is not None else owner.get(_snake(name))


def _object(owner: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    value = _get(owner, name)
    return value if isinstance(value, dict) else {}


def _list(owner: Mapping[str, Json], name: str) -> list[Json]:
    value = _get(owner, name)
    return value if isinstance(value, list) else []


def _objects(owner: Mapping[str, Json], name: str) -> list[Mapping[str, Json]]:
    return [one for one in _list(owner, name) if isinstance(one, dict)]


def _url(owner: Mapping[str, Json]) -> bytes:
    url = _text(_get(owner, "schemaUrl"))
    return framed(3, url) if url else b""


def _resource(owner: Mapping[str, Json]) -> bytes:
    resource = _part(owner, "resource")
    held = _get(resource, "attributes")
    if not isinstance(held, list | None):
        raise _UnreadableError(f"resource.attributes: {_found(held)}; allowed: an array of objects")
    wrong = next((one for one in held or () if not isinstance(one, dict | None)), None)
    if wrong is not None:
        raise _UnreadableError(f"in resource.attributes: {_found(wrong)}; allowed: objects")
    return _attributes(resource, 1)


def _scope(owner: Mapping[str, Json]) -> bytes:
    scope = _part(owner, "scope")
    if not scope:
        return b""
    return framed(1, framed(1, _text(_get(scope, "name"))) + framed(2, _text(_get(scope, "version"))))


def _part(owner: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    """Return what is said of all records below; nothing is fine, another type is not."""
    held = owner.get(name)
    if held is None:
        return {}
    if not isinstance(held, dict):
        raise _UnreadableError(f"{name}: {_found(held)}; allowed: an object")
    return held


def _span(span: Json) -> bytes:
    """Return a Span's bytes; links and trace state, which nothing reads, are left out."""
    if not isinstance(span, dict):
        raise _UnreadableError
    status = _object(span, "status")
    return b"".join(
        (
            framed(1, _id(_get(span, "traceId"))),
            framed(2, _id(_get(span, "spanId"))),
            framed(4, _id(_get(span, "parentSpanId"))),
            framed(5, _text(_get(span, "name"))),
            scalar(6, _enum(_get(span, "kind"))),
            fixed64(7, _unsigned(_get(span, "startTimeUnixNano"), _UINT64)),
            fixed64(8, _unsigned(_get(span, "endTimeUnixNano"), _UINT64)),
            _attributes(span, 9),
            scalar(10, _unsigned(_get(span, "droppedAttributesCount"), _UINT32)),
            *(framed(11, _event(event)) for event in _objects(span, "events")),
            framed(15, framed(2, _text(_get(status, "message"))) + scalar(3, _enum(_get(status, "code")))),
        )
    )


def _event(event: Mapping[str, Json]) -> bytes:
    time = fixed64(1, _unsigned(_get(event, "timeUnixNano"), _UINT64))
    return time + framed(2, _text(_get(event, "name"))) + _attributes(event, 3)


def _log_record(record: Json) -> bytes:
    if not isinstance(record, dict):
        raise _UnreadableError
    return b"".join(
        (
            fixed64(1, _unsigned(_get(record, "timeUnixNano"), _UINT64)),
            framed(5, _any(record.get("body"), 0)),
            _attributes(record, 6),
            framed(9, _id(_get(record, "traceId"))),
            framed(10, _id(_get(record, "spanId"))),
            fixed64(11, _unsigned(_get(record, "observedTimeUnixNano"), _UINT64)),
            framed(12, _text(_get(record, "eventName"))),
        )
    )


def _attributes(owner: Mapping[str, Json], number: int) -> bytes:
    return b"".join([framed(number, _key_value(one, 0)) for one in _objects(owner, "attributes")])


def _key_value(pair: Mapping[str, Json], depth: int) -> bytes:
    return framed(1, _text(pair.get("key"))) + framed(2, _any(pair.get("value"), depth))


def _any(value: Json, depth: int) -> bytes:
    """Return an AnyValue's bytes; a value without its type around it is taken as what it is."""
    if depth > _MAX_DEPTH:
        raise _UnreadableError(f"values nested more than {_MAX_DEPTH} deep")
    if isinstance(value, dict):
        for name, inner in value.items():
            write = _VALUES.get(name)
            if write is not None and inner is not None:
                return write(inner, depth)
        return b""
    write = _BARE.get(type(value))
    return write(value, depth) if write else b""


def _string(value: Json, _: int) -> bytes:
    return framed(1, _text(value))


def _bool(value: Json, _: int) -> bytes:
    return scalar(2, int(value is True or value == "true"))


def _integer(value: Json, depth: int) -> bytes:
    number = _number(value)
    if number is None:
        return _string(value, depth)
    return scalar(3, int(number)) if -_INT64 <= number < _INT64 else double(4, float(number))


def _double(value: Json, depth: int) -> bytes:
    number = _number(value)
    return _string(value, depth) if number is None else double(4, float(number))


def _array(value: Json, depth: int) -> bytes:
    values = _list(value, "values") if isinstance(value, dict) else value if isinstance(value, list) else []
    return framed(5, b"".join([framed(1, _any(one, depth + 1)) for one in values]))


def _map(value: Json, depth: int) -> bytes:
    pairs = _objects(value, "values") if isinstance(value, dict) else []
    return framed(6, b"".join([framed(1, _key_value(pair, depth + 1)) for pair in pairs]))


def _bytes(value: Json, _: int) -> bytes:
    text = _text(value).translate(_URL_SAFE)
    try:
        return framed(7, base64.b64decode(text + b"=" * (-len(text) % 4)))
    except binascii.Error:
        return framed(7, b"")


_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_VALUES: Mapping[str, Callable[[Json, int], bytes]] = {
    name: write
    for title, write in (
        ("stringValue", _string),
        ("boolValue", _bool),
        ("intValue", _integer),
        ("doubleValue", _double),
        ("arrayValue", _array),
        ("kvlistValue", _map),
        ("bytesValue", _bytes),
    )
    for name in (title, _snake(title))
}
_BARE: Mapping[type, Callable[[Json, int], bytes]] = {
    str: _string,
    bool: _bool,
    int: _integer,
    float: _double,
    list: _array,
}


def _text(value: Json) -> bytes:
    if not isinstance(value, str):
        return b"" if value is None or isinstance(value, dict | list) else json.dumps(value).encode()
    try:
        return value.encode()
    except UnicodeEncodeError:
        # Bytes that were not UTF-8 are sent on, half a surrogate pair as such a byte: the reader repairs and flags all.
        return _HALVES.sub("\udcff", value).encode("utf-8", "surrogateescape")


def _id(value: Json) -> bytes:
    try:
        return binascii.unhexlify(value) if isinstance(value, str) else b""
    except ValueError:
        return b""


def _number(value: Json) -> int | float | None:
    try:
        if isinstance(value, str):
            value = int(value) if value.lstrip("+-").isdecimal() else float(value)
        if not isinstance(value, int | float):
            return None
        float(value)
    except (ValueError, OverflowError):
        return None
    return value


def _unsigned(value: Json, most: int) -> int:
    number = _number(value)
    return 0 if number is None or not 0 <= number <= most else int(number)


def _enum(value: Json) -> int:
    if isinstance(value, str) and value in _ENUMS:
        return _ENUMS[value]
    return _unsigned(value, _INT32)
