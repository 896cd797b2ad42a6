"""Why a segment is no turn: nobody asked and nobody answered in it, its turn is in another trace, or we asked."""

from __future__ import annotations

from itertools import islice

from monitor.assembly.model_calls import Call
from monitor.assembly.prompt_question import flat, rewrites
from monitor.assembly.segment import SEARCHES, Segment
from monitor.assembly.tree import SILENT, WRAPPERS, Node
from monitor.extract import session_and_user
from monitor.extract.failure import is_model_failure
from monitor.model.own_calls import has_header, has_marks
from monitor.model.spans import Role, Step

_LOOKED_AT = 64
"""Chains, and tools, of one segment that are looked into."""


def rejection(segment: Segment) -> str | None:
    """Return the reason why a segment is no turn, None when it is one."""
    if _is_own_judge(segment):
        return "own_judge"
    if Role.LLM in segment.roles and not segment.roles & (WRAPPERS | SEARCHES):
        return "tool_call_only" if _only_chooses_tools(segment) else "rewrite_only" if _only_rewrites(segment) else None
    if segment.roles & (SEARCHES | {Role.LLM}) or _has_query_and_end(segment):
        return None
    if failed_unseen(segment.head) or _has_agent_with_documents(segment):
        return None
    if segment.roles & WRAPPERS:
        return "ingestion" if Role.EMBEDDING in segment.roles else "no_turn"
    return "tool_only" if Role.TOOL in segment.roles else "embedding_only"


def failed_unseen(node: Node) -> bool:
    """Return whether a model's client failed in an app's own span of a conversation, and left no span of its own."""
    span = node.span
    if span is None or node.role not in SILENT or not is_model_failure(span):
        return False
    return session_and_user.session(span.attributes) is not None or session_and_user.user(span.attributes) is not None


def _is_own_judge(segment: Segment) -> bool:
    """Whether all calls are those of our own judge, as a gateway on its way describes them.

    An app that searches for documents is none, so that a question which looks like our prompt hides no turn of it.
    """
    if Role.LLM not in segment.roles or segment.roles & SEARCHES:
        return False
    calls = segment.calls
    head = segment.head.span
    if any(has_header(span.attributes) for span in (head, *segment.ancestors()) if span is not None):
        return True
    return bool(calls) and all(has_header(call.span.attributes) or has_marks(_texts(call)) for call in calls)


def _texts(call: Call) -> tuple[str, ...]:
    return tuple(message.content for message in call.messages or ()) or (call.query or "",)


def _only_chooses_tools(segment: Segment) -> bool:
    """Calls by themselves that ended in tool calls: the call that is given their results answers."""
    calls = segment.calls
    return bool(calls) and all(call.tool_calls and not call.output and call.error is None for call in calls)


def _only_rewrites(segment: Segment) -> bool:
    """Calls by themselves that reworded a question: the turn is in another trace."""
    calls = segment.calls
    return bool(calls) and all(
        call.error is None and rewrites(call.messages or (), call.output or "") for call in calls
    )


def _has_query_and_end(segment: Segment) -> bool:
    """Whether chains alone tell of a question and how it ended; helpers that only pass a text on do not."""
    nodes = islice((node for node in segment.nodes if node.role in WRAPPERS), _LOOKED_AT)
    steps = [step for node in nodes if (step := node.step) is not None]
    if any("redacted" in step.flags for step in steps[:1]):
        return True
    sure = Role.AGENT not in segment.roles
    query = next((step.query for step in steps if step.query and not (sure and "query" in step.unsure)), None)
    response = next((step.response for step in steps if step.response), None)
    if query is None or query == response:
        return False
    return response is not None or _is_asked(segment, steps[0], query)


def _is_asked(segment: Segment, outermost: Step, query: str) -> bool:
    """Whether somebody asked who was answered no text: the chain around all was asked, or failed.

    Where texts are embedded that are not the question, documents are put into an index.
    """
    if outermost.error is not None:
        return True
    nodes = (node for node in segment.nodes if node.role is Role.EMBEDDING)
    embedded = [step.retrieval_query or "" for node in nodes if (step := node.step) is not None]
    return outermost.query == query and (not embedded or any(flat(text) == flat(query) for text in embedded))


def _has_agent_with_documents(segment: Segment) -> bool:
    """Whether an agent looked for documents; its model's client may not be instrumented."""
    if not {Role.AGENT, Role.TOOL} <= segment.roles:
        return False
    tools = islice((node for node in segment.nodes if node.role is Role.TOOL), _LOOKED_AT)
    return any(step.documents is not None and step.retrieval_query for node in tools if (step := node.step))
