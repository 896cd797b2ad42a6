"""The spans of a trace as trees of steps; a parent that never came is a node without a span."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from monitor.ports import Dialect
from monitor.spans import LogRecord, Role, Span, Step, Trace


@dataclass(slots=True, eq=False)
class Node:
    """A span in its place. `span` is None for a parent that is named but was not delivered."""

    span_id: str
    span: Span | None = None
    step: Step | None = None
    """None: no dialect claims the span."""
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    """By start."""

    @property
    def role(self) -> Role | None:
        """What the span does, None when nobody knows."""
        return None if self.step is None else self.step.role

    @property
    def start_ns(self) -> int:
        """When it began; a missing parent began with its first child."""
        return self.children[0].start_ns if self.span is None else self.span.start_ns


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
    nodes: dict[str, Node] = {}
    for span in trace.spans:
        step = read(span, ordered)
        nodes[span.span_id] = Node(span.span_id, span, step)
        reason = _REASONS.get(None if step is None else step.role)
        if reason is not None:
            unread[reason] += 1
    for node in _from_orphans(trace.orphan_logs, ordered, unread):
        nodes.setdefault(node.span_id, node)
    tops = _link(nodes)
    return Forest(tuple(sorted(tops, key=_by_start)), unread)


def read(span: Span, dialects: Sequence[Dialect]) -> Step | None:
    """Return the step of the first dialect that claims the span, None when none does."""
    for dialect in dialects:
        if dialect.claims(span):
            return dialect.read(span)
    return None


def walk(*roots: Node) -> Iterator[Node]:
    """Yield the nodes below and including `roots`, parents first, siblings by start; judging of steps is left out."""
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        if node.role is Role.EVALUATION:
            continue
        yield node
        stack.extend(reversed(node.children))


_REASONS = {None: "no_dialect", Role.TRANSPORT: "transport", Role.NOISE: "noise"}


def _by_start(node: Node) -> tuple[int, str]:
    return node.start_ns, node.span_id


def _link(nodes: dict[str, Node]) -> list[Node]:
    tops: list[Node] = []
    missing: dict[str, Node] = {}
    for node in nodes.values():
        parent_id = node.span.parent_id if node.span else None
        if parent_id is None or parent_id == node.span_id:
            tops.append(node)
            continue
        parent = nodes.get(parent_id) or missing.setdefault(parent_id, Node(parent_id))
        node.parent = parent
        parent.children.append(node)
    tops += missing.values()
    _cut_cycles(nodes, tops)
    for node in (*nodes.values(), *missing.values()):
        node.children.sort(key=_by_start)
    return tops


def _cut_cycles(nodes: dict[str, Node], tops: list[Node]) -> None:
    reached: set[str] = set()
    stack = list(tops)
    while True:
        while stack:
            node = stack.pop()
            if node.span_id not in reached:
                reached.add(node.span_id)
                stack.extend(node.children)
        # Nodes are in order of start, so the first one left is the earliest of its cycle.
        lost = next((node for span_id, node in nodes.items() if span_id not in reached), None)
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
        step = read(span, dialects) if span_id else None
        if step is not None and (step.output or any(message.content for message in step.messages or ())):
            yield Node(span_id, span, step)
        else:
            unread["orphan_log"] += len(records)
