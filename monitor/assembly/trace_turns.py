"""One trace as turns and as what is needed to recognise the same model call in another trace."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from monitor.assembly.model_calls import Call
from monitor.assembly.segment import segment
from monitor.assembly.tree import grow
from monitor.assembly.turn import turn
from monitor.assembly.turn_spans import gather
from monitor.extract.attributes import text
from monitor.model.spans import Trace
from monitor.model.turns import Turn
from monitor.ports import Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Print:
    """What two descriptions of one model call have in common, whoever describes it."""

    service: tuple[str | None, str | None]
    """`service.name` and `service.instance.id`."""
    scope: str
    """The instrumentation; the same one does not describe a call twice."""
    start_ns: int
    end_ns: int
    response_id: str | None
    said: bytes | None
    """Digest of the output, None when there was none."""
    heard: bytes | None
    """Digest of the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a trace reads as. `unread` counts spans that belong to no turn, by reason."""

    trace_id: str
    turns: tuple[Turn, ...] = ()
    calls: tuple[Print, ...] = ()
    lone: bool = False
    """The trace is a single model call without anything around it: perhaps a second description of one."""
    unread: Counter[str]


def read(
    trace: Trace, dialects: Sequence[Dialect], *, hash_user: Callable[[str], str], max_spans: int | None = None
) -> Reading:
    """Return the turns of a trace, by start.

    With more than `max_spans` spans the earliest are looked at; turns are flagged `span_limit` and the rest counted
    as `over_limit`.
    """
    over = max(0, len(trace.spans) - max_spans) if max_spans is not None else 0
    if over:
        trace = replace(trace, spans=trace.spans[:max_spans])
    forest = grow(trace, dialects)
    segments = segment(forest)
    materials = [gather(unit) for unit in segments.units]
    turns = [turn(material, hash_user=hash_user) for material in materials]
    if over:
        turns = [replace(one, flags=one.flags | {"span_limit"}) for one in turns]
    unread = forest.unread + segments.unread
    if over:
        unread["over_limit"] += over
    return Reading(
        trace_id=trace.trace_id,
        turns=tuple(sorted(turns, key=lambda one: (one.started_at, one.span_id))),
        calls=tuple(_print(call) for material in materials for call in material.calls),
        lone=len(turns) == 1 and "single_call" in turns[0].flags,
        unread=unread,
    )


def _print(call: Call) -> Print:
    resource = call.span.resource
    return Print(
        service=(text(resource, "service.name"), text(resource, "service.instance.id")),
        scope=call.span.scope,
        start_ns=call.span.start_ns,
        end_ns=call.span.end_ns,
        response_id=call.response_id,
        said=_digest([call.output]) if call.output else None,
        heard=_digest(message.content for message in call.messages) if call.messages else None,
    )


def _digest(texts: Iterable[str]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for one in texts:
        digest.update(" ".join(one.split()).encode("utf-8", "surrogatepass") + b"\x00")
    return digest.digest()
