"""The spans of a trace as trees of steps; a parent that never came is a node without a span."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from monitor.model.spans import LogRecord, Role, Span, Step, Trace
from monitor.ports import Dialect

WRAPPERS = frozenset((Role.CHAIN, Role.AGENT))
"""Roles that wrap other steps."""
SILENT = frozenset((None, Role.TRANSPORT, Role.NOISE))
"""Roles that say nothing of a turn's content; None for spans that no dialect claims."""

_REASONS = {None: "no_dialect", Role.TRANSPORT: "transport", Role.NOISE: "noise"}


@dataclass(slots=True, eq=False)
class Node:
    """A span in its place. `span` is None for a parent that is named but was not delivered."""

    span_id: str
    span: Span | None = None
    dialect: Dialect | None = None
    role: Role | None = None
    """None: no dialect claims the span."""
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    """By start."""
    _step: Step | None = None

    @property
    def step(self) -> Step | None:
        """What the span says; None when no dialect claims it.

        Read when first asked for: frameworks wrap a turn in a dozen chains that repeat each other's input and output.
        """
        if self._step is None and self.dialect is not None and self.span is not None:
            self._step = self.dialect.read(self.span)
        return self._step

    @property
    def start_ns(self) -> int:
        """When it began; a missing parent began with its first child."""
        return self.children[0].start_ns if self.span is None else self.span.start_ns

    @property
    def end_ns(self) -> int:
        """When it ended; a missing parent ended with the last of its children."""
        return max(child.end_ns for child in self.children) if self.span is None else self.span.end_ns


@dataclass(frozen=True, slots=True)
class Forest:
    """All trees of a trace, by start; `unread` counts spans and log records that say nothing, by reason."""

    tops: tuple[Node, ...]
    unread: Counter[str]


def grow(trace: Trace, dialects: Sequence[Dialect]) -> Forest:
    """Return the trees of a trace; `dialects` are asked in order of priority and the first that claims a span reads it.

    Spans whose parent is unknown are children of one node without a span per missing parent. Cycles of parents are
    cut at their earliest span.
    """
    ordered = sorted(dialects, key=lambda dialect: (dialect.priority, dialect.name))
    unread: Counter[str] = Counter()
    nodes = {span.span_id: node(span, ordered) for span in trace.spans}
    for made in _from_orphans(trace.orphan_logs, ordered, unread):
        nodes.setdefault(made.span_id, made)
    tops = _link(nodes)
    for one in nodes.values():
        reason = _REASONS.get(one.role)
        if reason is not None:
            unread[reason] += 1
    for one in nodes.values():
        if one.role is Role.EVALUATION:
            unread["evaluation"] += 1 + sum(1 for top in one.children for n in walk(top) if n.role not in SILENT)
    return Forest(tuple(sorted(tops, key=_by_start)), unread)


def node(span: Span, dialects: Sequence[Dialect]) -> Node:
    """Return the span as a node of the first dialect that claims it."""
    for dialect in dialects:
        if dialect.claims(span):
            made = Node(span.span_id, span, dialect, dialect.role(span))
            if made.role not in WRAPPERS and made.step is not None:
                made.role = made.step.role
            return made
    return Node(span.span_id, span)


def walk(*roots: Node) -> Iterator[Node]:
    """Yield the nodes below and including `roots`, parents first, siblings by start; judging of steps is left out."""
    stack = list(reversed(roots))
    while stack:
        one = stack.pop()
        if one.role is Role.EVALUATION:
            continue
        yield one
        stack.extend(reversed(one.children))


def _by_start(one: Node) -> tuple[int, int, str]:
    """Of those that begin together the longest first: it may be around the others."""
    return one.start_ns, -one.end_ns, one.span_id


def _link(nodes: dict[str, Node]) -> list[Node]:
    tops: list[Node] = []
    missing: dict[str, Node] = {}
    for one in nodes.values():
        parent_id = one.span.parent_id if one.span else None
        if parent_id is None or parent_id == one.span_id:
            tops.append(one)
            continue
        parent = nodes.get(parent_id) or missing.setdefault(parent_id, Node(parent_id))
        one.parent = parent
        parent.children.append(one)
    tops += missing.values()
    _cut_cycles(nodes, tops)
    for one in (*nodes.values(), *missing.values()):
        one.children.sort(key=_by_start)
    return tops


def _cut_cycles(nodes: dict[str, Node], tops: list[Node]) -> None:
    """Nodes are in order of start, so the first one that no top leads to is the earliest of its cycle."""
    reached: set[str] = set()
    stack = list(tops)
    waiting = iter(nodes.values())
    while True:
        while stack:
            one = stack.pop()
            if one.span_id not in reached:
                reached.add(one.span_id)
                stack.extend(one.children)
        lost = next((one for one in waiting if one.span_id not in reached), None)
        if lost is None:
            return
        if lost.parent is not None:
            lost.parent.children.remove(lost)
            lost.parent = None
        tops.append(lost)
        stack.append(lost)


def _from_orphans(logs: Sequence[LogRecord], dialects: Sequence[Dialect], unread: Counter[str]) -> Iterator[Node]:
    """Content that came as log records counts also when its span was dropped on the way."""
    by_span: defaultdict[str, list[LogRecord]] = defaultdict(list)
    for record in logs:
        by_span[record.span_id].append(record)
    for span_id, records in by_span.items():
        events = tuple(record.event for record in records)
        span = Span(
            trace_id=records[0].trace_id,
            span_id=span_id,
            parent_id=None,
            name=events[0].name,
            kind=0,
            start_ns=events[0].time_ns,
            end_ns=events[-1].time_ns,
            attributes={},
            events=events,
            resource=records[0].resource,
            scope=records[0].scope,
            flags=frozenset({"span_missing"}).union(*(record.flags for record in records)),
        )
        made = node(span, dialects)
        step = made.step if span_id else None
        if step is not None and (step.output or any(message.content for message in step.messages or ())):
            yield made
        else:
            unread["orphan_log"] += len(records)
