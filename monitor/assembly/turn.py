"""A segment of a trace becomes a turn: which span's word counts for which field."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from itertools import islice

from monitor.assembly.citations import retrieved_documents, turn_citations
from monitor.assembly.facets import facets
from monitor.assembly.model_calls import Call
from monitor.assembly.prompt_question import flat
from monitor.assembly.query import Opening, opening
from monitor.assembly.repair import TOKENS_UNREADABLE, with_sound_text
from monitor.assembly.response import Ending, ending, retries
from monitor.assembly.segment import SEARCHES, Segment
from monitor.assembly.tree import WRAPPERS
from monitor.extract import session_and_user
from monitor.extract.attributes import text
from monitor.model.spans import Attributes, Role, Span, Step, instant
from monitor.model.turns import Turn, turn_id

_KEPT_FLAGS = frozenset(
    ("truncated", "redacted", "text_repaired", "metadata_unread", "span_missing", "generic", TOKENS_UNREADABLE)
)
_SPEAKING = SEARCHES | WRAPPERS | {Role.LLM, Role.TOOL}
_OUTPUT = re.compile(r"(?:^|[._])(?:output|response|answer|completion)(?:[._](?:value|text|content))?$", re.IGNORECASE)
_LOOKED_AT = 8
"""Chains, from the end, that may have been handed the answering message."""
_EARLY_NS, _LATE_NS = 100_000_000, 1_000_000_000
"""A child that begins this long before its parent, or on another machine this long after its end, has another clock."""
_PRODUCER, _CONSUMER = 4, 5
"""Kinds of spans on the two sides of a queue, in which a message may wait."""


def turn_of(segment: Segment) -> Turn:
    """Return the turn that a segment is."""
    rules = segment.rules
    documents = retrieved_documents(segment.nodes)
    contents = [citation.content for citation in documents or () if citation.content]
    end = ending(segment, contents=contents)
    prompt_call, asking_call = _prompts(segment, end)
    start = opening(segment, prompt_call=asking_call, contents=contents)
    flags = _flags(segment, start, end)
    messages = prompt_call.messages if prompt_call else None
    cited = turn_citations(documents, messages, rules.prompt_patterns, may_be_cut="truncated" in flags)
    source = _source(segment, end)
    started, ended = _times(segment, end.call)
    user = _owner(segment, session_and_user.user, lambda step: step.user_id)
    model = _model(segment, end)
    return with_sound_text(
        Turn(
            turn_id=turn_id(source.trace_id, segment.head.span_id),
            trace_id=source.trace_id,
            span_id=segment.head.span_id,
            app=text(source.resource, "service.name") or "unknown_service",
            environment=_environment(source),
            release=text(source.resource, "service.version") or "",
            session_id=_owner(segment, session_and_user.session, lambda step: step.session_id),
            user_id=None if user is None else rules.hash_user(user),
            query=start.query,
            history=start.history,
            retrieval_queries=tuple(dict.fromkeys(step.retrieval_query or "" for step in segment.searches)),
            citations=cited.citations,
            response=end.response,
            model=model,
            input_tokens=_total(call.input_tokens for call in segment.calls),
            output_tokens=_total(call.output_tokens for call in segment.calls),
            error=end.error,
            streaming=_streaming(segment, end.call),
            started_at=started,
            ended_at=ended,
            dialect=next((step.dialect for step in segment.steps if step.role in _SPEAKING), ""),
            facets=facets(
                segment,
                end.call,
                model=model,
                query=start.query,
                response=end.response,
                citations=cited.citations or (),
            ),
            flags=flags | cited.flags,
        )
    )


def _prompts(segment: Segment, end: Ending) -> tuple[Call | None, Call | None]:
    """The call whose prompt shows the documents, and the one whose prompt holds the question as it was asked."""
    asking = segment.asking_calls
    last = next((call for call in reversed(asking) if call.messages or call.query), None)
    call = end.call or last
    return call, call if call in asking else last


def _source(segment: Segment, end: Ending) -> Span:
    """The span whose resource names the app: the root, unless it is a request that anybody may have sent on."""
    if segment.root is not None and segment.root.role in _SPEAKING:
        return segment.root.span
    if end.call is not None:
        return end.call.span
    return next((step.span for step in segment.steps if step.role in _SPEAKING), segment.spans[0])


def _environment(span: Span) -> str:
    keys = ("deployment.environment.name", "deployment.environment")
    return text(span.resource, *keys) or text(span.attributes, *keys) or ""


def _owner(
    segment: Segment, read: Callable[[Attributes], str | None], read_step: Callable[[Step], str | None]
) -> str | None:
    """The root's word, else what most spans say (the earliest of equals), were given or logged, else those above."""
    head = segment.head.span
    own = read(head.attributes) if head is not None else None
    if own is not None:
        return own
    counts = Counter(value for span in segment.spans if (value := read(span.attributes)) is not None)
    if counts:
        return counts.most_common(1)[0][0]
    inside = next((value for step in _first_steps(segment) if (value := read_step(step)) is not None), None)
    if inside is None:
        logged = (event.attributes for span in segment.spans for event in span.events if event.is_log)
        inside = next((value for attributes in logged if (value := read(attributes)) is not None), None)
    if inside is not None:
        return inside
    above = next((value for span in segment.ancestors() if (value := read(span.attributes)) is not None), None)
    return above or next((value for span in segment.spans[:1] if (value := read(span.resource)) is not None), None)


