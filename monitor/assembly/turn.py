"""One unit of spans becomes one turn: which span's word counts for which field. Source: dialects.md 4.3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice

from monitor.assembly.citations import cited, retrieved
from monitor.assembly.facets import facets
from monitor.assembly.model_calls import Call
from monitor.assembly.prompt_question import flat
from monitor.assembly.query import Asked, asked
from monitor.assembly.repair import with_sound_text
from monitor.assembly.response import Replied, replied, retries
from monitor.assembly.tree import WRAPPERS
from monitor.assembly.turn_spans import SEARCHES, Material
from monitor.extract import session_and_user
from monitor.extract.attributes import text
from monitor.model.spans import Attributes, Role, Span, Step, instant
from monitor.model.turns import Turn, turn_id

_TOLD = frozenset(("truncated", "redacted", "text_repaired", "metadata_unread", "span_missing", "generic"))
_TELLING = SEARCHES | WRAPPERS | {Role.LLM, Role.TOOL}
_LOOKED_AT = 8
"""Chains, from the end, that may have been handed the answering message."""
_EARLY_NS, _LATE_NS = 100_000_000, 1_000_000_000
"""A child that begins this long before its parent, or on another machine this long after its end, has another clock."""


def turn(material: Material, *, hash_user: Callable[[str], str]) -> Turn:
    """Return the turn of a unit; `hash_user` turns the user id that the app sent into the one that is kept."""
    documents = retrieved(material.nodes)
    contents = [citation.content for citation in documents or () if citation.content]
    reply = replied(material, contents=contents)
    asking = reply.answer or next((call for call in reversed(material.calls) if call.messages or call.query), None)
    ask = asked(material, asking=asking, contents=contents)
    flags = _flags(material, ask, reply)
    cites = cited(documents, asking.messages if asking else None, cut="truncated" in flags)
    told = _teller(material, reply)
    started, ended = _times(material, reply.answer)
    user = _owner(material, session_and_user.user, lambda step: step.user_id)
    model = _model(material, reply)
    return with_sound_text(
        Turn(
            turn_id=turn_id(told.trace_id, material.head.span_id),
            trace_id=told.trace_id,
            span_id=material.head.span_id,
            app=text(told.resource, "service.name") or "unknown_service",
            environment=_environment(told),
            release=text(told.resource, "service.version") or "",
            session_id=_owner(material, session_and_user.session, lambda step: step.session_id),
            user_id=None if user is None else hash_user(user),
            query=ask.query,
            history=ask.history,
            retrieval_queries=tuple(dict.fromkeys(step.retrieval_query or "" for step in material.searches)),
            citations=cites.citations,
            response=reply.response,
            model=model,
            input_tokens=_total(call.input_tokens for call in material.calls),
            output_tokens=_total(call.output_tokens for call in material.calls),
            error=reply.error,
            streaming=_streaming(material, reply.answer),
            started_at=started,
            ended_at=ended,
            dialect=next((step.dialect for step in material.steps if step.role in _TELLING), ""),
            facets=facets(
                material,
                reply.answer,
                model=model,
                query=ask.query,
                response=reply.response,
                citations=cites.citations or (),
            ),
            flags=flags | cites.flags,
        )
    )


def _teller(material: Material, reply: Replied) -> Span:
    """The span whose resource names the app: the root, unless it is a request that anybody may have sent on."""
    if material.root is not None and material.root.role in _TELLING:
        return material.root.span
    if reply.answer is not None:
        return reply.answer.span
    return next((step.span for step in material.steps if step.role in _TELLING), material.spans[0])


def _environment(span: Span) -> str:
    keys = ("deployment.environment.name", "deployment.environment")
    return text(span.resource, *keys) or text(span.attributes, *keys) or ""


def _owner(
    material: Material, read: Callable[[Attributes], str | None], told: Callable[[Step], str | None]
) -> str | None:
    """The root's word, else what most spans say (the earliest of equals), were given or logged, else those above."""
    head = material.head.span
    own = read(head.attributes) if head is not None else None
    if own is not None:
        return own
    said = Counter(value for span in material.spans if (value := read(span.attributes)) is not None)
    if said:
        return said.most_common(1)[0][0]
    inside = next((value for step in _first_steps(material) if (value := told(step)) is not None), None)
    if inside is None:
        logged = (event.attributes for span in material.spans for event in span.events if event.is_log)
        inside = next((value for attributes in logged if (value := read(attributes)) is not None), None)
    if inside is not None:
        return inside
    above = next((value for span in material.ancestors() if (value := read(span.attributes)) is not None), None)
    return above or next((value for span in material.spans[:1] if (value := read(span.resource)) is not None), None)


