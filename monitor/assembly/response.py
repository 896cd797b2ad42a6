"""What was answered in a turn, by which call, or how the turn failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.assembly.model_calls import Call, answering_call
from monitor.assembly.prompt_question import flat
from monitor.assembly.segment import Segment
from monitor.assembly.tree import WRAPPERS
from monitor.extract.failure import exception, failure, server_fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a turn ended."""

    response: str | None
    call: Call | None
    """The call that made the response."""
    error: str | None
    flags: frozenset[str] = frozenset()


def ending(segment: Segment, *, contents: Sequence[str]) -> Ending:
    """Return how a turn ended; `contents` are the texts of retrieved documents.

    What the root says wins. A turn whose root failed, or whose last call failed, has no response: earlier calls
    rewrote or chose tools.
    """
    root = segment.root
    response = root.response if root is not None and "response" not in root.unsure else None
    call = answering_call(
        segment.answering_calls,
        response=response,
        contents=contents,
        searched=[(step.retrieval_query or "", step.span.start_ns) for step in segment.searches],
    )
    error = _error(segment)
    if response is not None and error is not None and _is_fault(segment, response):
        response = None
    if response is not None:
        return Ending(response=response, call=call, error=error)
    last = segment.calls[-1] if segment.calls else None
    if error is None and last is not None and last.error is not None and not last.output:
        error = last.error
    if error is not None:
        return Ending(response=None, call=None, error=error)
    if call is not None:
        return Ending(response=_around(segment, call) or call.output, call=call, error=None)
    inner = next((s.response for s in segment.wrappers() if s.response and "response" not in s.unsure), None)
    response = inner or (root.response if root is not None else None)
    if response is None and root is not None and root.role in WRAPPERS and root.shapeless is not None:
        return Ending(response=root.shapeless, call=None, error=None, flags=frozenset({"unparsed_json"}))
    late = exception(segment.head.span) if response is None and segment.head.span is not None else None
    return Ending(response=response, call=None, error=late)


def retries(calls: Sequence[Call]) -> int:
    """Return how many calls failed and were made again with the same last message."""
    succeeded = {call.last_user: at for at, call in enumerate(calls) if call.output}
    return sum(
        1
        for at, call in enumerate(calls)
        if call.error is not None and not call.output and succeeded.get(call.last_user, -1) > at
    )


def _is_fault(segment: Segment, response: str) -> bool:
    """Whether the response of a failed turn is the message of what it failed of, as some agents show it."""
    text = flat(response)
    for span in segment.spans:
        messages = [span.status_message, *(str(e.attributes.get("exception.message", "")) for e in span.events)]
        if any(text in flat(message) for message in messages if message):
            return True
        name = exception(span)
        if name is not None and text.startswith(name):
            return True
    return False


def _error(segment: Segment) -> str | None:
    head = segment.head
    if head.span is None:
        return None
    own = head.step.error if head.step is not None else failure(head.span) or server_fault(head.span)
    if own is not None:
        return own
    return next((fault for span in segment.ancestors() if (fault := server_fault(span))), None)


def _around(segment: Segment, call: Call) -> str | None:
    """What the outermost chain around the answering call says: it may have worked on the model's text."""
    at = next((node for node in segment.nodes if node.span is call.span), None)
    response = None
    while at is not None:
        step = at.step if at.role in WRAPPERS else None
        if step is not None and step.response and "response" not in step.unsure:
            response = step.response
        at = None if at is segment.head else at.parent
    return response
