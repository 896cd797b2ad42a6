"""The same model call in two traces: a framework's instrumentation and its client's do not always share a context.

A trace that is nothing but one model call is dropped when another instrumentation of the same process describes the
same call: same response id, else same text, and enclosing it in time. Source: dialects.md 4.2 and 4.4.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from monitor.assembly.trace_turns import Print, Reading

_TOLERANCE_NS = 10_000_000
_Key: TypeAlias = tuple[object, ...]


def twins(readings: Sequence[Reading]) -> frozenset[str]:
    """Return the traces among `readings` that describe a call which another of them describes with more around it."""
    known: defaultdict[_Key, list[tuple[Reading, Print]]] = defaultdict(list)
    for reading in readings:
        for call in reading.calls:
            for key in _keys(call):
                known[key].append((reading, call))
    return frozenset(
        reading.trace_id
        for reading in readings
        if reading.lone and any(_same(reading, other, call) for other, call in _candidates(reading, known))
    )


def _keys(call: Print) -> Iterator[_Key]:
    if call.response_id is not None:
        yield "id", call.service, call.response_id
    if call.said is not None:
        yield "said", call.service, call.said
    elif call.heard is not None:
        yield "heard", call.service, call.heard


def _candidates(reading: Reading, known: dict[_Key, list[tuple[Reading, Print]]]) -> Iterable[tuple[Reading, Print]]:
    return (found for key in _keys(reading.calls[0]) for found in known.get(key, ()))


def _same(lone: Reading, other: Reading, call: Print) -> bool:
    own = lone.calls[0]
    if other.trace_id == lone.trace_id or own.scope == call.scope:
        return False
    if own.response_id and call.response_id and own.response_id != call.response_id:
        return False
    if not (call.start_ns - _TOLERANCE_NS <= own.start_ns and own.end_ns <= call.end_ns + _TOLERANCE_NS):
        return False
    # Of two lone descriptions the wider one stays.
    return not other.lone or _width(call, other) > _width(own, lone)


def _width(call: Print, reading: Reading) -> tuple[int, str]:
    return call.end_ns - call.start_ns, reading.trace_id
