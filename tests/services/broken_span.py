"""Requests framed from the bytes of a scope, such as one with a span that is no message."""

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def with_broken_span(request: ExportTraceServiceRequest) -> bytes:
    """Return the first scope of the request with such a span behind its own, in wire format."""
    scope = request.resource_spans[0].scope_spans[0].SerializeToString() + b"\x12\x03\x0a\xff\x01"
    return request_around(scope)


def request_around(scope: bytes) -> bytes:
    """Return the request, in wire format, that holds nothing but this scope with its spans."""
    inner = b"\x12" + _varint(len(scope)) + scope
    return b"\x0a" + _varint(len(inner)) + inner


def _varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + _varint(value >> 7)
