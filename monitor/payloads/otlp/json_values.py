"""Attribute values and scalars of OTLP/JSON become protobuf, read leniently: see `json_encoding`."""

from __future__ import annotations

import base64
import binascii
import functools
import json
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from monitor.payloads.otlp.wire import double, framed, scalar

Json: TypeAlias = "Mapping[str, Json] | list[Json] | str | int | float | bool | None"

_MAX_DEPTH = 30
"""Of nested values: protobuf reads 100 messages deep, and a map in a map takes three."""
_INT32 = (1 << 31) - 1
_INT64 = 1 << 63
UINT32 = (1 << 32) - 1
UINT64 = (1 << 64) - 1
_HALVES = re.compile("[\ud800-\udc7f\udd00-\udfff]")
"""Halves of surrogate pairs, but for those that Python reads bytes as that are not UTF-8 (PEP 383)."""
_KEYS = (str, int, float)
"""What an attribute's key may be: a number reads as its JSON."""
_TYPES: Mapping[type, str] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}
_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_ENUMS = {f"SPAN_KIND_{name}": number for number, name in enumerate(_KINDS)} | {
    f"STATUS_CODE_{name}": number for number, name in enumerate(("UNSET", "OK", "ERROR"))
}


class UnreadableError(Exception):
    """One record, or what stands around several, cannot be written as protobuf; they alone are left out."""


@functools.cache
def snake_case(name: str) -> str:
    """Return a field's name as protobuf files spell it.

    >>> snake_case("traceId")
    'trace_id'
    """
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def field(owner: Mapping[str, Json], name: str) -> Json:
    """Return a field under its own or its snake_case name; None for nothing."""
    value = owner.get(name)
    return value if value is not None else owner.get(snake_case(name))


def list_field(owner: Mapping[str, Json], name: str) -> list[Json]:
    """Return a field that is an array, empty for anything else."""
    value = field(owner, name)
    return value if isinstance(value, list) else []


def objects_in(owner: Mapping[str, Json], name: str, around: str = "") -> list[Mapping[str, Json]]:
    """Return the objects in an array that is read strictly; null, and what holds nothing, reads as not there.

    Raises:
        UnreadableError: something else is there; the message names the place, which is inside of `around`.
    """
    value = field(owner, name)
    if not value:
        return []
    if not isinstance(value, list):
        raise UnreadableError(f"{around}{name}: found {type_name(value)}; allowed: an array of objects")
    for number, entry in enumerate(value):
        if not isinstance(entry, dict | None):
            raise UnreadableError(f"{around}{name}[{number}]: found {type_name(entry)}; allowed: an object")
    return [entry for entry in value if isinstance(entry, dict)]


def attribute_pairs(owner: Mapping[str, Json], around: str = "") -> list[Mapping[str, Json]]:
    """Return the objects in `attributes`, each of which has a key.

    Raises:
        UnreadableError: they are anything else; the message names the place, which is inside of `around`.
    """
    pairs = objects_in(owner, "attributes", around)
    if not all(isinstance(pair.get("key"), _KEYS) for pair in pairs):
        raise UnreadableError(f"{around}attributes: found an object without 'key'; allowed: objects with 'key'")
    return pairs


def attributes_bytes(owner: Mapping[str, Json], number: int, around: str = "") -> bytes:
    """Return `attributes` as repeated field `number`.

    Raises:
        UnreadableError: as `attribute_pairs`, or values are nested too deeply.
    """
    written = []
    for place, pair in enumerate(attribute_pairs(owner, around)):
        try:
            written.append(framed(number, _key_value(pair, 0)))
        except UnreadableError as error:
            raise UnreadableError(f"{around}attributes[{place}].value: {error}") from None
    return b"".join(written)


def _key_value(pair: Mapping[str, Json], depth: int) -> bytes:
    return framed(1, text_bytes(pair.get("key"))) + framed(2, value_bytes(pair.get("value"), depth))


def value_bytes(value: Json, depth: int) -> bytes:
    """Return an AnyValue at a `depth` from 0; a value without its type around it is taken as what it is.

    Raises:
        UnreadableError: it is nested too deeply, or of another type than it says.
    """
    if depth > _MAX_DEPTH:
        raise UnreadableError(f"values nested more than {_MAX_DEPTH} deep")
    if isinstance(value, dict):
        for name, inner in value.items():
            write = _VALUES.get(name)
            if write is not None and inner is not None:
                return write(inner, depth)
        return b""
    write = _BARE.get(type(value))
    return write(value, depth) if write else b""


def _string(value: Json, _: int) -> bytes:
    if isinstance(value, dict | list):
        raise UnreadableError(f"found {type_name(value)}; allowed: a scalar of the type that it says")
    return framed(1, text_bytes(value))


def _bool(value: Json, depth: int) -> bytes:
    if not isinstance(value, bool | int) and value not in ("true", "false"):
        return _string(value, depth)
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
    values = value if isinstance(value, list) else _values(value)
    return framed(5, b"".join([framed(1, value_bytes(entry, depth + 1)) for entry in values]))


def _map(value: Json, depth: int) -> bytes:
    pairs = [pair for pair in _values(value) if pair is not None]
    for pair in pairs:
        if not isinstance(pair, dict) or not isinstance(pair.get("key"), _KEYS):
            raise UnreadableError(f"values: found {type_name(pair)}; allowed: objects with 'key'")
    return framed(6, b"".join([framed(1, _key_value(pair, depth + 1)) for pair in pairs if isinstance(pair, dict)]))


def _values(value: Json) -> list[Json]:
    """Return what an array or a map of OTLP holds; nothing holds nothing."""
    values = field(value, "values") if isinstance(value, dict) else value
    if values and not isinstance(values, list):
        raise UnreadableError(f"found {type_name(values)}; allowed: an array in 'values'")
    return values if isinstance(values, list) else []


def _bytes(value: Json, depth: int) -> bytes:
    if not isinstance(value, str):
        return _string(value, depth)
    text = text_bytes(value).translate(_URL_SAFE)
    try:
        return framed(7, base64.b64decode(text + b"=" * (-len(text) % 4)))
    except binascii.Error:
        raise UnreadableError("found a string that is not base64; allowed: bytes in base64") from None


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
    for name in (title, snake_case(title))
}
_BARE: Mapping[type, Callable[[Json, int], bytes]] = {
    str: _string,
    bool: _bool,
    int: _integer,
    float: _double,
    list: _array,
}


def text_bytes(value: Json) -> bytes:
    """Return text in UTF-8; of another scalar its JSON."""
    if not isinstance(value, str):
        return b"" if value is None or isinstance(value, dict | list) else json.dumps(value).encode()
    try:
        return value.encode()
    except UnicodeEncodeError:
        # Bytes that were not UTF-8 are sent on, half a surrogate pair as such a byte: the reader repairs and flags all.
        return _HALVES.sub("\udcff", value).encode("utf-8", "surrogateescape")


def id_bytes(value: Json) -> bytes:
    """Return what hexadecimal digits stand for; nothing for anything else."""
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


def unsigned(value: Json, most: int) -> int:
    """Return a number between 0 and `most`; 0 for anything else."""
    number = _number(value)
    return 0 if number is None or not 0 <= number <= most else int(number)


def enum_number(value: Json) -> int:
    """Return the number of an enum that is given by name or by number."""
    if isinstance(value, str) and value in _ENUMS:
        return _ENUMS[value]
    return unsigned(value, _INT32)


def type_name(value: Json) -> str:
    """Return the name of a value's type in JSON, with its article."""
    return "null" if value is None else _TYPES[type(value)]
