"""Which spans make up one turn: the trees of a trace are cut into units, and units that share a question are joined.

A chain or agent is a unit with everything below it. What stands side by side below a request, an app's own span or a
parent that never came is joined in order of time: a rewrite, a retrieval and the answer belong together, the next
question begins the next turn. Source of the rules: dialects.md 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from monitor.assembly.boundaries import Evidence, departs, evidence, follows
from monitor.assembly.model_calls import Call, calls
from monitor.assembly.prompt_question import rewrites
from monitor.assembly.tree import SILENT, WRAPPERS, Forest, Node, walk
from monitor.extract import session_and_user
from monitor.extract.failure import of_a_model
from monitor.model.spans import Role

_SPEAKING = frozenset((Role.LLM, Role.RETRIEVAL, Role.RERANK))
_MATTERING = _SPEAKING | WRAPPERS
_LOOKED_AT = 64
"""Chains, and calls, of one unit that are looked into."""
_HORIZON = 16
"""Steps within which the same question belongs to the same turn."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Part of a turn, or a whole one: the subtrees of `roots`; `head` names it."""

    head: Node
    roots: tuple[Node, ...]
    roles: frozenset[Role | None]
    """Of all spans in it."""

    @property
    def matters(self) -> bool:
        """Whether somebody may have asked or answered something in it."""
        return bool(self.roles & _MATTERING)


def segment(forest: Forest) -> tuple[list[Unit], list[tuple[Unit, str]]]:
    """Return the units that are turns, and those that are none, each with the reason."""
    held: dict[Node, list[Unit]] = {}
    for node in _open_bottom_up(forest.tops):
        held[node] = _units(node, [unit for child in node.children for unit in _held(child, held)])
    turns, rejected = [], []
    for unit in _join(None, [unit for top in forest.tops for unit in _held(top, held)]):
        reason = _reason_against(unit)
        if reason is None:
            turns.append(unit)
        else:
            rejected.append((unit, reason))
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


def _held(node: Node, held: dict[Node, list[Unit]]) -> list[Unit]:
    if node in held:
        return held.pop(node)
    return [] if node.role is Role.EVALUATION else [_whole(node)]


def _whole(node: Node) -> Unit:
    return Unit(node, (node,), frozenset(below.role for below in walk(node)))


def _units(node: Node, below: list[Unit]) -> list[Unit]:
    if not any(unit.matters for unit in below) and _failed_unseen(node):
        return [_whole(node)]
    joined = _join(None if node.role in WRAPPERS else node, below)
    if node.role in WRAPPERS and sum(1 for unit in joined if evidence(unit.roots).closed) < 2:  # noqa: PLR2004 -- several
        return [_whole(node)]
    return joined


def _join(parent: Node | None, units: list[Unit]) -> list[Unit]:
    """Join the units that stand side by side below `parent`; None: they are the trees of a trace."""
    if not any(unit.matters for unit in units):
        return units
    groups = _grouped(sorted(units, key=lambda unit: (unit.head.start_ns, -unit.head.end_ns, unit.head.span_id)))
    if len(groups) > 1 or parent is None:
        return [_merged(group) for group in groups]
    group = groups[0]
    mattering = [unit for unit in group if unit.matters]
    if len(mattering) == 1 and (mattering[0].head.role in WRAPPERS or mattering[0].head.role in SILENT):
        return [_merged(group)]
    if not _same_service(parent, mattering):
        return [_merged(group)]
    return [Unit(parent, (parent,), _roles(group))]


def _roles(units: Sequence[Unit]) -> frozenset[Role | None]:
    return frozenset(role for unit in units for role in unit.roles)


def _same_service(parent: Node, units: Sequence[Unit]) -> bool:
    if parent.span is None:
        return True
    name = parent.span.resource.get("service.name")
    return any(unit.head.span is None or unit.head.span.resource.get("service.name") == name for unit in units)


def _merged(group: Sequence[Unit]) -> Unit:
    """One unit of several; a chain names it, else whatever came first."""
    if len(group) == 1:
        return group[0]
    mattering = [unit for unit in group if unit.matters] or group
    head = next((unit.head for unit in mattering if unit.head.role in WRAPPERS), mattering[0].head)
    roots = tuple(root for unit in group for root in unit.roots)
    return Unit(head, roots, _roles(group))


