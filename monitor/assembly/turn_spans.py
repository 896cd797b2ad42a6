"""What one turn is made of, looked up once: its nodes, steps and model calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from monitor.assembly.model_calls import Call, calls
from monitor.assembly.segment import Unit
from monitor.assembly.tree import WRAPPERS, Node, walk
from monitor.model.spans import Role, Span, Step

SEARCHES = frozenset((Role.RETRIEVAL, Role.RERANK))


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """The spans of one turn; all sequences have parents before children, calls are by start."""

    head: Node
    """The turn-root."""
    nodes: tuple[Node, ...]
    spans: tuple[Span, ...]
    steps: tuple[Step, ...]
    """Without chains and agents, except the root."""
    calls: tuple[Call, ...]

    @property
    def root(self) -> Step | None:
        """The step of the turn-root span; None when no dialect claims it or it never came."""
        return self.head.step

    def wrappers(self) -> Iterator[Step]:
        """Yield chains and agents from the outside in, the root first; each is read only when it is its turn."""
        return (step for node in self.nodes if node.role in WRAPPERS and (step := node.step) is not None)

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
    told = [node for node in nodes if node.role not in WRAPPERS or node is unit.head]
    return Material(
        head=unit.head,
        nodes=nodes,
        spans=tuple(node.span for node in nodes if node.span is not None),
        steps=tuple(step for node in told if (step := node.step) is not None),
        calls=calls(nodes),
    )
