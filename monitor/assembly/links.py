"""Span links: a turn that a queue set off in a trace of its own belongs to the session and user of what it links to.

Source: https://opentelemetry.io/docs/concepts/signals/traces/#span-links
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from monitor.assembly.rules import ReadingRules
from monitor.assembly.segment import Segment
from monitor.extract import session_and_user
from monitor.extract.session_and_user import with_standard_keys
from monitor.model.spans import Attributes, Link, Span, Trace
from monitor.model.turns import Turn

NOT_FOLLOWED = "link_not_followed"
"""Flag of a turn without a session or user whose link names a span that did not arrive."""
_FOLLOWED = 4
"""Links of one turn."""


def links_of(segment: Segment) -> tuple[Link, ...]:
    """Return the first links of a turn's spans, and of those above it, to spans of other traces."""
    spans = (*segment.spans, *segment.ancestors())
    elsewhere = (link for span in spans for link in span.links if link.trace_id != span.trace_id)
    return tuple(islice(dict.fromkeys(elsewhere), _FOLLOWED))


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedTrace:
    """A trace that a turn links to, as far as it has arrived."""

    trace: Trace
    through: int
    """The highest position of its fragments; 0 when none has arrived."""


def awaited(turn: Turn, links: Sequence[Link], traces: Mapping[str, LinkedTrace]) -> Mapping[str, int]:
    """Return the traces in which a linked span is missing that might tell more, and how far they arrived."""
    if NOT_FOLLOWED not in turn.flags:
        return {}
    known = {link.trace_id: traces[link.trace_id] for link in links if link.trace_id in traces}
    return {
        link.trace_id: known[link.trace_id].through
        for link in links
        if link.trace_id in known and not _path(known[link.trace_id].trace, link.span_id)
    }


def linked_turn(turn: Turn, links: Sequence[Link], traces: Mapping[str, LinkedTrace], rules: ReadingRules) -> Turn:
    """Return the turn with the session and user of what it links to, where it has none itself.

    `traces` are those of the links that arrived. The linked span tells, else those above it, the nearest first.
    """
    paths = [_path(traces[link.trace_id].trace, link.span_id) if link.trace_id in traces else () for link in links]
    spans = [with_standard_keys(span, rules.session_and_user_keys) for path in paths for span in path]
    user = _first(spans, session_and_user.user)
    joined = replace(
        turn,
        session_id=turn.session_id or _first(spans, session_and_user.session),
        user_id=turn.user_id or (None if user is None else rules.hash_user(user)),
    )
    if all(paths):
        return joined
    is_lacking = joined.session_id is None or joined.user_id is None
    return replace(joined, flags=joined.flags | {NOT_FOLLOWED}) if is_lacking else joined


def _first(spans: Iterable[Span], read: Callable[[Attributes], str | None]) -> str | None:
    return next((value for span in spans if (value := read(span.attributes)) is not None), None)


def _path(trace: Trace, span_id: str) -> tuple[Span, ...]:
    """The span and those above it; empty when it did not arrive."""
    return tuple(_upwards({span.span_id: span for span in trace.spans}, span_id))


def _upwards(spans: dict[str, Span], span_id: str | None) -> Iterator[Span]:
    while span_id is not None and (span := spans.pop(span_id, None)) is not None:  # each once: parents may be a circle
        yield span
        span_id = span.parent_id
