"""Fragments of a trace become the trace: every span once, log records with their spans.

The result depends on what was delivered, never on order, grouping or repetition of deliveries.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from monitor.extract.json_text import dump
from monitor.model.spans import Decoded, Event, LogRecord, Span, Trace

_SPEAKERS = ("system", "user", "assistant", "tool")
_Key: TypeAlias = tuple[int, int, str]


def join(trace_id: str, decoded: Sequence[Decoded]) -> Trace:
    """Return the trace that the decoded fragments of `trace_id` add up to.

    Of several copies of a span the one that says more is kept (whole times, then attributes and events, then the
    later end). A log record delivered twice counts once, of an imported turn the last copy.
    """
    spans: dict[str, Span] = {}
    for part in decoded:
        for span in part.spans:
            known = spans.get(span.span_id)
            spans[span.span_id] = span if known is None else _fuller(known, span)
    logs: defaultdict[str, list[list[LogRecord]]] = defaultdict(list)
    for part in decoded:
        for span_id, records in _by_span(part.logs).items():
            logs[span_id].append(records)
    joined = [_with_logs(span, logs.pop(span_id, ())) for span_id, span in spans.items()]
    orphans = [record for span_id in sorted(logs) for record in _once(logs[span_id])]
    return Trace(
        trace_id=trace_id,
        spans=tuple(sorted(joined, key=lambda span: (span.start_ns, span.span_id))),
        orphan_logs=tuple(orphans),
        turns=tuple({turn.turn_id: turn for part in decoded for turn in part.turns}.values()),
        unread=sum((Counter(part.unread) for part in decoded), Counter()),
    )


def _fuller(known: Span, copy: Span) -> Span:
    return known if known == copy else max(known, copy, key=_fullness)


def _fullness(span: Span) -> tuple[bool, int, int, int, str]:
    texts = dump(span.attributes) + "".join(dump(event.attributes) for event in span.events)
    rest = f"{span.start_ns} {span.parent_id} {span.name} {span.status_message} {texts} {dump(span.resource)}"
    return "time_repaired" not in span.flags, len(texts), span.end_ns, span.status, rest


def _by_span(records: Iterable[LogRecord]) -> dict[str, list[LogRecord]]:
    by_span: defaultdict[str, list[LogRecord]] = defaultdict(list)
    for record in records:
        by_span[record.span_id].append(record)
    return by_span


def _with_logs(span: Span, deliveries: Sequence[Sequence[LogRecord]]) -> Span:
    if not deliveries:
        return span
    kept = _once(deliveries)
    events = [((event.time_ns, 0, at), event) for at, event in enumerate(span.events)]
    events += [((record.event.time_ns, 1, at), record.event) for at, record in enumerate(kept)]
    flags = span.flags.union(*(record.flags for record in kept))
    return replace(span, events=tuple(event for _, event in sorted(events, key=lambda pair: pair[0])), flags=flags)


def _once(deliveries: Sequence[Sequence[LogRecord]]) -> tuple[LogRecord, ...]:
    """Every record once, by time, those of one instant as a conversation goes.

    JavaScript's clocks count milliseconds, in which several turns of a conversation may be recorded: a delivery that
    holds them all tells their order.
    """
    ordered = [[(_order(record.event), record) for record in delivery] for delivery in deliveries]
    distinct = {key: record for delivery in ordered for key, record in delivery}
    instants: defaultdict[int, list[_Key]] = defaultdict(list)
    for key in sorted(distinct):
        instants[key[0]].append(key)
    keys: list[_Key] = []
    for instant, together in sorted(instants.items()):
        repeated = len({speaker for _, speaker, _ in together}) < len(together)
        orders = [list(dict.fromkeys(k for k, _ in delivery if k[0] == instant)) for delivery in ordered if repeated]
        keys += min((order for order in orders if len(order) == len(together)), default=together)
    return tuple(distinct[key] for key in keys)


def _order(event: Event) -> _Key:
    """By time; records of the same instant as a conversation goes, then by content."""
    speaker = next((i for i, role in enumerate(_SPEAKERS) if f".{role}." in event.name), len(_SPEAKERS))
    return event.time_ns, speaker, f"{event.name} {dump(event.attributes)} {dump(event.body)}"