def _first_steps(segment: Segment) -> Iterator[Step]:
    yield from islice(segment.wrappers(), _LOOKED_AT)
    yield from segment.steps


def _model(segment: Segment, end: Ending) -> str | None:
    """The model that made the answer, else one that was at work in the turn, else the one that was asked for.

    Of a streamed answer some instrumentations repeat the model that was asked for; the chains around may know better.
    """
    call = end.call
    if call is None:
        return _model_of_chains(segment, end.response) or _any_model(segment)
    if call.model is not None and call.model != call.request_model:
        return call.model
    return _model_of_chains(segment, call.output) or call.model or call.request_model or _any_model(segment)


def _model_of_chains(segment: Segment, response: str | None) -> str | None:
    """The model of the last chain that was answered so."""
    if response is None:
        return None
    output = flat(response)
    late = (node for node in reversed(segment.nodes) if node.role in WRAPPERS)
    steps = (step for node in islice(late, _LOOKED_AT) if (step := node.step) is not None)
    return next((s.model for s in steps if s.model and s.response and flat(s.response) == output), None)


def _any_model(segment: Segment) -> str | None:
    # Some emitters give the requested model as the one that answered when the call failed.
    latest_first = segment.calls[::-1]
    backwards = sorted(latest_first, key=lambda call: call.error is not None)
    model = next((call.model for call in backwards if call.model), None)
    if model is None:
        model = next((step.model for step in reversed(tuple(segment.wrappers())) if step.model), None)
    requested = [call.request_model for call in backwards] + [step.request_model for step in segment.wrappers()]
    return model or next((name for name in requested if name), None)


def _total(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _streaming(segment: Segment, answer: Call | None) -> bool | None:
    steps = (segment.root, answer, *segment.calls)
    known = [step.streaming for step in steps if step is not None and step.streaming is not None]
    return any(known) if known else None


def _times(segment: Segment, answer: Call | None) -> tuple[datetime, datetime]:
    """From the root's start to its end, or to the end of an answer that was still being streamed by then.

    Without a root, or with one whose times had to be repaired, the other spans tell.
    """
    head = segment.head.span
    if head is not None and "time_repaired" not in head.flags:
        late = answer is not None and head.end_ns < answer.span.end_ns and head.start_ns <= answer.span.start_ns
        end = answer.span.end_ns if answer is not None and late and not _skewed(segment) else head.end_ns
        return instant(head.start_ns), instant(max(head.start_ns, end))
    sound = [span for span in segment.spans if "time_repaired" not in span.flags] or segment.spans
    start = min(span.start_ns for span in sound)
    return instant(start), instant(max(start, *(span.end_ns for span in sound)))


def _skewed(segment: Segment) -> bool:
    for node in segment.nodes:
        span, above = node.span, node.parent.span if node.parent else None
        if span is None or above is None or {"time_repaired"} & (span.flags | above.flags):
            continue
        elsewhere = span.resource != above.resource and not (span.kind == _CONSUMER or above.kind == _PRODUCER)
        if span.start_ns < above.start_ns - _EARLY_NS or (elsewhere and span.start_ns > above.end_ns + _LATE_NS):
            return True
    return False


def _missing(segment: Segment, end: Ending, roles: Collection[Role | None]) -> str | None:
    """Why a turn has no response; None for one that failed."""
    if end.error is None and _answers_nothing(segment):
        return "no_response"
    if SEARCHES.intersection(roles) and Role.LLM not in roles:
        return "retrieval_only"
    return "no_content" if end.error is None else None


def _answers_nothing(segment: Segment) -> bool:
    """Whether the chain around the turn has an output, and that is blank."""
    head = segment.head
    return (
        head.span is not None
        and head.role in WRAPPERS
        and any(
            isinstance(value, str) and not value.strip() and _OUTPUT.search(key)
            for key, value in head.span.attributes.items()
        )
    )


def _flags(segment: Segment, start: Opening, end: Ending) -> frozenset[str]:
    head, roles = segment.head, {node.role for node in segment.nodes}
    flags = set(start.flags | end.flags)
    for step in segment.steps:
        if step.role in _SPEAKING:
            flags |= step.flags & _KEPT_FLAGS
    if head.span is None or (head.role not in WRAPPERS and head.parent is not None and head.parent.span is None):
        flags.add("root_missing")
    if (head.span is None and any("time_repaired" in s.flags for s in segment.spans)) or (
        head.span is not None and "time_repaired" in head.span.flags
    ):
        flags.add("time_repaired")
    if _skewed(segment):
        flags.add("clock_skew")
    if end.response is None and (missing := _missing(segment, end, roles)):
        flags.add("incomplete" if missing == "no_content" and "root_missing" in flags else missing)
    if len(segment.calls) == 1 and not roles & (WRAPPERS | SEARCHES):
        flags.add("single_call")
    retried = retries(segment.calls)
    if retried:
        flags.add(f"retries={retried}")
    return frozenset(flags)
