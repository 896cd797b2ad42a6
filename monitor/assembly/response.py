"""What was answered in a turn, by which call, or how the turn failed. Source: dialects.md 4.3, response and error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.assembly.model_calls import Call, answering
from monitor.assembly.prompt_question import flat
from monitor.assembly.tree import WRAPPERS, Node
from monitor.assembly.turn_spans import Material
from monitor.extract.failure import exception, failure, server_fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Replied:
    """A turn's response and error; `answer` is the call that made the response."""

    response: str | None
    answer: Call | None
    error: str | None
    flags: frozenset[str] = frozenset()


def replied(material: Material, *, contents: Sequence[str]) -> Replied:
    """Return how a turn ended; `contents` are the texts of retrieved documents.

    What the root says wins. A turn whose root failed, or whose last call failed, has no response: earlier calls
    rewrote or chose tools.
    """
    root = material.root
    said = root.response if root is not None and "response" not in root.unsure else None
    answer = answering(
        material.calls,
        response=said,
        contents=contents,
        searched=[(step.retrieval_query or "", step.span.start_ns) for step in material.searches],
    )
    error = _error(material)
    if said is not None and error is not None and _is_fault(material, said):
        said = None
    if said is not None:
        return Replied(response=said, answer=answer, error=error)
    last = material.calls[-1] if material.calls else None
    if error is None and last is not None and last.error is not None and not last.output:
        error = last.error
    if error is not None:
        return Replied(response=None, answer=None, error=error)
    if answer is not None:
        return Replied(response=_around(material, answer) or answer.output, answer=answer, error=None)
    inner = next((s.response for s in material.wrappers() if s.response and "response" not in s.unsure), None)
    response = inner or (root.response if root is not None else None)
    if response is None and root is not None and root.role in WRAPPERS and root.shapeless is not None:
        return Replied(response=root.shapeless, answer=None, error=None, flags=frozenset({"unparsed_json"}))
    late = exception(material.head.span) if response is None and material.head.span is not None else None
    return Replied(response=response, answer=None, error=late)


def retries(calls: Sequence[Call]) -> int:
    """Return how many calls failed and were made again with the same last message."""
    succeeded = {call.last_user: at for at, call in enumerate(calls) if call.output}
    return sum(
        1
        for at, call in enumerate(calls)
        if call.error is not None and not call.output and succeeded.get(call.last_user, -1) > at
    )


def _is_fault(material: Material, said: str) -> bool:
    """Whether what a failed turn says is the message of what it failed of, as some agents show it."""
    text = flat(said)
    for span in material.spans:
        told = [span.status_message, *(str(e.attributes.get("exception.message", "")) for e in span.events)]
        if any(text in flat(one) for one in told if one):
            return True
        named = exception(span)
        if named is not None and text.startswith(named):
            return True
    return False


def _error(material: Material) -> str | None:
    head = material.head
    if head.span is None:
        return None
    own = head.step.error if head.step is not None else failure(head.span) or server_fault(head.span)
    if own is not None:
        return own
    return next((fault for span in material.ancestors() if (fault := server_fault(span))), None)


def _around(material: Material, answer: Call) -> str | None:
    """What the outermost chain around the answering call says: it may have worked on the model's text."""
    at = next((node for node in material.nodes if node.span is answer.span), None)
    found = None
    while at is not None:
        step = at.step if at.role in WRAPPERS else None
        if step is not None and step.response and "response" not in step.unsure:
            found = step.response
        at = None if at is material.head else _above(at)
    return found


def _above(node: Node) -> Node | None:
    return node.parent
