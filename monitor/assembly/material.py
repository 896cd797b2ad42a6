"""What one turn is made of, looked up once: its nodes, steps and model calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from monitor.assembly.calls import Call, calls
from monitor.assembly.segment import Unit
from monitor.assembly.tree import Node, walk
from monitor.spans import Role, Span, Step

WRAPPERS = frozenset((Role.CHAIN, Role.AGENT))
SEARCHES = frozenset((Role.RETRIEVAL, Role.RERANK))


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """The spans of one turn; all sequences have parents before children, calls are by start."""

    head: Node
    """The turn-root."""
    nodes: tuple[Node, ...]
    spans: tuple[Span, ...]
    steps: tuple[Step, ...]
    calls: tuple[Call, ...]

    @property
    def root(self) -> Step | None:
        """The step of the turn-root span; None when no dialect claims it or it never came."""
        return self.head.step

    @property
    def wrappers(self) -> Iterator[Step]:
        """Chains and agents from the outside in, the root first."""
        return (step for step in self.steps if step.role in WRAPPERS)

    @property
    def searches(self) -> tuple[Step, ...]:
        """Retrievals that say what they searched for, by start."""
        found = (step for step in self.steps if step.retrieval_query and step.role in SEARCHES)
        return tuple(sorted(found, key=lambda step: (step.span.start_ns, step.span.span_id)))

    def ancestors(self) -> Iterator[Span]:
        """Yield the spans above the turn-root, nearest first."""
        above = self.head.parent
        while above is not None:
            if above.span is not None:
                yield above.span
            above = above.parent


def gather(unit: Unit) -> Material:
    """Return the material of a unit."""
    nodes = tuple(walk(*unit.roots))
    return Material(
        head=unit.head,
        nodes=nodes,
        spans=tuple(node.span for node in nodes if node.span is not None),
        steps=tuple(node.step for node in nodes if node.step is not None),
        calls=calls(nodes),
    )