def _grouped(units: Sequence[Unit]) -> list[list[Unit]]:
    """Cut a row of units, in order of start, where a new question begins.

    Embeddings and tools go with the unit that follows them, at the end of the row with the last one.
    """
    number = {id(unit): at for at, group in enumerate(_questions([u for u in units if u.matters])) for unit in group}
    groups: list[list[Unit]] = [[] for _ in range(max(number.values()) + 1)]
    aside: list[Unit] = []
    for unit in units:
        at = number.get(id(unit))
        if at is None:
            aside.append(unit)
        else:
            groups[at] += [*aside, unit]
            aside = []
    groups[-1] += aside
    return groups


def _questions(units: Sequence[Unit]) -> list[list[Unit]]:
    if len(units) == 1:
        return [list(units)]
    known = [evidence(unit.roots) for unit in units]
    groups = [[units[0]]]
    so_far = known[0]
    reach = _reach(known, 0)
    for at in range(1, len(units)):
        unit = known[at]
        ahead = next((found for found in known[at + 1 : at + 3] if found.questions), None)
        if not departs(so_far, unit) and ((at <= reach and unit.bare) or follows(so_far, unit, ahead)):
            groups[-1].append(units[at])
            so_far = so_far.with_(unit)
            reach = max(reach, _reach(known, at))
        else:
            groups.append([units[at]])
            so_far = unit
            reach = _reach(known, at)
    return groups


def _reach(known: Sequence[Evidence], at: int) -> int:
    """How far on the same question is asked again: what stands between are steps on the way to its answer."""
    found = known[at]
    if not found.bare or not found.questions:
        return at
    for later in range(min(at + _HORIZON, len(known) - 1), at, -1):
        if known[later].bare and set(found.questions).intersection(known[later].questions):
            return later
    return at


def _reason_against(unit: Unit) -> str | None:
    """Why a unit is no turn, None when it is one."""
    if Role.LLM in unit.roles and not unit.roles & (WRAPPERS | {Role.RETRIEVAL, Role.RERANK}):
        return "tool_call_only" if _only_chooses_tools(unit) else "rewrite_only" if _only_rewrites(unit) else None
    if unit.roles & _SPEAKING or _asked_and_ended(unit) or _failed_unseen(unit.head) or _agent_searched(unit):
        return None
    if unit.roles & WRAPPERS:
        return "ingestion" if Role.EMBEDDING in unit.roles else "no_turn"
    return "tool_only" if Role.TOOL in unit.roles else "embedding_only"


def _agent_searched(unit: Unit) -> bool:
    """Whether an agent looked for documents; its model's client may not be instrumented."""
    if not {Role.AGENT, Role.TOOL} <= unit.roles:
        return False
    tools = islice((node for node in walk(*unit.roots) if node.role is Role.TOOL), _LOOKED_AT)
    return any(step.documents is not None and step.retrieval_query for node in tools if (step := node.step))


def _failed_unseen(node: Node) -> bool:
    """Whether a model's client failed in an app's own span of a conversation, and left no span of its own."""
    span = node.span
    if span is None or node.role not in SILENT or not of_a_model(span):
        return False
    return session_and_user.session(span.attributes) is not None or session_and_user.user(span.attributes) is not None


def _only_chooses_tools(unit: Unit) -> bool:
    """Calls by themselves that ended in tool calls: the call that is given their results answers."""
    found = _calls(unit)
    return bool(found) and all(call.tool_calls and not call.output and call.error is None for call in found)


def _only_rewrites(unit: Unit) -> bool:
    """Calls by themselves that reworded a question: the turn is in another trace."""
    found = _calls(unit)
    return bool(found) and all(
        call.error is None and rewrites(call.messages or (), call.output or "") for call in found
    )


def _calls(unit: Unit) -> tuple[Call, ...]:
    """The calls of a model; a client that describes its own calls says nothing of their content."""
    return calls(tuple(islice(walk(*unit.roots), _LOOKED_AT)))


def _asked_and_ended(unit: Unit) -> bool:
    """Whether chains alone tell of a question and how it ended; helpers that only pass a text on do not."""
    nodes = islice((node for node in walk(*unit.roots) if node.role in WRAPPERS), _LOOKED_AT)
    steps = [step for node in nodes if (step := node.step) is not None]
    if any("redacted" in step.flags for step in steps[:1]):
        return True
    sure = Role.AGENT not in unit.roles
    query = next((step.query for step in steps if step.query and not (sure and "query" in step.unsure)), None)
    response = next((step.response for step in steps if step.response), None)
    failed = any(step.error is not None for step in steps[:1])
    return query is not None and query != response and (response is not None or failed)
