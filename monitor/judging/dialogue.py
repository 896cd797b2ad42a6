"""One conversation with a judge about a turn: ask, and where the reply is no verdict ask again in a way that may help.

An unreadable reply is asked for again with what was wrong about it; a cut-off one with three times the room; a prompt
too long for the model with half of the documents' text, whether the endpoint says so or silently cuts it. Each happens
once, so it takes at most `MOST_CALLS` calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import MappingProxyType

from monitor.errors import Rejected, UnreadableReply
from monitor.judging import injection
from monitor.judging.claim_metric import ClaimMetric, Question
from monitor.judging.concurrently import concurrently
from monitor.judging.prompt.quoting import CONTEXT_TRUNCATED, fit, tokens
from monitor.model.judgements import ChatMessage, ChatRequest, Exchange, Finding, Reason, Reply
from monitor.model.turns import Turn
from monitor.ports import Judge, Metric

MOST_CALLS = 4
"""First try, shorter prompt, repair, more room."""

TOKENS_ESTIMATED = "tokens_estimated"
"""Flag: the endpoint did not report its usage; tokens and cost are estimated from the texts."""

REPAIR = "Your output to this was not what was asked for"
"""How the note begins that asks for a reply again."""

_MORE_ROOM = 3
"""Times the output tokens: enough for forty sentences with their evidence."""

_QUESTIONS_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of it."""

    result: Finding | Reason
    detail: str = ""
    """Why there is no finding, free of user text."""
    exchange: Exchange
    severities: Mapping[str, int] = field(default_factory=dict)
    """What the endpoint's own content filter found when it withheld the verdict, by risk, 0 to 7."""


async def converse(metrics: Sequence[Metric], turn: Turn, judge: Judge) -> tuple[Answer, ...]:
    """Return for each metric the finding on `turn`, or the reason why this judge gives none.

    The metrics are of one `call`: what they cost together is divided among them.

    Raises:
        Retryable: the endpoint could not answer now; RateLimited, TimedOut, Paused and Unusable among them.
    """
    lead = metrics[0]
    if isinstance(lead, ClaimMetric):
        return (await verify(lead, turn, judge),)
    messages = lead.messages(turn)
    if not messages:
        return _answers([metric.read(turn, None) for metric in metrics], (), ())
    shown = _fitted(turn, messages, judge.max_prompt_tokens)
    if shown is not turn:
        messages = lead.messages(shown)
    request = ChatRequest(messages=messages, schema=lead.schema, max_output_tokens=lead.max_output_tokens)
    replies: list[Reply] = []
    readings = _Readings(metrics)
    repaired = halved = False
    while True:
        try:
            reply = await judge.ask(request)
            replies.append(reply)
            if reply.prompt_cut:
                raise _cut(judge)
        except Rejected as error:
            if error.reason == "context_length" and not halved and (shorter := _halved(shown, messages)):
                halved = True
                shown, request = shorter, replace(request, messages=lead.messages(shorter))
                continue
            readings.give_up(_reason(error), str(error))
            return _answers(readings.results, messages, replies, details=readings.details, severities=error.severities)
        readings.read(shown, reply)
        if readings.problems and not repaired:
            repaired = True
            request = replace(request, messages=_repair(request.messages, readings.problems, form=_form(lead)))
            continue
        if Reason.TRUNCATED in readings.results and request.max_output_tokens == lead.max_output_tokens:
            request = replace(request, max_output_tokens=_MORE_ROOM * lead.max_output_tokens)
            continue
        flags = injection.flags(turn) | _flags_of(replies) | ({CONTEXT_TRUNCATED} if shown is not turn else set())
        return _answers(
            [_marked(result, flags) for result in readings.results],
            request.messages if halved else messages,
            replies,
            details=readings.details,
            severities=reply.severities if Reason.CONTENT_FILTER in readings.results else {},
        )


async def verify(metric: ClaimMetric, turn: Turn, judge: Judge) -> Answer:
    """Return the finding of a metric that asks claim by claim, some at a time.

    Raises:
        Retryable: a question could not be answered now; then the others count for nothing.
    """
    questions = metric.questions(turn)

    async def ask(question: Question) -> Reply | Rejected:
        try:
            return await judge.ask(
                ChatRequest(messages=question.messages, max_output_tokens=metric.max_output_tokens, alternatives=True)
            )
        except Rejected as error:
            return error

    outcomes = await concurrently(map(ask, questions), at_once=_QUESTIONS_AT_ONCE)
    replies = [outcome for outcome in outcomes if isinstance(outcome, Reply)]
    rejected = next((outcome for outcome in outcomes if isinstance(outcome, Rejected)), None)
    if rejected is None and any(reply.prompt_cut for reply in replies):
        rejected = _cut(judge)
    result, detail = _concluded(metric, questions, replies, rejected)
    messages = [message for question in questions for message in question.messages]
    (answer,) = _answers(
        [_marked(result, injection.flags(turn) | _flags_of(replies))],
        messages,
        replies,
        details=[detail],
        severities=rejected.severities if rejected else {},
    )
    texts = "\n".join(reply.text.strip() for reply in replies)
    return replace(answer, exchange=replace(answer.exchange, reply=texts))


def _concluded(
    metric: ClaimMetric, questions: Sequence[Question], replies: Sequence[Reply], rejected: Rejected | None
) -> tuple[Finding | Reason, str]:
    """Return the finding over all questions, or why there is none and its detail."""
    if rejected:
        return _reason(rejected), str(rejected)
    try:
        return metric.conclude(questions, [metric.support(reply) for reply in replies]), ""
    except UnreadableReply as error:
        return Reason.UNREADABLE, f"{error.reason}: {error}"


