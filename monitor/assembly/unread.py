"""What of a trace belongs to no turn, counted once, by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from monitor.assembly.rules import ReadingRules
from monitor.assembly.segment import Segment
from monitor.assembly.tree import SILENT, Forest, Node, walk
from monitor.extract.session_and_user import is_only_whose
from monitor.model.spans import Role, Trace


def unread_counts(
    trace: Trace, forest: Forest, rejected: Sequence[tuple[Segment, str]], *, rules: ReadingRules, over_limit: int
) -> Counter[str]:
    """Return the number of spans and log records of `trace` that no turn is made of, by reason.

    `rejected` are the segments that are no turns, each with the reason; `over_limit` spans were not looked at.
    """
    counts = Counter(trace.unread)
    for node in forest.nodes:
        if node.role in SILENT:
            counts[_why_silent(node, rules)] += 1
        elif node.role is Role.EVALUATION:
            counts["evaluation"] += 1 + _other_than_silent(walk(*node.children))
    for segment, reason in rejected:
        counts[reason] += _other_than_silent(segment.nodes)
    counts["orphan_log"] += forest.lost_logs
    counts["over_limit"] += over_limit
    return +counts


def _why_silent(node: Node, rules: ReadingRules) -> str:
    if node.span is not None and rules.exclusions.leaves_out(node.span):
        return "excluded_scope"
    if node.role is not None:
        return node.role.value
    # An app's own span around a turn, for its session alone, has been read: turns take the session from there.
    return "noise" if node.span is not None and is_only_whose(node.span.attributes) else "no_dialect"


def _other_than_silent(nodes: Iterable[Node]) -> int:
    """Silent ones are counted by their own role."""
    return sum(1 for node in nodes if node.role not in SILENT)
