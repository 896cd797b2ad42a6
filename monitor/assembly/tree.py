"""The spans of a trace as trees of steps; a parent that never came is a node without a span."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from monitor.assembly.repair import with_sound_names_and_counts
from monitor.assembly.rules import ReadingRules
from monitor.extract.session_and_user import with_standard_keys
from monitor.model.spans import LogRecord, Role, Span, Step, Trace
from monitor.ports import Dialect

WRAPPERS = frozenset((Role.CHAIN, Role.AGENT))
"""Roles that wrap other steps."""
SILENT = frozenset((None, Role.TRANSPORT, Role.NOISE))
"""Roles that say nothing of a turn's content; None for spans that no dialect claims."""


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
            self._step = with_sound_names_and_counts(self.dialect.read(self.span))
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
    """All trees of a trace."""

    tops: tuple[Node, ...]
    """By start."""
    nodes: tuple[Node, ...]
    """Every span that was delivered."""
    lost_logs: int
    """Log records without their span that say nothing."""


def grow(trace: Trace, rules: ReadingRules) -> Forest:
    """Return the trees of a trace; the first dialect of the rules that claims a span reads it.

    Spans whose parent is unknown are children of one node without a span per missing parent. Cycles of parents are
    cut at their earliest span.
    """
    keys, dialects = rules.session_and_user_keys, rules.dialects
    nodes: dict[str, Node] = {}
    for span in trace.spans:
        placed = with_standard_keys(rules.exclusions.read(span), keys)
        nodes[span.span_id] = node_of(placed, () if rules.exclusions.leaves_out(span) else dialects)
    lost_logs = 0
    for records in _by_span(trace.orphan_logs):
        restored = node_of(_span_of(records), dialects)
        if _speaks(restored):
            nodes.setdefault(restored.span_id, restored)
        else:
            lost_logs += len(records)
    tops = _link(nodes)
    return Forest(tuple(sorted(tops, key=_by_start)), tuple(nodes.values()), lost_logs)


def node_of(span: Span, dialects: Sequence[Dialect]) -> Node:
    """Return the span as a node of the first dialect that claims it."""
    for dialect in dialects:
        if dialect.claims(span):
            node = Node(span.span_id, span, dialect, dialect.role(span))
            if node.role not in WRAPPERS and node.step is not None:
                node.role = node.step.role
            return node
    return Node(span.span_id, span)


def walk(*roots: Node) -> Iterator[Node]:
    """Yield the nodes below and including `roots`, parents first, siblings by start; judging of steps is left out."""
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        if node.role is Role.EVALUATION:
            continue
        yield node
        stack.extend(reversed(node.children))


def _by_start(node: Node) -> tuple[int, int, str]:
    """Of those that begin together the longest first: it may be around the others."""
    return node.start_ns, -node.end_ns, node.span_id


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
    """Nodes are in order of start, so the first one that no top leads to is the earliest of its cycle."""
    reached: set[str] = set()
    stack = list(tops)
    waiting = iter(nodes.values())
    while True:
        while stack:
            node = stack.pop()
            if node.span_id not in reached:
                reached.add(node.span_id)
                stack.extend(node.children)
        lost = next((node for node in waiting if node.span_id not in reached), None)
        if lost is None:
            return
        if lost.parent is not None:
            lost.parent.children.remove(lost)
            lost.parent = None
        tops.append(lost)
        stack.append(lost)


def _by_span(logs: Sequence[LogRecord]) -> Iterable[Sequence[LogRecord]]:
    records: defaultdict[str, list[LogRecord]] = defaultdict(list)
    for record in logs:
        records[record.span_id].append(record)
    return records.values()


def _span_of(records: Sequence[LogRecord]) -> Span:
    """The span that was dropped on the way, as far as its log records tell."""
    events = tuple(record.event for record in records)
    return Span(
        trace_id=records[0].trace_id,
        span_id=records[0].span_id,
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


def _speaks(node: Node) -> bool:
    """Whether a model call's messages or output are in it; log records may also belong to no span."""
    step = node.step if node.span_id else None
    return step is not None and bool(step.output or any(message.content for message in step.messages or ()))
