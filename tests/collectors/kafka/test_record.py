"""What one record is read as, without a broker."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from collectors.kafka.record import RecordContent, content_of
from collectors.kafka.settings import Topic
from monitor.errors import Permanent
from monitor.payloads.otlp.fragments import decode_otlp
from monitor.payloads.turn_records.fragments import decode_turns

NOW = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
TURN = b'{"query": "What is the fee?", "response": "12 euros"}'
GOLDEN = Path(__file__).parents[2] / "golden" / "otlp"
TRACES_PB = (GOLDEN / "turn.pb").read_bytes()
TRACES_JSON = (GOLDEN / "turn.json").read_bytes()


@dataclass(frozen=True)
class KafkaRecord:
    """A record as kafka-python gives it."""

    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: int = -1
    topic: str = "chats"
    partition: int = 2
    offset: int = 17
    leader_epoch: int = 0
    key: bytes | None = None


def content(
    value: bytes | None, *, topic: Topic | None = None, max_record: int = 1 << 20, **fields: object
) -> RecordContent:
    """What `value` is read as."""
    return content_of(KafkaRecord(value, **fields), topic or Topic(), max_record=max_record, now=NOW)


def refusal(value: bytes, **fields: object) -> str:
    """The reason why `value` is refused."""
    with pytest.raises(Permanent) as caught:
        content(value, **fields)
    return caught.value.reason


def logs(*, trace_id: bytes = b"\x07" * 16, time: int = 1) -> bytes:
    """One log record as protobuf."""
    request = ExportLogsServiceRequest()
    log = request.resource_logs.add().scope_logs.add().log_records.add(trace_id=trace_id, span_id=b"\x01" * 8)
    log.time_unix_nano = time
    log.body.string_value = "What is the fee?"
    log.attributes.add(key="event.name").value.string_value = "gen_ai.user.message"
    return request.SerializeToString()


def metrics() -> bytes:
    """Two metrics as protobuf."""
    request = ExportMetricsServiceRequest()
    metrics = request.resource_metrics.add().scope_metrics.add().metrics
    metrics.add(name="gen_ai.usage", unit="1").gauge.data_points.add(time_unix_nano=1, as_double=0.5)
    metrics.add(name="x", description="y").histogram.data_points.add(time_unix_nano=1, count=3)
    return request.SerializeToString()


LOGS_JSON = json.dumps(
    {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"traceId": "07" * 16, "spanId": "01" * 8}]}]}]}
).encode()


@pytest.mark.parametrize(
    ("value", "signal"),
    [
        (TRACES_PB, "traces"),
        (TRACES_JSON, "traces"),
        (b"\xef\xbb\xbf" + TRACES_JSON, "traces"),
        (b"\n \t" + TRACES_JSON, "traces"),
        (json.dumps(json.loads(TRACES_JSON)["resourceSpans"]).encode(), "traces"),
        (b"[" + TRACES_JSON + b"]", "traces"),
        (TRACES_JSON.replace(b'"stringValue": "', b'"x": NaN, "stringValue": "', 1), "traces"),
        (logs(), "logs"),
        (LOGS_JSON, "logs"),
        (json.dumps(json.loads(LOGS_JSON)["resourceLogs"]).encode(), "logs"),
        (TURN, "turns"),
        (b"\xef\xbb\xbf " + TURN, "turns"),
    ],
)
def test_sniffed(value: bytes, signal: str) -> None:
    """With nothing said, traces, logs and turns are told apart, in both encodings."""
    read = content(value)
    assert ("accepted", {signal}) == (read.outcome, {fragment.signal for fragment in read.fragments})
    assert {} == read.rejected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\xff\xfe\x00junk", "not_protobuf"),
        (TRACES_PB[:-20], "not_protobuf"),
        (TRACES_JSON[:-20], "not_json"),
        (b"{", "not_json"),
        (b"[]", "unknown_json"),
        (b"[" + TURN + b"]", "unknown_json"),
        (b"[1, null]", "unknown_json"),
        (b'{"batches": []}', "unknown_json"),
        (b'{"resourceMetrics": [{}]}', "unknown_json"),
        (b'{"query": 7, "response": []}', "wrong_shape"),
        (b'{"messages": [{"role": "user", "content": "q"}]}', "unknown_json"),
        (metrics(), "no_valid_records"),
        (b"plain text", "not_protobuf"),
    ],
)
def test_refused(value: bytes, reason: str) -> None:
    """What is neither is refused with a reason that can be a metric's label."""
    assert reason == refusal(value)


def test_words_of_a_refusal() -> None:
    """The message of a refusal quotes nothing of the record."""
    for value in (b"secret words", b'{"secret": "words"}', b'{"query": {"secret": "words"}, "response": ["secret"]}'):
        with pytest.raises(Permanent) as caught:
            content(value)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("value", [b"", b"{}", b" {} ", b'{"resourceSpans": []}', b'{"resourceLogs": null}'])
def test_empty(value: bytes) -> None:
    """A request without records is correct, and empty."""
    assert RecordContent(outcome="empty") == content(value)


def test_tombstone() -> None:
    """No value at all is a tombstone, whatever the topic is said to hold."""
    assert RecordContent(outcome="tombstone") == content(None, topic=Topic(encoding="turns"))


