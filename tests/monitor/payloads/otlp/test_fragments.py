"""Splitting requests into fragments and reading them again."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING

import pytest
from broken_span import request_around, with_broken_span
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from monitor.errors import MalformedPayload
from monitor.model.spans import Fragment, Link
from monitor.payloads.otlp.bounds import MAX_RECORDS
from monitor.payloads.otlp.fragments import Encoding, OtlpSignal, Split, decode_otlp, split_otlp

if TYPE_CHECKING:
    from tests.services.otlp_service import MakeRequest

NOW = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
TRACE = "5b8efff798038103d269b633813fc60c"


def split(body: bytes, *, encoding: Encoding | None = "protobuf") -> Split:
    """Split a request of spans."""
    return split_otlp(body, "traces", received_at=NOW, encoding=encoding)


def test_one_trace_one_fragment(make_request: MakeRequest) -> None:
    """Each trace of a request becomes a fragment that holds its spans, resource and scope, and no other trace."""
    content = split(make_request(3).SerializeToString())

    assert [(f"{number:032x}", 3) for number in (1, 2, 3)] == [(f.trace_id, f.count) for f in content.fragments]
    assert (9, 0, {}) == (content.accepted, content.rejected, content.reasons)
    assert make_request(1, first=2).resource_spans == TracesData.FromString(content.fragments[1].payload).resource_spans


def test_digest_is_of_the_payload(make_request: MakeRequest) -> None:
    """The same request splits into the same bytes each time, and the digest is their blake2b."""
    body = make_request(2).SerializeToString()
    first, second = split(body).fragments, split(body).fragments

    assert first == second
    assert [blake2b(f.payload, digest_size=16).digest() for f in first] == [f.digest for f in first]


def test_trace_over_several_scopes_and_resources(make_request: MakeRequest) -> None:
    """A trace spread over resources and scopes keeps each span under its own."""
    request = make_request(1)
    other = make_request(1)
    other.resource_spans[0].resource.attributes[0].value.string_value = "gateway"
    other.resource_spans[0].scope_spans.add().CopyFrom(make_request(1).resource_spans[0].scope_spans[0])
    other.resource_spans[0].scope_spans[1].scope.name = "http"
    request.MergeFrom(other)
    (fragment,) = split(request.SerializeToString()).fragments

    assert request.resource_spans == TracesData.FromString(fragment.payload).resource_spans
    where = [(span.resource["service.name"], span.scope) for span in decode_otlp(fragment).spans]
    assert [("helpdesk", "demo.rag")] * 3 + [("gateway", "demo.rag")] * 3 + [("gateway", "http")] * 3 == where


def test_json_and_protobuf_read_alike(turn_json: bytes, turn_pb: bytes) -> None:
    """A turn sent as JSON with upper-case hexadecimal ids and as protobuf reads as the same spans."""
    (from_json,) = split(turn_json, encoding="json").fragments
    (from_pb,) = split(turn_pb).fragments

    assert TRACE == from_json.trace_id == from_pb.trace_id
    assert decode_otlp(from_pb) == decode_otlp(from_json)


def test_every_field_is_read(turn_pb: bytes) -> None:
    """Names, kinds, parents, times, status, events and all types of attribute values are read."""
    (fragment,) = split(turn_pb).fragments
    _, chat, root = decode_otlp(fragment).spans

    assert (TRACE, "eee19b7ec3c1b175", "eee19b7ec3c1b174") == (chat.trace_id, chat.span_id, chat.parent_id)
    assert ("chat", 3, 1, "demo.rag", "1.0") == (chat.name, chat.kind, chat.status, chat.scope, chat.scope_version)
    assert (1777888800130000000, 1777888800900000000) == (chat.start_ns, chat.end_ns)
    expected = {
        "openinference.span.kind": "LLM",
        "llm.token_count.prompt": 212,
        "llm.streaming": True,
        "tags": ("a", 1),
        "context": {"locale": "de-DE"},
        "raw": b"\x00\x01\x02\xff",
    }
    assert expected == chat.attributes
    (event,) = chat.events
    assert ("first_token", 1777888800500000000, {"index": 0}) == (event.name, event.time_ns, event.attributes)
    assert (None, 2, "late", {"service.name": "helpdesk"}, frozenset()) == (
        root.parent_id,
        root.status,
        root.status_message,
        root.resource,
        root.flags,
    )


@pytest.mark.parametrize(
    ("trace_id", "span_id", "reason"),
    [
        (b"", b"12345678", "trace_id"),
        (bytes(16), b"12345678", "trace_id"),
        (b"fifteen bytes..", b"12345678", "trace_id"),
        (b"sixteen bytes...", b"", "span_id"),
        (b"sixteen bytes...", bytes(8), "span_id"),
        (b"sixteen bytes...", b"123456789", "span_id"),
    ],
)
def test_bad_ids(make_request: MakeRequest, trace_id: bytes, span_id: bytes, reason: str) -> None:
    """A span whose ids are missing, all zero or of the wrong length is left out and counted; the others stay."""
    request = make_request(1)
    request.resource_spans[0].scope_spans[0].spans.add(trace_id=trace_id, span_id=span_id)
    content = split(request.SerializeToString())

    assert (1, {reason: 1}, 3) == (content.rejected, content.reasons, content.accepted)
    assert [3] == [f.count for f in content.fragments]


def test_record_that_is_not_a_span(make_request: MakeRequest) -> None:
    """A span whose own bytes are broken is left out; its neighbours are kept."""
    content = split(with_broken_span(make_request(1)))

    assert (3, 1, {"unreadable": 1}) == (content.accepted, content.rejected, content.reasons)
    assert ["retrieve", "chat", "rag"] == [span.name for span in decode_otlp(content.fragments[0]).spans]


def test_broken_body(make_request: MakeRequest) -> None:
    """A body that is cut short or is no protobuf at all is malformed as a whole."""
    body = make_request(2).SerializeToString()

    for broken in (body[:-1], body[: len(body) // 2], b"\xff\xff\xff", b"hello, world", b"\x0a"):
        with pytest.raises(MalformedPayload) as caught:
            split(broken)
        assert caught.value.reason == "not_protobuf"


def test_empty_request() -> None:
    """A request without records holds nothing and is fine."""
    empty = ExportTraceServiceRequest()
    empty.resource_spans.add().scope_spans.add()

    assert Split() == split(b"")
    assert Split() == split(empty.SerializeToString())


def test_unknown_fields_survive(make_request: MakeRequest) -> None:
    """What a newer OTLP adds to a span is kept in the payload."""
    request = make_request(1)
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.MergeFromString(b"\xfa\x07\x03new")
    (fragment,) = split(request.SerializeToString()).fragments

    assert b"\xfa\x07\x03new" in fragment.payload


def test_text_that_is_not_utf8(make_request: MakeRequest) -> None:
    """A byte that is not UTF-8 costs nobody anything: it reads as U+FFFD, and the span is flagged."""
    body = make_request(2, text="caf#").SerializeToString()
    content = split(body.replace(b"caf#", b"caf\xe9", 1))
    spans = [span for fragment in content.fragments for span in decode_otlp(fragment).spans]

    assert ["caf\ufffd"] + ["caf#"] * 5 == [span.attributes["input.value"] for span in spans]
    assert [frozenset({"text_repaired"})] + [frozenset()] * 5 == [span.flags for span in spans]


def test_nul_in_text(make_request: MakeRequest) -> None:
    """A NUL, which PostgreSQL cannot hold, becomes U+FFFD, which joins no words, and the span is flagged."""
    (fragment,) = split(make_request(1, text="page 1\0page 2").SerializeToString()).fragments
    span = decode_otlp(fragment).spans[0]

    assert ("page 1\ufffdpage 2", {"text_repaired"}) == (span.attributes["input.value"], span.flags)


def test_too_many_records() -> None:
    """A request of 100,001 two-byte records is refused before any of them is looked at."""
    scope = b"\x12\x00" * (MAX_RECORDS + 1)
    with pytest.raises(MalformedPayload) as caught:
        split(request_around(scope))
    assert caught.value.reason == "too_many_records"


def test_resource_that_would_be_repeated_too_often(make_request: MakeRequest) -> None:
    """A large resource over many traces is refused rather than copied into every fragment."""
    request = make_request(100)
    request.resource_spans[0].resource.attributes[0].value.string_value = "x" * 1_000_000
    with pytest.raises(MalformedPayload) as caught:
        split(request.SerializeToString())
    assert caught.value.reason == "too_large"


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"\n\n ", b"\xef\xbb\xbf\r\n"])
def test_unlabelled_json(turn_json: bytes, start: bytes) -> None:
    """JSON is recognised behind a byte-order mark and white space."""
    assert 3 == split(start + turn_json, encoding=None).accepted


def test_unlabelled_protobuf(make_request: MakeRequest) -> None:
    """Protobuf is recognised, even where it starts with a newline and a brace as JSON might."""
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(trace_id=b"x" * 16, span_id=b"y" * 8)
    span.name = "n" * (0x7B - len(request.resource_spans[0].SerializeToString()) - 2)
    body = request.SerializeToString()

    assert b"\n{" == body[:2]
    assert 1 == split(body, encoding=None).accepted
    assert 3 == split(make_request(1).SerializeToString(), encoding=None).accepted


def test_log_records() -> None:
    """Log records keep body, event name and times; those without a trace are ignored, a missing span id is not."""
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    scope.scope.name = "openai"
    named = scope.log_records.add(trace_id=b"t" * 16, span_id=b"s" * 8, event_name="gen_ai.choice")
    named.time_unix_nano = 1_777_888_800_000_000_001
    named.body.kvlist_value.values.add(key="content").value.string_value = "12 euros"
    old = scope.log_records.add(trace_id=b"t" * 16, observed_time_unix_nano=1_777_888_800_000_000_002)
    old.attributes.add(key="event.name").value.string_value = "gen_ai.user.message"
    scope.log_records.add(span_id=b"s" * 8)
    scope.log_records.add(trace_id=b"short", span_id=b"s" * 8)
    content = split_otlp(request.SerializeToString(), "logs", received_at=NOW, encoding="protobuf")

    assert (2, 0, 2) == (content.accepted, content.rejected, content.ignored)
    (fragment,) = content.fragments
    first, second = decode_otlp(fragment).logs
    assert ("gen_ai.choice", {"content": "12 euros"}, 1_777_888_800_000_000_001, True) == (
        first.event.name,
        first.event.body,
        first.event.time_ns,
        first.event.is_log,
    )
    assert (b"s" * 8).hex() == first.span_id
    assert ("gen_ai.user.message", 1_777_888_800_000_000_002, "") == (
        second.event.name,
        second.event.time_ns,
        second.span_id,
    )


def test_log_records_as_json() -> None:
    """Log records in JSON read as those in protobuf do."""
    record = {
        "timeUnixNano": "1777888800000000001",
        "traceId": TRACE.upper(),
        "spanId": "EEE19B7EC3C1B173",
        "eventName": "gen_ai.choice",
        "body": {"kvlistValue": {"values": [{"key": "content", "value": {"stringValue": "12 euros"}}]}},
    }
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record, {"body": {"stringValue": "x"}}]}]}]})
    content = split_otlp(body.encode(), "logs", received_at=NOW, encoding="json")

    assert (1, 1) == (content.accepted, content.ignored)
    (log,) = decode_otlp(content.fragments[0]).logs
    assert (TRACE, "eee19b7ec3c1b173", "gen_ai.choice", {"content": "12 euros"}) == (
        log.trace_id,
        log.span_id,
        log.event.name,
        log.event.body,
    )


def test_fragment_that_is_not_otlp() -> None:
    """A payload that cannot be read counts as unread, and never raises."""
    for signal in ("traces", "logs", "turns"):
        fragment = Fragment(trace_id=TRACE, signal=signal, payload=b"\xff", count=4, received_at=NOW, digest=bytes(16))
        assert {"unreadable": 4} == decode_otlp(fragment).unread


def _survives(body: bytes, signal: OtlpSignal) -> None:
    for encoding in ("protobuf", "json", None):
        try:
            content = split_otlp(body, signal, received_at=NOW, encoding=encoding)
        except MalformedPayload:
            continue
        assert content.accepted == sum(f.count for f in content.fragments)
        for fragment in content.fragments:
            decoded = decode_otlp(fragment)
            assert fragment.count == len(decoded.spans) + len(decoded.logs)
            assert not decoded.unread


@settings(deadline=None, max_examples=150)
@given(body=st.binary(max_size=300))
def test_any_bytes(body: bytes) -> None:
    """Whatever the bytes: they are malformed, or all that was accepted can be read again."""
    _survives(body, "traces")
    _survives(body, "logs")


@settings(deadline=None, max_examples=200)
@given(cut=st.integers(0, 800), flips=st.lists(st.tuples(st.integers(0, 800), st.integers(1, 255)), max_size=4))
def test_damaged_requests(turn_pb: bytes, turn_json: bytes, cut: int, flips: list[tuple[int, int]]) -> None:
    """A good request with flipped and missing bytes is malformed, or all that was accepted can be read again."""
    for whole in (turn_pb, turn_json):
        body = bytearray(whole[: len(whole) - cut])
        for place, flip in flips:
            body[place % len(body)] ^= flip
        _survives(bytes(body), "traces")


_NAMES = """
    resourceSpans scopeSpans spans resource scope attributes key value values traceId spanId kind status code events
    name stringValue intValue doubleValue boolValue arrayValue kvlistValue bytesValue startTimeUnixNano
