"""Times of spans that are missing or impossible."""

from datetime import UTC, datetime

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from monitor.model.spans import Span
from monitor.payloads.otlp.fragments import decode_otlp, split_otlp

NOW = datetime(2026, 5, 4, 10, 0, 10, tzinfo=UTC)
NOW_NS = 1_777_888_810_000_000_000
START, END = NOW_NS - 9_000_000_000, NOW_NS - 8_000_000_000
MINUTE, DAY = 60_000_000_000, 86_400_000_000_000

Given = tuple[int, int, int, int]


def read(*spans: Given) -> list[Span]:
    """Return the spans (id, parent, start, end), read."""
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number, parent, start, end in spans:
        span = scope.spans.add(trace_id=b"t" * 16, span_id=number.to_bytes(8), start_time_unix_nano=start)
        span.end_time_unix_nano = end
        span.parent_span_id = parent.to_bytes(8) if parent else b""
    body = request.SerializeToString()
    (fragment,) = split_otlp(body, "traces", received_at=NOW, encoding="protobuf").fragments
    return list(decode_otlp(fragment).spans)


def times(span: Span) -> tuple[int, int, bool]:
    """Return start, end, and whether they were repaired."""
    return span.start_ns, span.end_ns, "time_repaired" in span.flags


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (START, END, (START, END, False)),
        (START, START, (START, START, False)),
        (0, END, (END, END, True)),
        (START, 0, (START, START, True)),
        (END, START, (END, END, True)),
        (0, 0, (NOW_NS, NOW_NS, True)),
        (START // 1000, END // 1000, (NOW_NS, NOW_NS, True)),
        (START, 2**64 - 1, (START, START, True)),
        (NOW_NS + 2 * DAY, NOW_NS + 2 * DAY, (NOW_NS, NOW_NS, True)),
        (NOW_NS + 5 * MINUTE - 9, NOW_NS + 5 * MINUTE, (NOW_NS + 5 * MINUTE - 9, NOW_NS + 5 * MINUTE, False)),
        (NOW_NS + 5 * MINUTE, NOW_NS + 5 * MINUTE + 7, (NOW_NS - 7, NOW_NS, True)),
        (NOW_NS + DAY // 2, NOW_NS + DAY // 2 + 5, (NOW_NS - 5, NOW_NS, True)),
        (NOW_NS + DAY // 2, 0, (NOW_NS, NOW_NS, True)),
        (START - 400 * DAY, END - 400 * DAY, (START - 400 * DAY, END - 400 * DAY, False)),
    ],
)
def test_lone_span(start: int, end: int, expected: tuple[int, int, bool]) -> None:
    """A lone time stands for both; with none that is possible the span is dated by its arrival."""
    assert expected == times(read((1, 0, start, end))[0])


def test_root_without_times() -> None:
    """A span without times is dated by its children."""
    root, *_ = read((1, 0, 0, 0), (2, 1, START, START + 5), (3, 1, END, END + 5), (9, 0, START - DAY, START - DAY))
    assert (START, END + 5, True) == times(root)


def test_leaf_without_times() -> None:
    """A span without times and children is dated by the others of its trace."""
    _, leaf = read((1, 0, START, END), (2, 1, 0, 0))
    assert (START, END, True) == times(leaf)


def test_sender_whose_clock_is_ahead() -> None:
    """Its spans keep their order and durations, and the last one ends when they arrived; others stay where they are."""
    hour = 60 * MINUTE
    root, child, other = read(
        (1, 0, NOW_NS + hour, NOW_NS + hour + 900),
        (2, 1, NOW_NS + hour + 100, NOW_NS + hour + 600),
        (3, 1, START, END),
    )
    assert (NOW_NS - 900, NOW_NS, True) == times(root)
    assert (NOW_NS - 800, NOW_NS - 300, True) == times(child)
    assert (START, END, False) == times(other)


def test_events() -> None:
    """An event without a possible time is dated by its span's end."""
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    span = scope.spans.add(trace_id=b"t" * 16, span_id=b"s" * 8, start_time_unix_nano=START, end_time_unix_nano=END)
    for time in (START + 1, 0, 2**63):
        span.events.add(name="e", time_unix_nano=time)
    body = request.SerializeToString()
    (fragment,) = split_otlp(body, "traces", received_at=NOW, encoding="protobuf").fragments
    assert [START + 1, END, END] == [event.time_ns for event in decode_otlp(fragment).spans[0].events]
