"""The same model call in two traces: a framework's instrumentation and its client's do not always share a context.

A trace that is nothing but one model call is dropped when another instrumentation of the same process describes the
same call: same response id, else same text, and enclosing it in time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from monitor.assembly.trace_turns import CallPrint, TraceTurns

_TOLERANCE_NS = 10_000_000
_Key: TypeAlias = tuple[object, ...]


def duplicates(traces: Sequence[TraceTurns]) -> frozenset[str]:
    """Return the ids of those `traces` that describe a call which another of them describes with more around it."""
    known: defaultdict[_Key, list[tuple[TraceTurns, CallPrint]]] = defaultdict(list)
    for trace in traces:
        for call in trace.calls:
            for key in _keys(call):
                known[key].append((trace, call))
    return frozenset(
        trace.trace_id
        for trace in traces
        if trace.is_single_call and any(_repeats(trace, other, call) for other, call in _candidates(trace, known))
    )


def _keys(call: CallPrint) -> Iterator[_Key]:
    if call.response_id is not None:
        yield "id", call.service, call.response_id
    if call.output is not None:
        yield "output", call.service, call.output
    elif call.prompt is not None:
        yield "prompt", call.service, call.prompt


def _candidates(
    trace: TraceTurns, known: dict[_Key, list[tuple[TraceTurns, CallPrint]]]
) -> Iterable[tuple[TraceTurns, CallPrint]]:
    return (candidate for key in _keys(trace.calls[0]) for candidate in known.get(key, ()))


def _repeats(single: TraceTurns, other: TraceTurns, call: CallPrint) -> bool:
    """Whether the only call of `single` is this `call` of `other`, which says more of it."""
    own = single.calls[0]
    if other.trace_id == single.trace_id or own.scope == call.scope:
        return False
    if own.response_id and call.response_id and own.response_id != call.response_id:
        return False
    if not (call.start_ns - _TOLERANCE_NS <= own.start_ns and own.end_ns <= call.end_ns + _TOLERANCE_NS):
        return False
    # Of two single calls the wider description stays.
    return not other.is_single_call or _width(call, other) > _width(own, single)


def _width(call: CallPrint, trace: TraceTurns) -> tuple[int, str]:
    return call.end_ns - call.start_ns, trace.trace_id
