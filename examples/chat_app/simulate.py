"""Traffic to telemetry, a stretch of simulated time after the other, with the truth about every turn on the side."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TextIO

from tracing import Telemetry
from traffic import Turn


class ParentGoneError(Exception):
    """Standard input ended where a line was awaited."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What the app knows about a turn and its spans do not say; one line of the truth file.

    Attributes:
        time: When the question was asked, ISO 8601, UTC.
        trace_id: In hexadecimal, as ``span_id``, which is the root span's.
        outcome: "answered", "refused" (an honest "I do not find that") or "failed" (no answer at all).
        defect: Whether the answer states something that no retrieved passage says.
        reason: How the defect came about, or None without one: "embellished" (on passages that would have answered),
            "stale_index" (on passages that do not belong to the question) or "nothing_retrieved".
        fault: What went wrong in retrieval, also where the answer stayed honest: "stale_index", "empty_query" or None.
        invented: The made-up sentences, before they were cited and joined.
    """

    time: str
    trace_id: str
    span_id: str
    session_id: str
    turn: int
    release: str
    outcome: str
    defect: bool
    reason: str | None
    fault: str | None
    invented: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Channels:
    """Where a simulation reports to.

    Attributes:
        progress: Gets one JSON line per stretch, once its spans are accepted and its truth is written:
            `{"until": "2026-01-31T12:00:00Z", "turns": 20, "spans": 66, "done": false}`, counted from the start.
        truth: Gets one JSON line per turn; None for nobody.
        steps: Is read for a line after each stretch but the last; None goes on without.
    """

    progress: TextIO
    truth: TextIO | None
    steps: TextIO | None


def simulate(
    turns: Iterable[Turn],
    telemetry: Telemetry,
    channels: Channels,
    *,
    start: datetime,
    end: datetime,
    stretch: timedelta,
) -> None:
    """Export ``turns``, ordered by their end, and report after every ``stretch`` of the time from ``start`` to ``end``.

    Raises:
        ExportError: The endpoint did not accept every span.
        ParentGoneError: A line was awaited and the input ended.
    """
    until = min(start + stretch, end)
    count = 0
    for turn in turns:
        while turn.moments.answered >= until:
            _report(until, count, telemetry, channels, done=False)
            until = min(until + stretch, end)
        trace_id, span_id = telemetry.write(turn)
        count += 1
        if channels.truth is not None:
            channels.truth.write(json.dumps(asdict(_truth(turn, trace_id, span_id))) + "\n")
    while until < end:
        _report(until, count, telemetry, channels, done=False)
        until = min(until + stretch, end)
    _report(end, count, telemetry, channels, done=True)


def _report(until: datetime, count: int, telemetry: Telemetry, channels: Channels, *, done: bool) -> None:
    spans = telemetry.flush()
    # The truth of a stretch is on disk before anybody is told that the stretch is over.
    if channels.truth is not None:
        channels.truth.flush()
    print(
        json.dumps({"until": _iso(until), "turns": count, "spans": spans, "done": done}),
        file=channels.progress,
        flush=True,
    )
    if channels.steps is not None and not done and not channels.steps.readline():
        raise ParentGoneError(f"waiting for a line on standard input after {_iso(until)}: the input ended")


def _truth(turn: Turn, trace_id: str, span_id: str) -> Truth:
    invented = turn.reply.invented if turn.reply else ()
    return Truth(
        time=_iso(turn.moments.asked),
        trace_id=trace_id,
        span_id=span_id,
        session_id=turn.session,
        turn=turn.number,
        release=turn.release.version,
        outcome=turn.reply.outcome if turn.reply else "failed",
        defect=bool(invented),
        reason=_reason(turn) if invented else None,
        fault=turn.finding.fault,
        invented=invented,
    )


def _reason(turn: Turn) -> str:
    if not turn.finding.hits:
        return "nothing_retrieved"
    return "stale_index" if turn.finding.fault == "stale_index" else "embellished"


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
