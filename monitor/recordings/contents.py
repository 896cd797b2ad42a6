"""Bodies and lines of files become fragments; what cannot be read is named and counted, and costs nothing else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from monitor.errors import MalformedPayload, Permanent, Rejected
from monitor.model.spans import Fragment, instant
from monitor.payloads.compression import unpacked
from monitor.payloads.otlp.fragments import OtlpSignal, Split, decode_otlp, split_otlp
from monitor.payloads.turn_records.fragments import turn_fragment
from monitor.ports import Clock
from monitor.recordings.lines import LONGEST, Line, Place, chunks
from monitor.recordings.sources import is_packed, printable_name, signal_of

Dating: TypeAlias = Callable[[Sequence[Fragment], datetime], datetime]
"""Returns the time of arrival of what one request or line held; the fragments carry `now`, or a turn's own time."""

_OTLP_LINE = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"resource(Spans|Logs|Metrics)"')
_LINE_SIGNALS: Mapping[bytes, OtlpSignal] = {b"Spans": "traces", b"Logs": "logs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """What one body, or a run of lines, holds."""

    name: str
    fragments: tuple[Fragment, ...] = ()
    latest: datetime | None = None
    """The latest time of arrival in it; None when it holds nothing."""
    bad: Mapping[str, int] = field(default_factory=dict)
    """Records left out, by reason."""
    complaints: tuple[str, ...] = ()
    """Where and why, free of user text, such as `chats.jsonl:17: not JSON`."""
    size: int = 0
    """Bytes of the file that this portion got further; they add up to the size of the files that could be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePortion:
    """Some lines in order."""

    portion: Portion
    through: Place
    """Behind the last complete line of the portion."""
    has_open_line: bool
    """Whether a last line without its end was left unread."""


def by_clock(_: Sequence[Fragment], now: datetime) -> datetime:
    """Date by the clock."""
    return now


def by_event_time(fragments: Sequence[Fragment], now: datetime) -> datetime:
    """Date by the latest time that the records themselves carry; `now` where they carry none."""
    return max((_latest(fragment) or now for fragment in fragments), default=now)


def body(source: Path, *, now: datetime, dating: Dating) -> Portion:
    """Return what one request's body holds.

    Raises:
        Permanent: it cannot be read as what its name says.
        OSError: the file cannot be read.
    """
    signal = signal_of(source)
    if signal is None:
        raise MalformedPayload("no request's body by its name", reason="unknown_name")
    with source.open("rb") as stream:
        content = stream.read(LONGEST + 1)
    if len(content) > LONGEST:
        raise Rejected(f"longer than {LONGEST} bytes", reason="too_large")
    size = len(content)
    content = unpacked(content, "gzip" if is_packed(source) else "identity", most=LONGEST)
    # The first bytes decide, not the name: recorders call a body by what they asked for.
    split = split_otlp(content, signal, received_at=now)
    return _portion(
        printable_name(source),
        _dated(split.fragments, now, dating),
        bad=Counter(split.reasons),
        complaints=(_left_out(printable_name(source), split),) if split.rejected else (),
        size=size,
    )


def lines(source: Path, *, since: Place, ended: bool, app: str, clock: Clock, dating: Dating) -> Iterator[LinePortion]:
    """Yield what the lines behind `since` hold.

    A line is a turn, or an OTLP/JSON request as the OpenTelemetry Collector's file exporter writes them. A last line
    without its end is taken only when the file has `ended`.

    Raises:
        MalformedPayload: as `chunks`, after the lines that could be read.
        OSError: the file cannot be read.
    """
    before = since.offset
    for chunk in chunks(source, since=since):
        taken = tuple(line for line in chunk.lines if line.complete or ended)
        portion = _lines(source, taken, app=app, now=clock(), dating=dating, size=chunk.at - before)
        yield LinePortion(portion=portion, through=chunk.through, has_open_line=len(taken) < len(chunk.lines))
        before = chunk.at


def _lines(source: Path, taken: Sequence[Line], *, app: str, now: datetime, dating: Dating, size: int) -> Portion:
    fragments: list[Fragment] = []
    bad: Counter[str] = Counter()
    complaints: list[str] = []
    for line in taken:
        origin = f"{printable_name(source)}:{line.number}"
        try:
            line_fragments, split = _line(line, origin, app=app, now=now)
        except Permanent as error:
            bad[error.reason] += 1
            complaints.append(f"{origin}: {error}")
            continue
        fragments += _dated(line_fragments, now, dating)
        bad.update(split.reasons)
        if split.rejected:
            complaints.append(_left_out(origin, split))
    return _portion(printable_name(source), tuple(fragments), bad=bad, complaints=tuple(complaints), size=size)


def _left_out(origin: str, split: Split) -> str:
    place = f"; the first at {split.complaint}" if split.complaint else ""
    return f"{origin}: {split.rejected} records left out{place}"


def _line(line: Line, origin: str, *, app: str, now: datetime) -> tuple[tuple[Fragment, ...], Split]:
    if line.text is None:
        raise Rejected(f"longer than {LONGEST} bytes", reason="too_large")
    if not line.text.strip():
        return (), Split()
    request = _OTLP_LINE.match(line.text)
    if request is None:
        return (turn_fragment(line.text, origin=origin, app=app, received_at=now),), Split()
    signal = _LINE_SIGNALS.get(request[1])
    if signal is None:
        return (), Split()
    split = split_otlp(line.text, signal, received_at=now, encoding="json")
    return split.fragments, split


def _dated(fragments: Sequence[Fragment], now: datetime, dating: Dating) -> tuple[Fragment, ...]:
    at = dating(fragments, now)
    return tuple(replace(fragment, received_at=at) for fragment in fragments)


def _portion(
    name: str, fragments: tuple[Fragment, ...], *, bad: Counter[str], complaints: tuple[str, ...], size: int
) -> Portion:
    return Portion(
        name=name,
        fragments=fragments,
        latest=max((f.received_at for f in fragments), default=None),
        bad=dict(bad),
        complaints=complaints,
        size=size,
    )


def _latest(fragment: Fragment) -> datetime | None:
    if fragment.signal == "turns":
        return fragment.received_at
    decoded = decode_otlp(fragment)
    ends = [s.end_ns for s in decoded.spans] + [r.event.time_ns for r in decoded.logs]
    return instant(max(ends)) if ends else None
