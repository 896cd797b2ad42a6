"""OTLP/JSON becomes the protobuf request it stands for, so that both take one path from then on.

OTLP/JSON is protobuf's JSON mapping except that trace and span ids are hexadecimal (OTLP 1.10, "JSON Protobuf
Encoding"). Read leniently: numbers as strings or numbers, enums as numbers or names, snake_case field names, null or
nothing in any field, unknown fields, a bare array of resources, lone surrogates, and NaN as a literal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import orjson

from monitor.errors import MalformedPayload
from monitor.payloads.otlp.json_records import (
    log_record_bytes,
    resource_bytes,
    schema_url_bytes,
    scope_bytes,
    span_bytes,
)
from monitor.payloads.otlp.json_values import Json, UnreadableError, list_field, snake_case, type_name
from monitor.payloads.otlp.misfits import NAMES
from monitor.payloads.otlp.wire import framed


def to_protobuf(body: bytes, signal: Literal["traces", "logs"]) -> tuple[bytes, int, str]:
    """Return the request as protobuf bytes, how many records had to be left out as unreadable, and where the first is.

    What is of the wrong type above the records counts as the records in it, or as one. Ids that are not hexadecimal
    become empty, for the caller to reject.

    Raises:
        MalformedPayload: not JSON, JSON without the signal's field, or of the wrong type above the records and no
            record is left; the message names the place.
    """
    resources, scopes, records = NAMES[signal]
    record_bytes = span_bytes if signal == "traces" else log_record_bytes
    lost = _Lost()
    readable = 0
    out = []
    for place, resource in _resources(_loaded(body), resources, scopes, lost):
        try:
            around_resource = framed(1, resource_bytes(resource))
        except UnreadableError as error:
            # Nothing says whose records these are.
            lost.leave_out(f"{place}: {error}", count=_records_in(resource, scopes, records))
            continue
        inner = []
        for at, scope in _objects_at(place, resource, scopes, lost):
            try:
                around_scope = scope_bytes(scope)
            except UnreadableError as error:
                lost.leave_out(f"{at}: {error}", count=_records_in(scope, records))
                continue
            framed_records = []
            for record_at, record in _entries(at, scope, records, lost):
                try:
                    framed_records.append(framed(2, record_bytes(record)))
                except UnreadableError as error:
                    lost.leave_out_record(f"{record_at}: {error}")
            readable += len(framed_records)
            inner.append(framed(2, around_scope + b"".join(framed_records) + schema_url_bytes(scope)))
        out.append(framed(1, around_resource + b"".join(inner) + schema_url_bytes(resource)))
    if lost.complaint and not readable:
        raise MalformedPayload(lost.complaint, reason="not_otlp")
    return b"".join(out), lost.count, lost.complaint or lost.record_complaint


@dataclass(slots=True)
class _Lost:
    """What is left out of one request."""

    count: int = 0
    complaint: str = ""
    """The first place above the records that is wrong, what was found there and what is allowed."""
    record_complaint: str = ""
    """The same of the first record."""

    def leave_out(self, complaint: str, *, count: int = 1) -> None:
        """Count what stands at a place above the records."""
        self.complaint = self.complaint or complaint
        self.count += max(1, count)

    def leave_out_record(self, complaint: str) -> None:
        """Count one record."""
        self.record_complaint = self.record_complaint or complaint
        self.count += 1


def _loaded(body: bytes) -> Json:
    body = body.removeprefix(b"\xef\xbb\xbf").strip() or b"{}"
    try:
        loaded: Json = orjson.loads(body)
    except orjson.JSONDecodeError:
        # The standard library also reads NaN and the halves of a surrogate pair that a JavaScript sender cut in two.
        # Bytes that are not UTF-8 stay what they are until `text_bytes`.
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
        for number, entry in enumerate(loaded):
            place = f"[{number}]"
            if isinstance(entry, dict) and _holds(entry, name):
                yield from _objects_at(place, entry, name, lost)
            elif isinstance(entry, dict) and (not entry or _holds(entry, scopes) or "resource" in entry):
                yield place, entry
            else:
                lost.leave_out(f"{place}: found {type_name(entry)}; allowed: an object with {name!r} or {scopes!r}")
    else:
        raise MalformedPayload(f"the JSON has no {name!r}", reason="not_otlp")


def _objects_at(
    place: str, owner: Mapping[str, Json], name: str, lost: _Lost
) -> Iterator[tuple[str, Mapping[str, Json]]]:
    for at, entry in _entries(place, owner, name, lost):
        if isinstance(entry, dict):
            yield at, entry
        else:
            lost.leave_out(f"{at}: found {type_name(entry)}; allowed: an object")


def _entries(place: str, owner: Mapping[str, Json], name: str, lost: _Lost) -> Iterator[tuple[str, Json]]:
    """Yield what an array above the records, or of records, holds, each with its place; both spellings may be there."""
    for spelling in dict.fromkeys((name, snake_case(name))):
        array = owner.get(spelling)
        at = f"{place}.{spelling}" if place else spelling
        if isinstance(array, list):
            for number, entry in enumerate(array):
                yield f"{at}[{number}]", entry
        elif array is not None:
            lost.leave_out(f"{at}: found {type_name(array)}; allowed: an array of objects")


def _records_in(owner: Json, *names: str) -> int:
    """Return how many records stand in what cannot be read, under these names one in the other."""
    if not names or not isinstance(owner, dict):
        return 1
    return sum(_records_in(entry, *names[1:]) for entry in list_field(owner, names[0]))


def _holds(owner: Mapping[str, Json], name: str) -> bool:
    return name in owner or snake_case(name) in owner
