"""One record of OTLP/JSON, and what stands around it, becomes protobuf; see `json_encoding`."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.payloads.otlp.json_values import (
    UINT32,
    UINT64,
    Json,
    UnreadableError,
    attribute_pairs,
    attributes_bytes,
    enum_number,
    field,
    id_bytes,
    objects_in,
    text_bytes,
    type_name,
    unsigned,
    value_bytes,
)
from monitor.payloads.otlp.wire import fixed64, framed, scalar


def schema_url_bytes(owner: Mapping[str, Json]) -> bytes:
    """Return the schema URL of a resource or a scope."""
    url = text_bytes(field(owner, "schemaUrl"))
    return framed(3, url) if url else b""


def resource_bytes(owner: Mapping[str, Json]) -> bytes:
    """Return the Resource of a ResourceSpans or ResourceLogs.

    Raises:
        UnreadableError: something in it is of the wrong type.
    """
    return attributes_bytes(_part(owner, "resource"), 1, "resource.")


def scope_bytes(owner: Mapping[str, Json]) -> bytes:
    """Return the scope of a ScopeSpans or ScopeLogs without its attributes, which nothing reads.

    Raises:
        UnreadableError: it, or something in it, is of the wrong type.
    """
    scope = _part(owner, "scope")
    if not scope:
        return b""
    attribute_pairs(scope, "scope.")
    return framed(1, framed(1, text_bytes(field(scope, "name"))) + framed(2, text_bytes(field(scope, "version"))))


def _part(owner: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    """Return the object of this name; nothing is fine, another type is not."""
    part = owner.get(name)
    if part is None:
        return {}
    if not isinstance(part, dict):
        raise UnreadableError(f"{name}: found {type_name(part)}; allowed: an object")
    return part


def span_bytes(span: Json) -> bytes:
    """Return a Span without trace state, which nothing reads.

    Raises:
        UnreadableError: it, its status, an array or a value in it is of the wrong type, or values are nested too
            deeply; the message names the place inside of the span.
    """
    if not isinstance(span, dict):
        raise UnreadableError(f"found {type_name(span)}; allowed: an object")
    status = _part(span, "status")
    return b"".join(
        (
            framed(1, id_bytes(field(span, "traceId"))),
            framed(2, id_bytes(field(span, "spanId"))),
            framed(4, id_bytes(field(span, "parentSpanId"))),
            framed(5, text_bytes(field(span, "name"))),
            scalar(6, enum_number(field(span, "kind"))),
            fixed64(7, unsigned(field(span, "startTimeUnixNano"), UINT64)),
            fixed64(8, unsigned(field(span, "endTimeUnixNano"), UINT64)),
            attributes_bytes(span, 9),
            scalar(10, unsigned(field(span, "droppedAttributesCount"), UINT32)),
            *(framed(11, _event(event, number)) for number, event in enumerate(objects_in(span, "events"))),
            *(framed(13, _link(link, number)) for number, link in enumerate(objects_in(span, "links"))),
            framed(15, framed(2, text_bytes(field(status, "message"))) + scalar(3, enum_number(field(status, "code")))),
        )
    )


def _event(event: Mapping[str, Json], number: int) -> bytes:
    time = fixed64(1, unsigned(field(event, "timeUnixNano"), UINT64))
    return time + framed(2, text_bytes(field(event, "name"))) + attributes_bytes(event, 3, f"events[{number}].")


def _link(link: Mapping[str, Json], number: int) -> bytes:
    # Nothing reads them, but who sends them wrong is to know.
    attribute_pairs(link, f"links[{number}].")
    return framed(1, id_bytes(field(link, "traceId"))) + framed(2, id_bytes(field(link, "spanId")))


def log_record_bytes(record: Json) -> bytes:
    """Return a LogRecord.

    Raises:
        UnreadableError: as `span_bytes`.
    """
    if not isinstance(record, dict):
        raise UnreadableError(f"found {type_name(record)}; allowed: an object")
    return b"".join(
        (
            fixed64(1, unsigned(field(record, "timeUnixNano"), UINT64)),
            framed(5, value_bytes(record.get("body"), 0)),
            attributes_bytes(record, 6),
            framed(9, id_bytes(field(record, "traceId"))),
            framed(10, id_bytes(field(record, "spanId"))),
            fixed64(11, unsigned(field(record, "observedTimeUnixNano"), UINT64)),
            framed(12, text_bytes(field(record, "eventName"))),
        )
    )
