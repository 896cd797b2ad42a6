"""Spans of a trace that are one turn, or part of one, and what is looked up in them once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from monitor.assembly.model_calls import Call, calls
from monitor.assembly.rules import ReadingRules
from monitor.assembly.tree import WRAPPERS, Node, walk
from monitor.model.spans import Role, Span, Step

SEARCHES = frozenset((Role.RETRIEVAL, Role.RERANK))
_SPEAKING = SEARCHES | WRAPPERS | {Role.LLM}


@dataclass(frozen=True, eq=False, kw_only=True)
class Segment:
    """The subtrees of `roots`. All sequences have parents before children, calls are by start."""

    head: Node
    """The span that the segment is named after: once the trace is cut up the root of its turn."""
    roots: tuple[Node, ...]
    roles: frozenset[Role | None]
    """Of all its spans."""
    rules: ReadingRules

    @property
    def speaks(self) -> bool:
        """Whether somebody may have asked or answered something in it."""
        return bool(self.roles & _SPEAKING)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All spans in their places, with parents that never came."""
        return tuple(walk(*self.roots))

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """All spans that came."""
        return tuple(node.span for node in self.nodes if node.span is not None)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Without chains and agents, except the root."""
        readable = (node for node in self.nodes if node.role not in WRAPPERS or node is self.head)
        return tuple(step for node in readable if (step := node.step) is not None)

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Calls of models, each once."""
        return calls(self.nodes)

    @cached_property
    def asking_nodes(self) -> tuple[Node, ...]:
        """Those that tell what was asked: where a model calls tools, not what runs below a tool."""
        inside: set[int] = set()
        for node in self.nodes:
            if node.parent is not None and (node.parent.role is Role.TOOL or id(node.parent) in inside):
                inside.add(id(node))
        outside = tuple(node for node in self.nodes if id(node) not in inside)
        return outside if any(node.role is Role.LLM for node in outside) else self.nodes

    @cached_property
    def asking_calls(self) -> tuple[Call, ...]:
        """The calls among `asking_nodes`."""
        asking = {node.span_id for node in self.asking_nodes}
        return tuple(call for call in self.calls if call.span.span_id in asking)

    @cached_property
    def answering_calls(self) -> tuple[Call, ...]:
        """Calls that may have answered; none below a tool where a model took up what the tool returned."""
        asking = self.asking_calls
        return asking if asking and asking[-1] is self.calls[-1] else self.calls

    @cached_property
    def searches(self) -> tuple[Step, ...]:
        """Retrievals that say what they searched for, by start."""
        searches = (step for step in self.steps if step.retrieval_query and step.role in SEARCHES)
        return tuple(sorted(searches, key=lambda step: (step.span.start_ns, step.span.span_id)))

    @property
    def root(self) -> Step | None:
        """The step of the turn-root span; None when no dialect claims it or it never came."""
        return self.head.step

    def wrappers(self) -> Iterator[Step]:
        """Yield chains and agents from the outside in, the root first; each is read only when it is its turn."""
        return (step for node in self.asking_nodes if node.role in WRAPPERS and (step := node.step) is not None)

    def ancestors(self) -> Iterator[Span]:
        """Yield the spans above the turn-root, nearest first."""
        above = self.head.parent
        while above is not None:
            if above.span is not None:
                yield above.span
            above = above.parent
