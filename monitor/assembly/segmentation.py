"""A trace is cut into segments, one a turn: segments that stand side by side and share a question are joined.

A chain or agent is a segment with everything below it. What stands side by side below a request, an app's own span or
a parent that never came is joined in order of time: a rewrite, a retrieval and the answer belong together, the next
question begins the next turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from monitor.assembly.boundaries import Clues, clues, departs, follows
from monitor.assembly.rejection import failed_unseen, rejection
from monitor.assembly.rules import ReadingRules
from monitor.assembly.segment import Segment
from monitor.assembly.tree import SILENT, WRAPPERS, Forest, Node, walk
from monitor.model.spans import Role

_HORIZON = 16
"""Steps within which the same question belongs to the same turn."""


def cut(forest: Forest, rules: ReadingRules) -> tuple[list[Segment], list[tuple[Segment, str]]]:
    """Return the segments that are turns, and those that are none, each with the reason."""
    waiting: dict[Node, list[Segment]] = {}
    for node in _open_bottom_up(forest.tops):
        below = [segment for child in node.children for segment in _taken(child, waiting, rules)]
        waiting[node] = _below(node, below, rules)
    turns, rejected = [], []
    for segment in _join(None, [segment for top in forest.tops for segment in _taken(top, waiting, rules)]):
        reason = rejection(segment)
        if reason is None:
            turns.append(segment)
        else:
            rejected.append((segment, reason))
    return turns, rejected


def _open_bottom_up(tops: Sequence[Node]) -> list[Node]:
    """Nodes that turns may stand below, children first; what asks or answers by itself is not looked into."""
    order: list[Node] = []
    stack = [top for top in tops if _is_open(top)]
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(child for child in node.children if _is_open(child))
    order.reverse()
    return order


def _is_open(node: Node) -> bool:
    """Whether a span is only a place where others stand; a session or batch may be a chain that was asked nothing."""
    if node.role in SILENT:
        return True
    step = node.step if node.role in WRAPPERS and len(node.children) > 1 else None
    return step is not None and step.query is None and step.response is None and step.shapeless is None


def _taken(node: Node, waiting: dict[Node, list[Segment]], rules: ReadingRules) -> list[Segment]:
    if node in waiting:
        return waiting.pop(node)
    return [] if node.role is Role.EVALUATION else [_whole(node, rules)]


def _whole(node: Node, rules: ReadingRules) -> Segment:
    return Segment(head=node, roots=(node,), roles=frozenset(below.role for below in walk(node)), rules=rules)


def _below(node: Node, segments: list[Segment], rules: ReadingRules) -> list[Segment]:
    """The segments below an open node, joined; or the node with everything below it."""
    if not any(segment.speaks for segment in segments) and failed_unseen(node):
        return [_whole(node, rules)]
    joined = _join(None if node.role in WRAPPERS else node, segments)
    if node.role in WRAPPERS and sum(1 for segment in joined if clues(segment).is_closed) < 2:  # noqa: PLR2004 -- several
        return [_whole(node, rules)]
    return joined


def _join(parent: Node | None, segments: list[Segment]) -> list[Segment]:
    """Join the segments that stand side by side below `parent`; None: they are the trees of a trace."""
    if not any(segment.speaks for segment in segments):
        return segments
    groups = _grouped(sorted(segments, key=_by_head))
    if len(groups) > 1 or parent is None:
        return [_merged(group) for group in groups]
    group = groups[0]
    speaking = [segment for segment in group if segment.speaks]
    if len(speaking) == 1 and (speaking[0].head.role in WRAPPERS or speaking[0].head.role in SILENT):
        return [_merged(group)]
    if not _same_service(parent, speaking):
        return [_merged(group)]
    return [replace(group[0], head=parent, roots=(parent,), roles=_roles(group))]


def _by_head(segment: Segment) -> tuple[int, int, str]:
    return segment.head.start_ns, -segment.head.end_ns, segment.head.span_id


def _roles(segments: Sequence[Segment]) -> frozenset[Role | None]:
    return frozenset(role for segment in segments for role in segment.roles)


def _same_service(parent: Node, segments: Sequence[Segment]) -> bool:
    if parent.span is None:
        return True
    name = parent.span.resource.get("service.name")
    heads = [segment.head.span for segment in segments]
    return any(head is None or head.resource.get("service.name") == name for head in heads)


def _merged(group: Sequence[Segment]) -> Segment:
    """One segment of several; a chain names it, else whatever came first."""
    if len(group) == 1:
        return group[0]
    speaking = [segment for segment in group if segment.speaks] or group
    head = next((segment.head for segment in speaking if segment.head.role in WRAPPERS), speaking[0].head)
    roots = tuple(root for segment in group for root in segment.roots)
    return replace(group[0], head=head, roots=roots, roles=_roles(group))


def _grouped(segments: Sequence[Segment]) -> list[list[Segment]]:
    """Cut a row of segments, in order of start, where a new question begins.

    Embeddings and tools go with the segment that follows them, at the end of the row with the last one.
    """
    questions = _questions([segment for segment in segments if segment.speaks])
    number = {id(segment): at for at, group in enumerate(questions) for segment in group}
    groups: list[list[Segment]] = [[] for _ in questions]
    aside: list[Segment] = []
    for segment in segments:
        at = number.get(id(segment))
        if at is None:
            aside.append(segment)
        else:
            groups[at] += [*aside, segment]
            aside = []
    groups[-1] += aside
    return groups


def _questions(segments: Sequence[Segment]) -> list[list[Segment]]:
    if len(segments) == 1:
        return [list(segments)]
    row = [clues(segment) for segment in segments]
    groups = [[segments[0]]]
    so_far = row[0]
    reach = _reach(row, 0)
    for at in range(1, len(segments)):
        current = row[at]
        ahead = next((later for later in row[at + 1 : at + 3] if later.questions), None)
        if not departs(so_far, current) and ((at <= reach and current.is_bare) or follows(so_far, current, ahead)):
            groups[-1].append(segments[at])
            so_far = so_far.joined(current)
            reach = max(reach, _reach(row, at))
        else:
            groups.append([segments[at]])
            so_far = current
            reach = _reach(row, at)
    return groups


def _reach(row: Sequence[Clues], at: int) -> int:
    """How far on the same question is asked again: what stands between are steps on the way to its answer."""
    first = row[at]
    if not first.is_bare or not first.questions:
        return at
    for later in range(min(at + _HORIZON, len(row) - 1), at, -1):
        if row[later].is_bare and set(first.questions).intersection(row[later].questions):
            return later
    return at