def test_logs_without_trace() -> None:
    """Log records without a trace context are accepted and ignored, dated or not."""
    assert (1, "accepted", ()) == (
        (read := content(logs(trace_id=b""))).ignored,
        read.outcome,
        read.fragments,
    )
    assert 1 == content(logs(trace_id=b"", time=0)).ignored
    assert 1 == content(logs(trace_id=b"", time=0), topic=Topic(signal="logs")).ignored


@pytest.mark.parametrize(
    ("value", "topic", "reason"),
    [
        (TRACES_JSON, Topic(encoding="otlp_proto"), "not_protobuf"),
        (TRACES_PB, Topic(encoding="otlp_json"), "not_json"),
        (TRACES_PB, Topic(encoding="turns"), "not_json"),
        (TURN, Topic(encoding="otlp_json"), "not_otlp"),
        (TURN, Topic(signal="traces"), "not_otlp"),
        (LOGS_JSON, Topic(signal="traces"), "not_otlp"),
        (metrics(), Topic(signal="traces"), "no_valid_records"),
    ],
)
def test_settings_win(value: bytes, topic: Topic, reason: str) -> None:
    """What the settings say is not doubted."""
    assert reason == refusal(value, topic=topic)


def test_header_wins() -> None:
    """A content type decides the encoding where the settings do not; one that says nothing to us is passed over."""
    protobuf = [("Content-Type", b"application/x-protobuf; v=1")]
    assert "not_protobuf" == refusal(TRACES_JSON, headers=protobuf)
    assert "not_json" == refusal(TRACES_PB, headers=[("content-type", b"application/json")])
    assert "accepted" == content(TRACES_JSON, headers=protobuf, topic=Topic(encoding="otlp_json")).outcome
    for headers in ([("content-type", b"text/plain")], [("content-type", None)], [("other", b"application/json")]):
        assert "accepted" == content(TRACES_PB, headers=headers).outcome


def test_too_large() -> None:
    """A value over the limit is refused unread."""
    assert "too_large" == refusal(TRACES_PB, max_record=len(TRACES_PB) - 1)
    assert "accepted" == content(TRACES_PB, max_record=len(TRACES_PB)).outcome


def test_turn_identity() -> None:
    """A turn is named by where its record lies, whoever reads it; its app is the topic's unless one is said."""
    (first,) = content(TURN, timestamp=1_777_000_000_000).fragments
    (again,) = content_of(KafkaRecord(TURN, timestamp=1_777_000_000_000), Topic(), max_record=99, now=NOW).fragments
    (other,) = content(TURN, offset=18).fragments
    assert (first.digest, first.trace_id) == (again.digest, again.trace_id)
    assert first.digest != other.digest
    assert ["chats"] == [turn.app for turn in decode_turns(first).turns]
    (named,) = content(TURN, topic=Topic(app="desk")).fragments
    assert ["desk"] == [turn.app for turn in decode_turns(named).turns]


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (int(NOW.timestamp() * 1000) - 6 * 3_600_000, NOW - timedelta(hours=6)),
        (int(NOW.timestamp() * 1000) + 5000, NOW),
        (-1, NOW),
    ],
)
def test_turn_time(timestamp: int, expected: datetime) -> None:
    """A turn without a time has its record's, unless that lies ahead or there is none."""
    (fragment,) = content(TURN, timestamp=timestamp).fragments
    assert expected == fragment.received_at


def test_partly_rejected() -> None:
    """Spans without ids are counted by reason, and the others kept."""
    tree = json.loads(TRACES_JSON)
    tree["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] = ""
    read = content(json.dumps(tree).encode())
    assert ("accepted", {"trace_id": 1}, "") == (read.outcome, read.rejected, read.complaint)
    assert 2 == sum(len(decode_otlp(fragment).spans) for fragment in read.fragments)


def test_spans_of_a_wrong_shape() -> None:
    """A span whose attributes are no array is left out with its place, the others are kept."""
    tree = json.loads(TRACES_JSON)
    tree["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"] = {"input.value": "secret"}
    read = content(json.dumps(tree).encode())
    assert ("accepted", {"unreadable": 1}) == (read.outcome, read.rejected)
    place = "resourceSpans[0].scopeSpans[0].spans[0]: attributes"
    assert f"{place}: found an object; allowed: an array of objects" == read.complaint


@given(st.binary(max_size=300) | st.sampled_from([TRACES_PB, TRACES_JSON, TURN, logs(), metrics()]), st.data())
def test_anything(value: bytes, data: st.DataObject) -> None:
    """Whatever a value holds, it is read or refused; cut anywhere and with any byte changed."""
    end = data.draw(st.integers(0, len(value)))
    at = data.draw(st.integers(0, max(0, end - 1)))
    changed = value[:at] + data.draw(st.binary(max_size=2)) + value[at + 1 : end]
    topic = data.draw(
        st.sampled_from([Topic(), Topic(signal="logs"), Topic(encoding="otlp_json"), Topic(encoding="turns")])
    )
    with suppress(Permanent):
        assert content(changed, topic=topic).outcome in {"accepted", "empty"}