def _reason(error: Rejected) -> Reason:
    return Reason.CONTENT_FILTER if error.reason == "content_filter" else Reason.REJECTED


class _Readings:
    """What has been read for each metric so far: a finding stays, whatever later replies say."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics
        self.results: list[Finding | Reason] = [Reason.UNREADABLE] * len(metrics)
        self.details = [""] * len(metrics)
        self._unread: list[str] = []

    @property
    def problems(self) -> str:
        """What was wrong with the last reply, in words for the judge; "" when nothing was."""
        return "; ".join(dict.fromkeys(self._unread))

    def read(self, turn: Turn, reply: Reply) -> None:
        """Read the metrics that have no finding yet."""
        self._unread = []
        for place, metric in enumerate(self._metrics):
            if isinstance(self.results[place], Finding):
                continue
            try:
                self.results[place], self.details[place] = metric.read(turn, reply), ""
            except UnreadableReply as error:
                self.results[place], self.details[place] = Reason.UNREADABLE, f"{error.reason}: {error}"
                self._unread.append(str(error))

    def give_up(self, reason: Reason, detail: str) -> None:
        """Leave the metrics that have no finding yet with `reason`."""
        for place, result in enumerate(self.results):
            if not isinstance(result, Finding):
                self.results[place], self.details[place] = reason, detail


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


def _cut(judge: Judge) -> Rejected:
    return Rejected(f"{judge.name} cut the prompt without saying so", reason="context_length")


def _fitted(turn: Turn, messages: Sequence[ChatMessage], limit: int | None) -> Turn:
    """Return the turn with as much less of the documents' text as `messages` are longer than `limit` tokens."""
    excess = sum(tokens(message.content) for message in messages) - limit if limit is not None else 0
    if excess <= 0:
        return turn
    return _with_documents(turn, max(_shown_tokens(turn, messages) - excess, 0)) or turn


def _halved(turn: Turn, messages: Sequence[ChatMessage]) -> Turn | None:
    """Return the turn with half of the documents' text that `messages` showed, or None when it showed none."""
    return _with_documents(turn, _shown_tokens(turn, messages) // 2)


def _shown_tokens(turn: Turn, messages: Sequence[ChatMessage]) -> int:
    documents = sum(tokens(citation.content or "") for citation in turn.citations or ())
    return min(documents, tokens(messages[-1].content))


def _with_documents(turn: Turn, budget: int) -> Turn | None:
    """Return the turn with its documents cut to `budget` tokens together, or None when they are no longer than that.

    The answer is never cut: a verdict on half an answer would be no verdict on the turn.
    """
    citations = turn.citations or ()
    whole = tuple(citation.content or "" for citation in citations)
    fitted = fit(whole, budget)
    if fitted == whole:
        return None
    return replace(turn, citations=tuple(replace(c, content=text) for c, text in zip(citations, fitted, strict=True)))


def _flags_of(replies: Sequence[Reply]) -> frozenset[str]:
    return frozenset({TOKENS_ESTIMATED} if any(reply.tokens_estimated for reply in replies) else ())


def _form(metric: Metric) -> str:
    if metric.schema is None:
        return "Answer again, in the form asked for"
    return "Return only the JSON object, complete, and repeat nothing of the quoted data"


def _marked(result: Finding | Reason, flags: frozenset[str]) -> Finding | Reason:
    return replace(result, flags=result.flags | flags) if flags and isinstance(result, Finding) else result


def _repair(messages: Sequence[ChatMessage], problem: str, *, form: str) -> tuple[ChatMessage, ...]:
    """Return `messages` with what was wrong about the output below the last one, whose role some models insist on.

    The output itself is not shown again: it may repeat what the judged text told it to say.
    """
    note = f"{REPAIR}: {problem}. {form}."
    last = messages[-1]
    return (*messages[:-1], replace(last, content=f"{last.content}\n\n{note}"))


def _answers(
    results: Sequence[Finding | Reason],
    messages: Sequence[ChatMessage],
    replies: Sequence[Reply],
    *,
    details: Sequence[str] = (),
    severities: Mapping[str, int] = MappingProxyType({}),
) -> tuple[Answer, ...]:
    last = replies[-1] if replies else None
    whole = Exchange(
        judge_model=last.model if last else "",
        prompt="\n\n".join(f"[{message.role}]\n{message.content}" for message in messages),
        reply=(last.text or last.refusal or "") if last else "",
        calls=len(replies),
        input_tokens=sum(reply.input_tokens for reply in replies),
        output_tokens=sum(reply.output_tokens for reply in replies),
        cost_usd=sum(reply.cost_usd for reply in replies),
        latency=sum((reply.latency for reply in replies), timedelta(0)),
        fingerprint=last.fingerprint if last else None,
    )
    shares = divided(whole, len(results))
    return tuple(
        Answer(result=result, detail=detail, exchange=share, severities=severities)
        for result, detail, share in zip(results, details or [""] * len(results), shares, strict=True)
    )


def divided(exchange: Exchange, parts: int) -> tuple[Exchange, ...]:
    """Return what one conversation cost in as many parts as metrics were read out of it, which add up to the whole.

    >>> [part.input_tokens for part in divided(Exchange(calls=1, input_tokens=100), 3)]
    [34, 33, 33]
    """
    return tuple(
        replace(
            exchange,
            calls=_part(exchange.calls, parts, place),
            input_tokens=_part(exchange.input_tokens, parts, place),
            output_tokens=_part(exchange.output_tokens, parts, place),
            cost_usd=exchange.cost_usd / parts,
        )
        for place in range(parts)
    )


def _part(amount: int, parts: int, place: int) -> int:
    return amount // parts + (place < amount % parts)
