"""One job's conversation with a judge: ask, and where the reply is no verdict ask once more in the way that may help.

An unreadable reply is asked for again with what was wrong about it; a cut-off one with twice the room; a prompt too
long for the model with half of the documents' text. Each happens once, so a job costs at most `MOST_CALLS` calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from monitor.errors import Rejected, UnreadableReply
from monitor.judging.quoting import CONTEXT_TRUNCATED, clean, fit, tokens
from monitor.model import ChatMessage, Exchange, Finding, Reason, Reply, Turn
from monitor.ports import Judge, Metric

MOST_CALLS = 4
"""First try, shorter prompt, repair, more room."""

_LONGEST_QUOTE = 8000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of it."""

    result: Finding | Reason
    detail: str = ""
    """Why there is no finding, free of user text."""
    exchange: Exchange
    severities: Mapping[str, int] = field(default_factory=dict)
    """What the endpoint's own content filter found when it withheld the verdict, by risk, 0 to 7."""


async def converse(metric: Metric, turn: Turn, judge: Judge) -> Answer:
    """Return the finding on `turn`, or the reason why this judge gives none.

    Raises:
        Retryable: the endpoint could not answer now; RateLimited, TimedOut, Paused and Unusable among them.
    """
    messages = metric.messages(turn)
    if not messages:
        return _answer(metric.read(turn, None), (), ())
    replies: list[Reply] = []
    budget = metric.max_output_tokens
    seen, asked = turn, messages
    repaired = False
    while True:
        try:
            reply = await judge.ask(asked, metric.schema, max_output_tokens=budget)
        except Rejected as error:
            if error.reason == "context_length" and seen is turn and (shorter := _shortened(turn, messages)):
                seen, asked = shorter, metric.messages(shorter)
                continue
            reason = Reason.CONTENT_FILTER if error.reason == "content_filter" else Reason.REJECTED
            return replace(_answer(reason, messages, replies, detail=str(error)), severities=error.severities)
        replies.append(reply)
        try:
            result = metric.read(seen, reply)
        except UnreadableReply as error:
            if repaired:
                return _answer(Reason.UNREADABLE, messages, replies, detail=f"{error.reason}: {error}")
            repaired, asked = True, _repair(asked, reply.text, str(error))
            continue
        if result is Reason.TRUNCATED and budget == metric.max_output_tokens:
            budget *= 2
            continue
        if isinstance(result, Finding) and seen is not turn:
            result = replace(result, flags=result.flags | {CONTEXT_TRUNCATED})
        answer = _answer(result, asked if seen is not turn else messages, replies)
        return replace(answer, severities=reply.severities) if result is Reason.CONTENT_FILTER else answer


def joined(kept: Answer, *answers: Answer) -> Answer:
    """Return `kept` with what all `answers` together cost."""
    exchanges = [answer.exchange for answer in answers]
    return replace(
        kept,
        exchange=replace(
            kept.exchange,
            calls=sum(exchange.calls for exchange in exchanges),
            input_tokens=sum(exchange.input_tokens for exchange in exchanges),
            output_tokens=sum(exchange.output_tokens for exchange in exchanges),
            cost_usd=sum(exchange.cost_usd for exchange in exchanges),
            latency=sum((exchange.latency for exchange in exchanges), timedelta(0)),
        ),
    )


def _shortened(turn: Turn, messages: Sequence[ChatMessage]) -> Turn | None:
    """Return the turn with half of the documents' text that `messages` showed, or None when it showed none.

    The answer is never cut: a verdict on half an answer would be no verdict on the turn.
    """
    citations = turn.citations or ()
    whole = [citation.content or "" for citation in citations]
    shown = min(sum(map(tokens, whole)), tokens(messages[-1].content))
    fitted = fit(whole, shown // 2)
    if fitted == tuple(whole):
        return None
    return replace(turn, citations=tuple(replace(c, content=text) for c, text in zip(citations, fitted, strict=True)))


def _repair(messages: Sequence[ChatMessage], output: str, problem: str) -> tuple[ChatMessage, ...]:
    """Return `messages` with what was wrong about `output` below the last one, whose role some models insist on."""
    mark = hashlib.sha256(output.encode("utf-8", "replace")).hexdigest()[:12]
    note = f"Your output to this was not what was asked for: {problem}. Return only the JSON object, complete."
    if output.strip():
        quoted = clean(output, mark)[:_LONGEST_QUOTE]
        note = f"{note}\nYour output, as data between two marks:\n{mark}\n{quoted}\n{mark}"
    last = messages[-1]
    return (*messages[:-1], replace(last, content=f"{last.content}\n\n{note}"))


def _answer(
    result: Finding | Reason, messages: Sequence[ChatMessage], replies: Sequence[Reply], *, detail: str = ""
) -> Answer:
    last = replies[-1] if replies else None
    return Answer(
        result=result,
        detail=detail,
        exchange=Exchange(
            judge_model=last.model if last else "",
            prompt="\n\n".join(f"[{message.role}]\n{message.content}" for message in messages),
            reply=(last.text or last.refusal or "") if last else "",
            calls=len(replies),
            input_tokens=sum(reply.input_tokens for reply in replies),
            output_tokens=sum(reply.output_tokens for reply in replies),
            cost_usd=sum(reply.cost_usd for reply in replies),
            latency=sum((reply.latency for reply in replies), timedelta(0)),
            fingerprint=last.fingerprint if last else None,
        ),
    )
