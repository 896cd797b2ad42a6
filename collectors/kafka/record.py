"""One Kafka record becomes fragments: OTLP as the OpenTelemetry Collector's exporter writes it, or a turn as JSON.

The exporter's `otlp_proto` and `otlp_json` bodies are those of OTLP requests, and nothing in a record says which, nor
whether they hold traces or logs (opentelemetry-collector-contrib, exporter/kafkaexporter). What the settings do not
say, the `content-type` header or the first bytes do; for the signal, each is tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from collectors.kafka.client_types import Record
from collectors.kafka.settings import Topic
from monitor.errors import MalformedPayload, Rejected
from monitor.model.spans import EPOCH, Fragment
from monitor.payloads.otlp.fragments import OtlpSignal, Split, split_otlp
from monitor.payloads.turn_records.fragments import turn_fragment

Outcome: TypeAlias = Literal["accepted", "empty", "tombstone"]
_Wire: TypeAlias = Literal["protobuf", "json"]

_BOM = b"\xef\xbb\xbf"
_CONTENT_TYPES: Mapping[bytes, _Wire] = {
    b"application/x-protobuf": "protobuf",
    b"application/protobuf": "protobuf",
    b"application/json": "json",
}
_BOTH: tuple[OtlpSignal, OtlpSignal] = ("traces", "logs")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordContent:
    """What one record holds."""

    outcome: Outcome
    """`empty`: a request without records; `tombstone`: no value at all, as compacted topics have."""
    fragments: tuple[Fragment, ...] = ()
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Spans left out, by reason."""
    complaint: str = ""
    """Where JSON is first unreadable, what was found there and what is allowed, free of what was sent; else empty."""
    ignored: int = 0
    """Log records without a trace context."""


def content_of(record: Record, topic: Topic, *, max_record: int, now: datetime) -> RecordContent:
    """Return what `record` holds.

    Args:
        record: as consumed.
        topic: the settings of its topic.
        max_record: bytes of the longest value that is looked at.
        now: when OTLP records were received; turns without a time get the record's, if that is not later.

    Raises:
        Permanent: nothing of it can be kept; the message holds nothing of it.
    """
    body = record.value
    if body is None:
        return RecordContent(outcome="tombstone")
    if len(body) > max_record:
        raise Rejected(f"{len(body)} bytes are more than max_record, {max_record}", reason="too_large")
    if topic.encoding == "turns":
        return _turn_content(record, body, topic, now=now)
    signals = _BOTH if topic.signal == "auto" else (topic.signal,)
    if topic.encoding != "auto":
        wire: _Wire = "protobuf" if topic.encoding == "otlp_proto" else "json"
        return _otlp_content(_split(body, signals, wire, now=now), body)
    declared = _declared(record.headers)
    looks_json = body.removeprefix(_BOM).lstrip()[:1] in {b"{", b"["}
    # Protobuf's field 1 is a newline, with which JSON may start too.
    if declared == "json" or (declared is None and looks_json and body[:1] != b"\n"):
        return _json_content(record, body, topic, signals, now=now)
    try:
        return _otlp_content(_split(body, signals, "protobuf", now=now), body)
    except MalformedPayload:
        if declared is not None or not looks_json:
            raise
    return _json_content(record, body, topic, signals, now=now)


def _json_content(
    record: Record, body: bytes, topic: Topic, signals: Sequence[OtlpSignal], *, now: datetime
) -> RecordContent:
    try:
        return _otlp_content(_split(body, signals, "json", now=now), body)
    except MalformedPayload as error:
        if error.reason != "not_otlp" or topic.signal != "auto":
            raise
    try:
        return _turn_content(record, body, topic, now=now)
    except MalformedPayload as error:
        if error.reason not in {"no_turn", "not_object"}:
            raise
    raise MalformedPayload("JSON that is neither OTLP traces or logs nor a turn", reason="unknown_json")


def _turn_content(record: Record, body: bytes, topic: Topic, *, now: datetime) -> RecordContent:
    stamped = EPOCH + timedelta(milliseconds=record.timestamp) if record.timestamp > 0 else now
    fragment = turn_fragment(
        body.removeprefix(_BOM),
        # Where it lies and not who read it: a record that is read twice is one turn.
        origin=f"{record.topic}:{record.partition}:{record.offset}",
        app=topic.app or record.topic,
        received_at=min(stamped, now),
    )
    return RecordContent(outcome="accepted", fragments=(fragment,))


def _split(body: bytes, signals: Sequence[OtlpSignal], wire: _Wire, *, now: datetime) -> Split:
    """Return the body as the first of `signals` under which something in it can be kept, else as what is harmless."""
    splits: dict[OtlpSignal, Split] = {}
    refusals: list[MalformedPayload] = []
    for signal in signals:
        try:
            splits[signal] = split = split_otlp(body, signal, received_at=now, encoding=wire)
        except MalformedPayload as error:
            refusals.append(error)
        else:
            if split.accepted:
                return split
    logs = splits.get("logs")
    # Spans and metrics do not pass for log records: the types of their fields are others.
    if logs is not None and logs.ignored:
        return logs
    if any(split.rejected for split in splits.values()):
        raise MalformedPayload("not one of its records has the ids it needs", reason="no_valid_records")
    if not splits:
        raise refusals[0]
    return next(iter(splits.values()))


def _otlp_content(split: Split, body: bytes) -> RecordContent:
    if split.accepted or split.ignored:
        return RecordContent(
            outcome="accepted",
            fragments=split.fragments,
            rejected=split.reasons,
            complaint=split.complaint,
            ignored=split.ignored,
        )
    if body.removeprefix(_BOM).lstrip()[:1] == b"[":
        # OTLP has no bare arrays; one is taken for OTLP only if there is some in it.
        raise MalformedPayload("a JSON array without an OTLP record", reason="unknown_json")
    return RecordContent(outcome="empty")


def _declared(headers: Sequence[tuple[str, bytes | None]]) -> _Wire | None:
    for name, value in headers:
        if name.lower() == "content-type" and value is not None:
            return _CONTENT_TYPES.get(value.partition(b";")[0].strip().lower())
    return None
