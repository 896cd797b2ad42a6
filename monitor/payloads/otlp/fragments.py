"""An OTLP request, protobuf or JSON, becomes one fragment per trace; fragments are read when their trace settles.

Splitting reads no attribute. What it accepts can be read later: the whole body is parsed once, and the fragments are
framed from its raw slices. Source: OTLP 1.10, https://opentelemetry.io/docs/specs/otlp/.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias, cast

from google.protobuf.message import DecodeError, Message

from monitor.errors import MalformedPayload
from monitor.model.spans import Attributes, Decoded, Event, Fragment, Link, LogRecord, Span
from monitor.payloads.otlp import schema
from monitor.payloads.otlp.bounds import bound_json, bound_protobuf
from monitor.payloads.otlp.envelope import Groups
from monitor.payloads.otlp.json_encoding import to_protobuf
from monitor.payloads.otlp.misfits import has_unknown_fields, readable_part
from monitor.payloads.otlp.times import TIME_REPAIRED, Plausible
from monitor.payloads.otlp.values import attributes, text, value

OtlpSignal: TypeAlias = Literal["traces", "logs"]
Encoding: TypeAlias = Literal["protobuf", "json"]

_TRACE_ID_BYTES, _SPAN_ID_BYTES = 16, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What one request holds."""

    fragments: tuple[Fragment, ...] = ()
    """One per trace, in the order in which the traces first appear."""
    accepted: int = 0
    """Spans or log records in `fragments`."""
    rejected: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Rejected records by reason: `trace_id` or `span_id` (missing, zero or of the wrong length), `unreadable`."""
    complaint: str = ""
    """Where the first `unreadable` record is, what was found there and what is allowed, free of user text; or ""."""
    ignored: int = 0
    """Log records without a trace context: correct, and of no use to us."""


def split_otlp(body: bytes, signal: OtlpSignal, *, received_at: datetime, encoding: Encoding | None = None) -> Split:
    """Return the request's records as fragments; `encoding` None looks at the first bytes.

    One bad record never costs the others: it is left out and counted.

    Raises:
        MalformedPayload: the body as a whole cannot be read; the message holds nothing of it.
    """
    if encoding is None:
        return _split_unlabelled(body, signal, received_at=received_at)
    unreadable, complaint = 0, ""
    if encoding == "json":
        bound_json(body)
        body, unreadable, complaint = to_protobuf(body, signal)
    bound_protobuf(body, signal)
    try:
        envelope = schema.parsers().envelope(body)
    except DecodeError:
        raise MalformedPayload("the body is not an OTLP protobuf message", reason="not_protobuf") from None
    parse = schema.parsers().spans if signal == "traces" else schema.parsers().logs
    readable: schema.Request[object, object, schema.Record]
    try:
        readable = parse(body)
        doubtful = encoding == "protobuf" and has_unknown_fields(cast("Message", readable))
    except DecodeError:
        doubtful = True
    if doubtful:
        part = readable_part(envelope, cast("Callable[[bytes], Message]", parse), signal)
        unreadable, complaint = unreadable + part.broken, complaint or part.complaint
        envelope, readable = schema.parsers().envelope(part.body), parse(part.body)
    groups = Groups(spans=signal == "traces")
    groups.add(envelope, readable)
    # Twice the body's size, which is not needed while the payloads are made.
    del envelope, readable
    reasons = groups.reasons + Counter({"unreadable": unreadable})
    return Split(
        fragments=tuple(_fragments(groups, signal, received_at)),
        accepted=groups.counts.total(),
        rejected=reasons.total(),
        reasons=dict(reasons),
        complaint=complaint,
        ignored=groups.ignored,
    )


def decode_otlp(fragment: Fragment) -> Decoded:
    """Return the spans or log records of a `traces` or `logs` fragment, in the order they were sent.

    Never raises for what a sender can send. Text that is not UTF-8 or holds NUL is repaired and flagged
    `text_repaired`; missing or impossible times are repaired and flagged `time_repaired`. Fragments of signal
    `turns` are not OTLP and count as unread here: the composition root sends them to their own reader.
    """
    try:
        if fragment.signal == "traces":
            return Decoded(spans=tuple(_spans(schema.parsers().spans(fragment.payload), fragment)))
        if fragment.signal == "logs":
            return Decoded(logs=tuple(_log_records(schema.parsers().logs(fragment.payload), fragment)))
    except DecodeError:
        pass
    return Decoded(unread={"unreadable": fragment.count})


def _split_unlabelled(body: bytes, signal: OtlpSignal, *, received_at: datetime) -> Split:
    """Try protobuf first where both are possible: its field 1 is a newline, with which JSON may start too."""
    looks_json = body.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")
    if looks_json and body[:1] != b"\n":
        return split_otlp(body, signal, received_at=received_at, encoding="json")
    try:
        return split_otlp(body, signal, received_at=received_at, encoding="protobuf")
    except MalformedPayload:
        if not looks_json:
            raise
    return split_otlp(body, signal, received_at=received_at, encoding="json")


def _fragments(groups: Groups, signal: OtlpSignal, received_at: datetime) -> Iterator[Fragment]:
    for trace_id, count in groups.counts.items():
        payload = groups.payload(trace_id)
        yield Fragment(
            trace_id=trace_id.hex(),
            signal=signal,
            payload=payload,
            count=count,
            received_at=received_at,
            digest=hashlib.blake2b(payload, digest_size=16).digest(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """What the records of one scope share."""

    resource: Attributes
    scope: str
    scope_version: str
    flags: frozenset[str]


def _around(resource: schema.Resource, scope: schema.Scope) -> _Around:
    flags: set[str] = set()
    return _Around(
        resource=attributes(resource.attributes, flags),
        scope=text(scope.name, flags),
        scope_version=text(scope.version, flags),
        flags=frozenset(flags),
    )


def _spans(request: schema.Request[schema.Resource, schema.Scope, schema.Span], fragment: Fragment) -> Iterator[Span]:
    all_spans = [span for resource in request.resources for scope in resource.scopes for span in scope.records]
    plausible = Plausible(all_spans, received_at=fragment.received_at)
    for resource in request.resources:
        for scope in resource.scopes:
            around = _around(resource.resource, scope.scope)
            for span in scope.records:
                yield _span(span, fragment.trace_id, around, plausible)


def _span(span: schema.Span, trace_id: str, around: _Around, plausible: Plausible) -> Span:
    times = plausible.span(span)
    flags = set(around.flags)
    if times.repaired:
        flags.add(TIME_REPAIRED)
    code = span.status.code
    return Span(
        trace_id=trace_id,
        span_id=span.span_id.hex(),
        parent_id=_span_id(span.parent_span_id) or None,
        name=text(span.name, flags),
        kind=span.kind,
        start_ns=times.start_ns,
        end_ns=times.end_ns,
        attributes=attributes(span.attributes, flags),
        events=tuple(
            Event(
                name=text(event.name, flags),
                time_ns=plausible.event(event.time_unix_nano, times),
                attributes=attributes(event.attributes, flags),
            )
            for event in span.events
        ),
        links=tuple(
            Link(trace_id=link.trace_id.hex(), span_id=span_id)
            for link in span.links
            if (span_id := _span_id(link.span_id)) and len(link.trace_id) == _TRACE_ID_BYTES
        ),
        resource=around.resource,
        scope=around.scope,
        scope_version=around.scope_version,
        status=2 if code == 2 else 1 if code == 1 else 0,  # noqa: PLR2004 -- OTLP's own codes
        status_message=text(span.status.message, flags),
        dropped_attributes=span.dropped_attributes_count,
        flags=frozenset(flags),
    )


def _log_records(
    request: schema.Request[schema.Resource, schema.Scope, schema.LogRecord], fragment: Fragment
) -> Iterator[LogRecord]:
    plausible = Plausible((), received_at=fragment.received_at)
    for resource in request.resources:
        for scope in resource.scopes:
            around = _around(resource.resource, scope.scope)
            for record in scope.records:
                yield _log_record(record, fragment.trace_id, around, plausible)


def _log_record(record: schema.LogRecord, trace_id: str, around: _Around, plausible: Plausible) -> LogRecord:
    time_ns, repaired = plausible.record(record)
    flags = set(around.flags)
    if repaired:
        flags.add(TIME_REPAIRED)
    fields = attributes(record.attributes, flags)
    event_name = fields.get("event.name")
    return LogRecord(
        trace_id=trace_id,
        span_id=_span_id(record.span_id),
        event=Event(
            # The attribute came first; the field of its own is of OTLP 1.5.
            name=text(record.event_name, flags) or (event_name if isinstance(event_name, str) else ""),
            time_ns=time_ns,
            attributes=fields,
            body=value(record.body, flags),
            is_log=True,
        ),
        resource=around.resource,
        scope=around.scope,
        flags=frozenset(flags),
    )


def _span_id(raw: bytes) -> str:
    return raw.hex() if len(raw) == _SPAN_ID_BYTES and any(raw) else ""
