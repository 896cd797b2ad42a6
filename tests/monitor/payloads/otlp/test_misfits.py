"""Known fields of OTLP that were sent as another wire type than their own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from monitor.errors import MalformedPayload
from monitor.payloads.otlp.fragments import Split, split_otlp
from monitor.payloads.otlp.wire import fixed64, framed, scalar

if TYPE_CHECKING:
    from tests.services.otlp_service import MakeRequest

NOW = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
GOOD = framed(1, bytes(range(16))) + framed(2, bytes(range(8)))
"""A span with both its ids."""


def split(*parts: bytes) -> Split:
    """Split the fields of a request of spans."""
    return split_otlp(b"".join(parts), "traces", received_at=NOW, encoding="protobuf")


def of_spans(*spans: bytes) -> bytes:
    """A resource with one scope with these spans."""
    return framed(1, framed(2, b"".join(framed(2, span) for span in spans)))


@pytest.mark.parametrize(
    ("field", "complaint"),
    [
        (scalar(7, 5), "startTimeUnixNano: found a field of varint; allowed: 64 bits"),
        (fixed64(6, 5), "kind: found a field of 64 bits; allowed: varint"),
        (scalar(9, 5), "attributes: found a field of varint; allowed: delimited bytes"),
        (framed(9, framed(1, b"a")) + framed(9, scalar(1, 5)), "attributes[1].key: found a field of varint; allowed: "),
        (
            framed(9, framed(2, fixed64(3, 5))),
            "attributes[0].value.intValue: found a field of 64 bits; allowed: ",
        ),
        (framed(11, scalar(2, 5)), "events[0].name: found a field of varint; allowed: delimited bytes"),
        (framed(15, framed(3, b"a")), "status.code: found a field of delimited bytes; allowed: varint"),
    ],
)
def test_field_of_a_span(field: bytes, complaint: str) -> None:
    """It costs its span, and says where; the field was left out, and the span acknowledged."""
    content = split(of_spans(GOOD), of_spans(GOOD, GOOD + field))
    assert (2, {"unreadable": 1}) == (content.accepted, content.reasons)
    assert content.complaint.startswith(f"resourceSpans[1].scopeSpans[0].spans[1]: {complaint}")


@pytest.mark.parametrize(
    ("damaged", "rejected", "complaint"),
    [
        (scalar(1, 5), 1, "resourceSpans: found a field of varint; allowed: delimited bytes"),
        (
            framed(1, scalar(1, 5) + framed(2, framed(2, GOOD) * 3)),
            3,
            "resourceSpans[1].resource: found a field of varint",
        ),
        (framed(1, scalar(2, 5)), 1, "resourceSpans[1].scopeSpans: found a field of varint"),
        (
            framed(1, framed(1, scalar(1, 5)) + framed(2, framed(2, GOOD))),
            1,
            "resourceSpans[1].resource.attributes: ",
        ),
        (framed(1, framed(2, framed(2, GOOD) * 2 + scalar(1, 5))), 2, "resourceSpans[1].scopeSpans[0].scope: found"),
        (
            framed(1, framed(2, framed(1, scalar(1, 5)) + framed(2, GOOD))),
            1,
            "resourceSpans[1].scopeSpans[0].scope.name",
        ),
        (framed(1, framed(2, scalar(2, 5))), 1, "resourceSpans[1].scopeSpans[0].spans: found a field of varint"),
        (framed(1, framed(2, framed(2, b"\xff"))), 1, "resourceSpans[1].scopeSpans[0].spans[0]: not an OTLP protobuf"),
        (
            framed(1, framed(1, b"\xff") + framed(2, framed(2, GOOD))),
            1,
            "resourceSpans[1]: not an OTLP protobuf",
        ),
    ],
)
def test_field_above_the_spans(damaged: bytes, rejected: int, complaint: str) -> None:
    """It costs the spans below it, or counts as one; when no span is left the request is refused with the place."""
    content = split(of_spans(GOOD), damaged)
    assert (1, rejected) == (content.accepted, content.rejected)
    assert content.complaint.startswith(complaint)
    with pytest.raises(MalformedPayload, match=complaint.replace("[1]", r"\[0\]").replace("s[0]", r"s\[0\]")):
        split(damaged)


def test_spans_sent_as_log_records(make_request: MakeRequest) -> None:
    """What was sent to the other signal's address is refused, since a span's fields are none of a log record's."""
    with pytest.raises(MalformedPayload, match=r"scopeLogs\[0\]\.logRecords\[0\]: not an OTLP protobuf message"):
        split_otlp(make_request(1).SerializeToString(), "logs", received_at=NOW, encoding="protobuf")


def test_log_record() -> None:
    """A log record is named as one."""
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    records.add(trace_id=bytes(range(16)))
    records.add(trace_id=bytes(range(16))).MergeFromString(framed(1, b"late"))
    content = split_otlp(request.SerializeToString(), "logs", received_at=NOW, encoding="protobuf")
    assert (1, 1) == (content.accepted, content.rejected)
    assert content.complaint.startswith("resourceLogs[0].scopeLogs[0].logRecords[1]: timeUnixNano: found a field of ")


def test_fields_that_a_newer_otlp_adds() -> None:
    """They are no damage, at any depth."""
    new = b"\xfa\x07\x03new"
    attribute = framed(9, new + framed(1, b"a"))
    whole = framed(1, new + framed(1, new) + framed(2, new + framed(1, new) + framed(2, GOOD + new + attribute)))
    content = split(new, whole)
    assert (1, 0, "") == (content.accepted, content.rejected, content.complaint)
    assert attribute in content.fragments[0].payload