"""
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES.split()), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None, max_examples=200)
@given(span=_JSON, value=_JSON)
def test_any_json(span: object, value: object) -> None:
    """Whatever stands in a JSON request: it is malformed, or all that was accepted can be read again."""
    good = {"traceId": TRACE, "spanId": "eee19b7ec3c1b173", "attributes": [{"key": "k", "value": value}], "name": value}
    for spans in ([span, good], [good | span] if isinstance(span, dict) else span):
        _survives(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode(), "traces")
    _survives(json.dumps(span).encode(), "traces")


def test_links(make_request: MakeRequest) -> None:
    """Links of a span are read from both encodings; one without whole ids is left out."""
    request = make_request(1)
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.links.add(trace_id=bytes.fromhex(TRACE), span_id=bytes.fromhex("00f067aa0ba902b7"))
    span.links.add(trace_id=b"short", span_id=bytes.fromhex("00f067aa0ba902b7"))
    written = json.dumps(
        {
            "resourceSpans": [
                {
                    "scopeSpans": [
                        {
                            "spans": [
                                {
                                    "traceId": span.trace_id.hex(),
                                    "spanId": span.span_id.hex(),
                                    "links": [{"traceId": TRACE, "spanId": "00f067aa0ba902b7"}, {"traceId": ""}],
                                }
                            ]
                        }
                    ]
                }
            ]
        }
    ).encode()
    both = (split(request.SerializeToString()), split(written, encoding="json"))
    expected = (Link(trace_id=TRACE, span_id="00f067aa0ba902b7"),)
    assert [expected, expected] == [decode_otlp(content.fragments[0]).spans[0].links for content in both]
