"""OTLP's messages with every `string` turned into `bytes`, and an envelope whose records stay unread bytes.

protobuf refuses a whole message for one `string` that is not UTF-8, and would throw away a batch for one odd byte
(open-telemetry/oteps#257). The messages here are the stock descriptors in a pool of their own, so they read every
byte string and keep fields that a newer OTLP adds. Traces and logs share the names `resources`, `scopes`, `records`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FileDescriptor
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "rag_monitor.otlp"

T_co = TypeVar("T_co", covariant=True)
Resource_co = TypeVar("Resource_co", covariant=True)
Scope_co = TypeVar("Scope_co", covariant=True)


class AnyValue(Protocol):
    """One attribute value; `WhichOneof("value")` names the field that is set, or is None."""

    string_value: bytes
    bool_value: bool
    int_value: int
    double_value: float
    bytes_value: bytes
    array_value: ArrayValue
    kvlist_value: KeyValueList

    def WhichOneof(self, oneof_group: str, /) -> str | None:  # noqa: N802 -- protobuf's own name
        """Return the name of the field that is set."""


class ArrayValue(Protocol):
    """A list of values."""

    values: Sequence[AnyValue]


class KeyValue(Protocol):
    """One attribute."""

    key: bytes
    value: AnyValue


class KeyValueList(Protocol):
    """A map of values."""

    values: Sequence[KeyValue]


class Resource(Protocol):
    """What emitted the records."""

    attributes: Sequence[KeyValue]


class Scope(Protocol):
    """The instrumentation that made the records."""

    name: bytes
    version: bytes


class Event(Protocol):
    """One event of a span."""

    time_unix_nano: int
    name: bytes
    attributes: Sequence[KeyValue]


class Link(Protocol):
    """A span that this one is linked to."""

    trace_id: bytes
    span_id: bytes


class Status(Protocol):
    """A span's status."""

    message: bytes
    code: int


class Record(Protocol):
    """What spans and log records have in common."""

    trace_id: bytes
    span_id: bytes


class Span(Record, Protocol):
    """opentelemetry.proto.trace.v1.Span."""

    parent_span_id: bytes
    name: bytes
    kind: int
    start_time_unix_nano: int
    end_time_unix_nano: int
    attributes: Sequence[KeyValue]
    dropped_attributes_count: int
    events: Sequence[Event]
    links: Sequence[Link]
    status: Status


class LogRecord(Record, Protocol):
    """opentelemetry.proto.logs.v1.LogRecord."""

    time_unix_nano: int
    observed_time_unix_nano: int
    body: AnyValue
    attributes: Sequence[KeyValue]
    event_name: bytes


class ScopeRecords(Protocol[Scope_co, T_co]):
    """`ScopeSpans` or `ScopeLogs`."""

    @property
    def scope(self) -> Scope_co:
        """The scope, or its bytes."""

    @property
    def records(self) -> Sequence[T_co]:
        """In the order they were sent."""

    schema_url: bytes


class ResourceRecords(Protocol[Resource_co, Scope_co, T_co]):
    """`ResourceSpans` or `ResourceLogs`."""

    @property
    def resource(self) -> Resource_co:
        """The resource, or its bytes."""

    @property
    def scopes(self) -> Sequence[ScopeRecords[Scope_co, T_co]]:
        """In the order they were sent."""

    schema_url: bytes


class Request(Protocol[Resource_co, Scope_co, T_co]):
    """An export request, `TracesData` or `LogsData`, which are the same on the wire."""

    @property
    def resources(self) -> Sequence[ResourceRecords[Resource_co, Scope_co, T_co]]:
        """In the order they were sent."""


Envelope = Request[Sequence[bytes], Sequence[bytes], bytes]
"""A request whose resources, scopes and records are unread; a resource or scope sent in parts is several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsers:
    """How a request is read; all raise protobuf's `DecodeError`."""

    envelope: Callable[[bytes], Envelope]
    spans: Callable[[bytes], Request[Resource, Scope, Span]]
    logs: Callable[[bytes], Request[Resource, Scope, LogRecord]]


@functools.cache
def parsers() -> Parsers:
    """Return the parsers, made at the first call in under a millisecond."""
    pool = descriptor_pool.DescriptorPool()
    for stock in (common_pb2, resource_pb2, trace_pb2, logs_pb2):
        pool.AddSerializedFile(_lenient(stock.DESCRIPTOR).SerializeToString())
    resource, scope = ".opentelemetry.proto.resource.v1.Resource", ".opentelemetry.proto.common.v1.InstrumentationScope"
    for file in (
        _request("envelope", None, None, None),
        _request("spans", resource, scope, ".opentelemetry.proto.trace.v1.Span"),
        _request("logs", resource, scope, ".opentelemetry.proto.logs.v1.LogRecord"),
    ):
        pool.AddSerializedFile(file.SerializeToString())

    def parser(name: str) -> object:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}.Request")).FromString

    return Parsers(
        envelope=cast("Callable[[bytes], Envelope]", parser("envelope")),
        spans=cast("Callable[[bytes], Request[Resource, Scope, Span]]", parser("spans")),
        logs=cast("Callable[[bytes], Request[Resource, Scope, LogRecord]]", parser("logs")),
    )


def _lenient(stock: FileDescriptor) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto()
    stock.CopyToProto(file)
    waiting = list(file.message_type)
    while waiting:
        message = waiting.pop()
        waiting += message.nested_type
        for field in message.field:
            if field.type == _Field.TYPE_STRING:
                field.type = _Field.TYPE_BYTES
    return file


def _request(
    name: str, resource: str | None, scope: str | None, record: str | None
) -> descriptor_pb2.FileDescriptorProto:
    """Describe a request by the types of its parts; None leaves a part as bytes, repeated so that none is lost."""
    package = f"{_PACKAGE}.{name}"
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    file.dependency.extend(
        f"opentelemetry/proto/{part}/v1/{part}.proto" for part in ("common", "resource", "trace", "logs")
    )

    def message(title: str, *fields: tuple[str, int, str | None, bool]) -> None:
        described = file.message_type.add(name=title)
        for label, number, type_name, repeated in fields:
            described.field.add(
                name=label,
                number=number,
                type=_Field.TYPE_MESSAGE if type_name else _Field.TYPE_BYTES,
                type_name=type_name,
                label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL,
            )

    url = ("schema_url", 3, None, False)
    message("Scope", ("scope", 1, scope, scope is None), ("records", 2, record, True), url)
    message("Resource", ("resource", 1, resource, resource is None), ("scopes", 2, f".{package}.Scope", True), url)
    message("Request", ("resources", 1, f".{package}.Resource", True))
    return file