def _first_steps(material: Material) -> Iterator[Step]:
    yield from islice(material.wrappers(), _LOOKED_AT)
    yield from material.steps


def _model(material: Material, reply: Replied) -> str | None:
    """The model that made the answer, else one that was at work in the turn, else the one that was asked for.

    Of a streamed answer some instrumentations repeat the model that was asked for; the chains around may know better.
    """
    answer = reply.answer
    if answer is None:
        return _noted(material, reply.response) or _any_model(material)
    if answer.model is not None and answer.model != answer.request_model:
        return answer.model
    return _noted(material, answer.output) or answer.model or answer.request_model or _any_model(material)


def _noted(material: Material, answered: str | None) -> str | None:
    if answered is None:
        return None
    output = flat(answered)
    late = (node for node in reversed(material.nodes) if node.role in WRAPPERS)
    steps = (step for node in islice(late, _LOOKED_AT) if (step := node.step) is not None)
    return next((s.model for s in steps if s.model and s.response and flat(s.response) == output), None)


def _any_model(material: Material) -> str | None:
    # Some emitters give the requested model as the one that answered when the call failed.
    latest_first = material.calls[::-1]
    backwards = sorted(latest_first, key=lambda call: call.error is not None)
    named = next((call.model for call in backwards if call.model), None)
    if named is None:
        named = next((step.model for step in reversed(tuple(material.wrappers())) if step.model), None)
    requested = [call.request_model for call in backwards] + [step.request_model for step in material.wrappers()]
    return named or next((model for model in requested if model), None)


def _total(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _streaming(material: Material, answer: Call | None) -> bool | None:
    said = [material.root.streaming if material.root else None, answer.streaming if answer else None]
    said += [call.streaming for call in material.calls]
    known = [value for value in said if value is not None]
    return any(known) if known else None


def _times(material: Material, answer: Call | None) -> tuple[datetime, datetime]:
    """From the root's start to its end, or to the end of an answer that was still being streamed by then.

    Without a root, or with one whose times had to be repaired, the other spans tell.
    """
    head = material.head.span
    if head is not None and "time_repaired" not in head.flags:
        late = answer is not None and head.end_ns < answer.span.end_ns and head.start_ns <= answer.span.start_ns
        end = answer.span.end_ns if answer is not None and late and not _skewed(material) else head.end_ns
        return instant(head.start_ns), instant(max(head.start_ns, end))
    sound = [span for span in material.spans if "time_repaired" not in span.flags] or material.spans
    start = min(span.start_ns for span in sound)
    return instant(start), instant(max(start, *(span.end_ns for span in sound)))


def _skewed(material: Material) -> bool:
    for node in material.nodes:
        span, above = node.span, node.parent.span if node.parent else None
        if span is None or above is None or {"time_repaired"} & (span.flags | above.flags):
            continue
        elsewhere = span.resource != above.resource
        if span.start_ns < above.start_ns - _EARLY_NS or (elsewhere and span.start_ns > above.end_ns + _LATE_NS):
            return True
    return False


def _flags(material: Material, ask: Asked, reply: Replied) -> frozenset[str]:
    head, roles = material.head, {node.role for node in material.nodes}
    flags = set(ask.flags | reply.flags)
    for step in material.steps:
        if step.role in _TELLING:
            flags |= step.flags & _TOLD
    if head.span is None or (head.role not in WRAPPERS and head.parent is not None and head.parent.span is None):
        flags.add("root_missing")
    if (head.span is None and any("time_repaired" in s.flags for s in material.spans)) or (
        head.span is not None and "time_repaired" in head.span.flags
    ):
        flags.add("time_repaired")
    if _skewed(material):
        flags.add("clock_skew")
    if roles & SEARCHES and Role.LLM not in roles and reply.response is None:
        flags.add("retrieval_only")
    elif reply.response is None and reply.error is None:
        flags.add("incomplete" if "root_missing" in flags else "no_content")
    if len(material.calls) == 1 and not roles & (WRAPPERS | SEARCHES):
        flags.add("single_call")
    again = retries(material.calls)
    if again:
        flags.add(f"retries={again}")
    return frozenset(flags)
