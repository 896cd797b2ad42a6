"""Fragments of a trace become the trace: every span once, log records with their spans.

The result depends on what was delivered, never on order, grouping or repetition of deliveries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from monitor.reading.json_text import dump
from monitor.spans import Decoded, Event, LogRecord, Span, Trace

_SPEAKERS = ("system", "user", "assistant", "tool")


def join(trace_id: str, decoded: Sequence[Decoded], *, last_received_at: datetime) -> Trace:
    """Return the trace that the decoded fragments of `trace_id` add up to.

    Of several copies of a span the one that says more is kept (whole times, then attributes and events, then the
    later end). A log record delivered twice counts once.
    """
    spans: dict[str, Span] = {}
    for part in decoded:
        for span in part.spans:
            known = spans.get(span.span_id)
            spans[span.span_id] = span if known is None else _fuller(known, span)
    logs: defaultdict[str, list[LogRecord]] = defaultdict(list)
    for part in decoded:
        for record in part.logs:
            logs[record.span_id].append(record)
    joined = [_with_logs(span, logs.pop(span_id, ())) for span_id, span in spans.items()]
    orphans = [record for records in logs.values() for record in _once(records)]
    return Trace(
        trace_id=trace_id,
        spans=tuple(sorted(joined, key=lambda span: (span.start_ns, span.span_id))),
        orphan_logs=tuple(sorted(orphans, key=lambda record: (record.span_id, _order(record.event)))),
        last_received_at=last_received_at,
    )


def _fuller(one: Span, other: Span) -> Span:
    return one if one == other else max(one, other, key=_fullness)


def _fullness(span: Span) -> tuple[bool, int, int, int, str]:
    said = dump(span.attributes) + "".join(dump(event.attributes) for event in span.events)
    rest = f"{span.start_ns} {span.parent_id} {span.name} {span.status_message} {said} {dump(span.resource)}"
    return "time_repaired" not in span.flags, len(said), span.end_ns, span.status, rest


def _with_logs(span: Span, records: Sequence[LogRecord]) -> Span:
    if not records:
        return span
    kept = _once(records)
    events = [((event.time_ns, 0, at, ""), event) for at, event in enumerate(span.events)]
    events += [((record.event.time_ns, 1, *_order(record.event)[1:]), record.event) for record in kept]
    flags = span.flags.union(*(record.flags for record in kept))
    return replace(span, events=tuple(event for _, event in sorted(events, key=lambda pair: pair[0])), flags=flags)


def _once(records: Sequence[LogRecord]) -> tuple[LogRecord, ...]:
    distinct = {_order(record.event): record for record in records}
    return tuple(record for _, record in sorted(distinct.items(), key=lambda item: item[0]))


def _order(event: Event) -> tuple[int, int, str]:
    """By time; records of the same instant as a conversation goes, then by content."""
    speaker = next((i for i, role in enumerate(_SPEAKERS) if f".{role}." in event.name), len(_SPEAKERS))
    return event.time_ns, speaker, f"{event.name} {dump(event.attributes)} {dump(event.body)}"
