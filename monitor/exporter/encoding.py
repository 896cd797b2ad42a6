"""Spans and log records become OTLP requests, whatever an app put into them.

OpenTelemetry's encoder leaves out an attribute that protobuf cannot hold, such as text with half of a surrogate pair or
an integer of more than 64 bits, and raises where a name is such a text. Here they are sent with something in its place.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from google.protobuf.message import Message
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import Link, Status
from opentelemetry.util.types import AnyValue

from monitor.text.repair import repaired

T = TypeVar("T")

_INT64 = 1 << 63


@dataclass(frozen=True, slots=True)
class Encoded:
    """An OTLP request, and how many of its items have something else in the place of what OTLP cannot hold."""

    body: bytes
    repaired: int = 0


def encoded_spans(spans: Sequence[ReadableSpan]) -> Encoded:
    """Return the spans as an `ExportTraceServiceRequest`.

    Raises:
        Exception: of any type, where something cannot be encoded all the same.
    """
    try:
        request = encode_spans(spans)
    except Exception:  # noqa: BLE001 -- a name that is no text; what is done about it may raise
        request = None
    if request is not None:
        sent = sum(
            len(span.attributes)
            + sum([len(event.attributes) for event in span.events])
            + sum([len(link.attributes) for link in span.links])
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ) + sum(len(resource.resource.attributes) for resource in request.resource_spans)
        given = sum(
            _count(span.attributes)
            + sum([_count(event.attributes) for event in span.events])
            + sum([_count(link.attributes) for link in span.links])
            for span in spans
        )
        if sent == given + _of_resources(span.resource for span in spans):
            return Encoded(request.SerializeToString())
    sound = [_sound_span(span) for span in spans]
    return _encoded(encode_spans(sound), spans, sound)


def encoded_logs(records: Sequence[ReadableLogRecord]) -> Encoded:
    """Return the log records as an `ExportLogsServiceRequest`.

    Raises:
        Exception: as `encoded_spans`.
    """
    try:
        request = encode_logs(records)
    except Exception:  # noqa: BLE001 -- a body that is no text; what is done about it may raise
        request = None
    if request is not None:
        sent = sum(
            len(record.attributes)
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ) + sum(len(resource.resource.attributes) for resource in request.resource_logs)
        given = sum(_count(record.log_record.attributes) for record in records)
        if sent == given + _of_resources(record.resource for record in records):
            return Encoded(request.SerializeToString())
    sound = [_sound_record(record) for record in records]
    return _encoded(encode_logs(sound), records, sound)


def _encoded(request: Message, items: Sequence[T], sound: Sequence[T]) -> Encoded:
    return Encoded(request.SerializeToString(), sum(one is not other for one, other in zip(items, sound, strict=True)))


def _count(attributes: Mapping[str, object] | None) -> int:
    return len(attributes) if attributes else 0


def _of_resources(resources: Iterable[Resource]) -> int:
    """Return how many attributes the resources have that are sent, each once."""
    return sum(len(resource.attributes) for resource in {id(one): one for one in resources}.values())


def _sound_span(span: ReadableSpan) -> ReadableSpan:
    """Return the span itself, or a copy that can be encoded."""
    name, resource = _text(span.name), _sound_resource(span.resource)
    given = span.attributes
    attributes = _attributes(given, dropped=span.dropped_attributes)
    events = [_sound_event(event) for event in span.events]
    links = [_sound_link(link) for link in span.links]
    description = span.status.description
    status = span.status if _text(description) is description else Status(span.status.status_code, _text(description))
    parts = ((name, span.name), (resource, span.resource), (attributes, given), (status, span.status))
    inner = (*zip(events, span.events, strict=True), *zip(links, span.links, strict=True))
    if all(one is other for one, other in (*parts, *inner)):
        return span
    return ReadableSpan(
        name=name or "",
        context=span.get_span_context(),
        parent=span.parent,
        resource=resource,
        attributes=attributes,
        events=events,
        links=links,
        kind=span.kind,
        status=status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _sound_event(event: Event) -> Event:
    name, attributes = _text(event.name) or "", _attributes(event.attributes, dropped=event.dropped_attributes)
    if name == event.name and attributes is event.attributes:
        return event
    return Event(name, attributes, event.timestamp)


def _sound_link(link: Link) -> Link:
    attributes = _attributes(link.attributes, dropped=link.dropped_attributes)
    return link if attributes is link.attributes else Link(link.context, attributes)


def _sound_resource(resource: Resource) -> Resource:
    attributes = _attributes(resource.attributes)
    return resource if attributes is resource.attributes else Resource(dict(attributes or {}), resource.schema_url)


def _sound_record(record: ReadableLogRecord) -> ReadableLogRecord:
    """Return the log record itself, or a copy that can be encoded."""
    log, resource = record.log_record, _sound_resource(record.resource)
    body, attributes = _value(log.body), _attributes(log.attributes, dropped=record.dropped_attributes)
    severity, name = _text(log.severity_text), _text(log.event_name)
    parts = (
        (resource, record.resource),
        (body, log.body),
        (attributes, log.attributes),
        (severity, log.severity_text),
        (name, log.event_name),
    )
    if all(one is other for one, other in parts):
        return record
    sound = copy.copy(log)
    sound.body, sound.attributes = cast("AnyValue", body), attributes
    sound.severity_text, sound.event_name = severity, name
    return replace(record, log_record=sound, resource=resource)


def _attributes(attributes: T, *, dropped: int = 0) -> T:
    """Return the attributes themselves, or such that can be encoded; how many the SDK `dropped` goes with them."""
    if not isinstance(attributes, Mapping):
        return attributes
    sound = {_text(key): _value(value) for key, value in attributes.items()}
    if all(key in attributes and value is attributes[key] for key, value in sound.items()):
        return attributes
    typed = cast("Mapping[str, AnyValue]", sound)
    kept = BoundedAttributes(attributes=typed, immutable=False, extended_attributes=True)
    kept.dropped = dropped
    return cast("T", kept)


def _value(value: object) -> object:
    """Return the value itself, or one that OTLP can hold: what is too long for an integer as a number with a point."""
    if value is None or isinstance(value, bool | float | bytes):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return value if -_INT64 <= value < _INT64 else _number(value)
    if isinstance(value, Mapping):
        inner = {_text(str(key)): _value(item) for key, item in value.items()}
        return value if all(key in value and item is value[key] for key, item in inner.items()) else inner
    if isinstance(value, Sequence):
        items = [_value(item) for item in value]
        return value if all(one is other for one, other in zip(items, value, strict=True)) else items
    return _text(str(value))


def _number(value: int) -> float | str:
    try:
        return float(value)
    except OverflowError:
        return f"an integer of {value.bit_length()} bits"


def _text(text: str | None) -> str | None:
    if text is None or text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return repaired(text)
    return text
