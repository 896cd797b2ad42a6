"""Times of spans, made plausible: a turn must never be dated 1970 or next year because a framework left a time out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from monitor.model.spans import EPOCH
from monitor.payloads.otlp.schema import LogRecord, Span

TIME_REPAIRED = "time_repaired"

EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
"""No telemetry is older; a time before it was never set."""
AHEAD = timedelta(minutes=5)
"""How far a sender's clock may run ahead of ours; what is dated later is placed by its arrival."""
_FURTHEST_AHEAD = timedelta(days=1)
"""No clock runs further ahead: a later time was never set."""


def nanoseconds(moment: datetime) -> int:
    """Return Unix time in nanoseconds.

    >>> nanoseconds(datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC))
    1000005000
    """
    return (moment - EPOCH) // timedelta(microseconds=1) * 1000


@dataclass(frozen=True, slots=True)
class _Range:
    start: int
    end: int

    def __or__(self, other: _Range) -> _Range:
        return _Range(min(self.start, other.start), max(self.end, other.end))


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Start and end of one span, in UTC nanoseconds."""

    start_ns: int
    end_ns: int
    repaired: bool
    ahead_ns: int = 0
    """By how much the sender's clock is ahead, as far as that had to be taken off."""


class Plausible:
    """Repairs the times of one trace's records as received at once.

    A time before 2000 or a day past `received_at` counts as missing. Spans that lie more than `AHEAD` past it are moved
    back together, so that the last of them ends when they arrived: they keep their order and durations.
    """

    def __init__(self, spans: Sequence[Span], *, received_at: datetime) -> None:
        self._received = nanoseconds(received_at)
        self._believed = nanoseconds(received_at + AHEAD)
        self._earliest, self._latest = nanoseconds(EARLIEST), nanoseconds(received_at + _FURTHEST_AHEAD)
        latest = max((time for span in spans for time in self._known(span) if time is not None), default=0)
        self._ahead = latest - self._received if latest > self._believed else 0
        self._by_parent: dict[bytes, _Range] = {}
        self._whole: _Range | None = None
        self._gather(spans)

    def span(self, span: Span) -> Times:
        """Return the span's times, repaired where they must be.

        A lone start or end stands for both, and an end before its start is the start. With neither, the span is
        dated by its children, else by the other spans of the fragment, else by its arrival.
        """
        start, end, ahead = self._placed(span)
        if start is not None and end is not None and start <= end:
            return Times(start_ns=start, end_ns=end, repaired=ahead > 0, ahead_ns=ahead)
        known = self._of(start, end) or self._by_parent.get(span.span_id) or self._whole
        known = known or _Range(self._received, self._received)
        return Times(start_ns=known.start, end_ns=known.end, repaired=True, ahead_ns=ahead)

    def record(self, record: LogRecord) -> tuple[int, bool]:
        """Return a log record's time, else when it was observed, else when it arrived; and whether it was neither."""
        time = self._sane(record.time_unix_nano) or self._sane(record.observed_time_unix_nano)
        return (self._received, True) if time is None or time > self._believed else (time, False)

    def event(self, time_ns: int, span: Times) -> int:
        """Return an event's time, or its span's end."""
        time = self._sane(time_ns)
        return span.end_ns if time is None else time - span.ahead_ns

    def _gather(self, spans: Sequence[Span]) -> None:
        for span in spans:
            start, end, _ = self._placed(span)
            known = self._of(start, end)
            if known is None:
                continue
            self._whole = known if self._whole is None else self._whole | known
            siblings = self._by_parent.get(span.parent_span_id)
            self._by_parent[span.parent_span_id] = known if siblings is None else siblings | known

    def _placed(self, span: Span) -> tuple[int | None, int | None, int]:
        """The times that were set, moved back if they are ahead, and by how much."""
        start, end = self._known(span)
        if max(start or 0, end or 0) <= self._believed:
            return start, end, 0
        ahead = self._ahead
        return None if start is None else start - ahead, None if end is None else end - ahead, ahead

    def _known(self, span: Span) -> tuple[int | None, int | None]:
        return self._sane(span.start_time_unix_nano), self._sane(span.end_time_unix_nano)

    def _sane(self, time_ns: int) -> int | None:
        return time_ns if self._earliest <= time_ns <= self._latest else None

    @staticmethod
    def _of(start: int | None, end: int | None) -> _Range | None:
        if start is None:
            return None if end is None else _Range(end, end)
        return _Range(start, start if end is None or end < start else end)
