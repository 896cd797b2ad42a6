"""One trace as turns and as what is needed to recognise the same model call in another trace."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from monitor.assembly.links import links_of
from monitor.assembly.model_calls import Call
from monitor.assembly.prompt_question import flat
from monitor.assembly.rules import ReadingRules
from monitor.assembly.segment import Segment
from monitor.assembly.segmentation import cut
from monitor.assembly.text_limits import TEXT_LIMIT, limited
from monitor.assembly.tree import grow
from monitor.assembly.turn import turn_of
from monitor.assembly.unread import unread_counts
from monitor.extract.attributes import text
from monitor.extract.json_text import repairing
from monitor.model.spans import Assembly, Link, Span, Trace
from monitor.model.turns import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPrint:
    """What two descriptions of one model call have in common, whoever describes it."""

    service: tuple[str | None, str | None]
    """`service.name` and `service.instance.id`."""
    scope: str
    """The instrumentation; the same one does not describe a call twice."""
    start_ns: int
    end_ns: int
    response_id: str | None
    output: bytes | None
    """Digest of the output, None when there was none."""
    prompt: bytes | None
    """Digest of the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTurns:
    """The turns of a trace, and its model calls as they may be described a second time in another trace."""

    assembly: Assembly
    calls: tuple[CallPrint, ...] = ()
    is_single_call: bool = False
    """The trace is a single model call without anything around it: perhaps a second description of one."""
    links: Mapping[str, tuple[Link, ...]] = field(default_factory=dict)
    """What turns without a session or user link to, by turn id."""

    @property
    def trace_id(self) -> str:
        """Which trace."""
        return self.assembly.trace_id


def read_trace(trace: Trace, rules: ReadingRules, *, through: int = 0) -> TraceTurns:
    """Return the turns of a trace, by start, and after them those that arrived as turns.

    `through` is the highest fragment position that went into the trace. With more spans than `rules.max_spans` the
    earliest are looked at; turns are flagged `span_limit` and the rest counted as `over_limit`. With more text than
    `text_limits` and `json_text` allow, turns are flagged `text_limit`.
    """
    with repairing() as repairs:
        read = _read(trace, rules, through=through)
    turns = limited(read.assembly.turns)
    if repairs.left_out:
        turns = [replace(turn, flags=turn.flags | {TEXT_LIMIT}) for turn in turns]
    return replace(read, assembly=replace(read.assembly, turns=tuple(turns)))


def _read(trace: Trace, rules: ReadingRules, *, through: int) -> TraceTurns:
    over = max(0, len(trace.spans) - rules.max_spans) if rules.max_spans is not None else 0
    if over:
        trace = replace(trace, spans=trace.spans[: rules.max_spans])
    forest = grow(trace, rules)
    segments, rejected = cut(forest, rules)
    read: list[tuple[Segment, Turn]] = []
    for segment in segments:
        turn = turn_of(segment)
        if reason := rules.exclusions.reason(turn, _around(segment)):
            rejected.append((segment, reason))
        else:
            read.append((segment, turn))
    turns = [turn for _, turn in read]
    if over:
        turns = [replace(turn, flags=turn.flags | {"span_limit"}) for turn in turns]
    turns.sort(key=lambda turn: (turn.started_at, turn.span_id))
    imported = [turn for turn in trace.turns if rules.exclusions.reason(turn) is None]
    unread = unread_counts(trace, forest, rejected, rules=rules, over_limit=over)
    unread.update(reason for turn in trace.turns if (reason := rules.exclusions.reason(turn)))
    return TraceTurns(
        assembly=Assembly(
            trace_id=trace.trace_id,
            through=through,
            turns=(*turns, *imported),
            unread=unread,
            rules=rules.version,
        ),
        calls=tuple(_print(call) for segment, _ in read for call in segment.calls),
        is_single_call=len(turns) == 1 and "single_call" in turns[0].flags,
        links={
            turn.turn_id: links
            for segment, turn in read
            if (turn.session_id is None or turn.user_id is None) and (links := links_of(segment))
        },
    )


def _around(segment: Segment) -> tuple[Span, ...]:
    """The root of a turn, if it came, and the spans above it."""
    head = segment.head.span
    return (*((head,) if head is not None else ()), *segment.ancestors())


def _print(call: Call) -> CallPrint:
    resource = call.span.resource
    return CallPrint(
        service=(text(resource, "service.name"), text(resource, "service.instance.id")),
        scope=call.span.scope,
        start_ns=call.span.start_ns,
        end_ns=call.span.end_ns,
        response_id=call.response_id,
        output=_digest([call.output]) if call.output else None,
        prompt=_digest(message.content for message in call.messages) if call.messages else None,
    )


def _digest(texts: Iterable[str]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for content in texts:
        digest.update(flat(content).encode("utf-8", "surrogatepass") + b"\x00")
    return digest.digest()
