"""The model calls of a turn: nested descriptions of one call become one, and one of them answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from monitor.assembly.prompt_question import flat, occurs, shown
from monitor.assembly.tree import WRAPPERS, Node
from monitor.extract.speakers import with_speakers
from monitor.model.spans import Role, Span, Step
from monitor.model.turns import Message

_LOOKED_AT = 64
"""Calls, and documents, that are compared to find the call that was shown what had been retrieved."""

_LONGEST_VERDICT = 40
"""Characters of the longest word on an answer, such as `{"binary_score": "yes"}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a model, as its innermost span describes it, gaps filled from the spans that wrap it alone."""

    span: Span
    output: str | None
    messages: tuple[Message, ...] | None
    query: str | None
    tool_calls: int
    model: str | None
    request_model: str | None
    input_tokens: int | None
    output_tokens: int | None
    response_id: str | None
    error: str | None
    streaming: bool | None

    @property
    def last_user(self) -> str | None:
        """The last message of a user; "" when its content was lost, None when no user spoke."""
        return next((m.content for m in reversed(self.messages or ()) if m.role == "user"), None)


def calls(nodes: Sequence[Node]) -> tuple[Call, ...]:
    """Return the model calls among `nodes` (parents before children), by start.

    Instrumentation of a framework and of its client describe the same call one inside the other; tokens are
    counted once, on the inside.
    """
    around: dict[int, Node | None] = {}
    wrapped: Counter[int] = Counter()
    models = [node for node in nodes if node.role is Role.LLM]
    for node in nodes:
        parent = node.parent
        above = None if parent is None else parent if parent.role is Role.LLM else around.get(id(parent))
        around[id(node)] = above
        if node.role is Role.LLM and above is not None:
            wrapped[id(above)] += 1
    innermost = [(_call(node, around, wrapped), node) for node in models if not wrapped[id(node)]]
    innermost.sort(key=lambda pair: (pair[0].span.start_ns, pair[0].span.end_ns, pair[0].span.span_id))
    return tuple(_completed(innermost, around, wrapped))


def _completed(
    innermost: Sequence[tuple[Call, Node]], around: dict[int, Node | None], wrapped: Counter[int]
) -> Iterator[Call]:
    """Yield the calls; one that wraps several which count no tokens counts for them, with the last.

    Agents' SDKs describe a generation and its steps, and put model and tokens on only one of them.
    """
    over = {id(node): _over(node, around, wrapped) for _, node in innermost}
    last = {id(wrapper): call for call, node in innermost if (wrapper := over[id(node)]) is not None}
    counted = {id(over[id(node)]) for call, node in innermost if call.input_tokens is not None}
    for call, node in innermost:
        wrapper = over[id(node)]
        step = wrapper.step if wrapper is not None else None
        if step is None:
            yield call
            continue
        counts = last[id(wrapper)] is call and id(wrapper) not in counted
        yield replace(
            call,
            messages=call.messages or step.messages,
            model=call.model or step.model,
            request_model=call.request_model or step.request_model,
            input_tokens=step.input_tokens if counts else call.input_tokens,
            output_tokens=step.output_tokens if counts else call.output_tokens,
            streaming=step.streaming if call.streaming is None else call.streaming,
        )


def _over(node: Node, around: dict[int, Node | None], wrapped: Counter[int]) -> Node | None:
    """The innermost call that wraps this one and others."""
    above = around[id(node)]
    while above is not None and wrapped[id(above)] == 1:
        above = around.get(id(above))
    return above


def answering_call(
    calls: Sequence[Call], *, response: str | None, contents: Sequence[str], searched: Sequence[tuple[str, int]]
) -> Call | None:
    """Return the call whose text is the answer, None when none is.

    `response` is what the turn's root says it answered, `contents` the retrieved documents, `searched` the retrieval
    queries and when each retrieval began: a text that was searched for afterwards is a rewritten question.
    """
    last_search: dict[str, int] = {}
    for query, began in searched:
        last_search[flat(query)] = max(began, last_search.get(flat(query), began))
    able = [
        call
        for call in calls
        if call.output and not call.tool_calls and call.span.start_ns >= last_search.get(flat(call.output), 0)
    ]
    able = [call for at, call in enumerate(able) if not _judges(call, able[:at])]
    if not able:
        return None
    if response is not None:
        whole = flat(response)
        likely = (call for call in reversed(able) if (text := flat(call.output or "")) in whole or whole in text)
    else:
        latest = reversed(able[-_LOOKED_AT:])
        likely = (call for call in latest if call.messages and _saw(call.messages, contents[:_LOOKED_AT]))
    return next(likely, able[-1])


def _judges(call: Call, earlier: Sequence[Call]) -> bool:
    """Whether a call gave a short verdict on what an earlier one had said, which it was shown."""
    output = flat(call.output or "")
    if len(output) > _LONGEST_VERDICT or not call.messages:
        return False
    prompt = shown(call.messages)
    texts = (flat(other.output or "") for other in earlier[-_LOOKED_AT:])
    return any(len(text) > max(_LONGEST_VERDICT, len(output)) and text in prompt for text in texts)


def _saw(messages: Sequence[Message], contents: Sequence[str]) -> bool:
    prompt = shown(messages)
    return any(occurs(content, prompt) for content in contents)


def _call(node: Node, around: dict[int, Node | None], wrapped: Counter[int]) -> Call:
    chain = [node]
    above = around[id(node)]
    while above is not None and wrapped[id(above)] == 1:
        chain.append(above)
        above = around.get(id(above))
    steps = [link.step for link in chain if link.step is not None]
    span = steps[0].span
    return Call(
        span=span,
        output=next((s.output for s in steps if s.output), None),
        messages=_messages(node, steps),
        query=next((s.query for s in steps if s.query), None),
        tool_calls=next((s.tool_calls for s in steps if s.tool_calls), 0),
        model=next((s.model for s in steps if s.model), None),
        request_model=next((s.request_model for s in steps if s.request_model), None),
        input_tokens=next((s.input_tokens for s in steps if s.input_tokens is not None), None),
        output_tokens=next((s.output_tokens for s in steps if s.output_tokens is not None), None),
        response_id=next((s.response_id for s in steps if s.response_id), None),
        error=steps[0].error,
        streaming=next((s.streaming for s in steps if s.streaming is not None), None),
    )


def _messages(node: Node, steps: Sequence[Step]) -> tuple[Message, ...] | None:
    """The first messages of these steps; where they were logged without speakers, as the chain around them knows."""
    step = next((step for step in steps if step.messages), None)
    if step is None or step.messages is None or "speakers" not in step.unsure:
        return step.messages if step is not None else None
    above = node.parent
    while above is not None and above.role not in WRAPPERS:
        above = above.parent
    known = above.step.messages if above is not None and above.step is not None else None
    return with_speakers([message.content for message in step.messages], known) if known else step.messages
