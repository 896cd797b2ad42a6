"""What was asked in a turn, and what had been said before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from monitor.assembly.model_calls import Call
from monitor.assembly.prompt_question import Question, flat, question, unwrapped
from monitor.assembly.segment import Segment
from monitor.model.spans import Role, Step
from monitor.model.turns import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A turn's query and history; `flags` say where an uncertain query comes from."""

    query: str | None
    history: tuple[Message, ...]
    flags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sources:
    """Where query and history may stand."""

    segment: Segment
    call: Call | None
    """The one whose prompt is looked into."""
    contents: Sequence[str]

    def question(self, message: str, searched: Sequence[str] = ()) -> Question | None:
        """Return what a message of a user asks, None when nothing is left of it."""
        return question(message, self.segment.rules.prompt_patterns, contents=self.contents, searched=searched)


def opening(segment: Segment, *, prompt_call: Call | None, contents: Sequence[str]) -> Opening:
    """Return the query and history of a turn.

    `prompt_call` is the call whose prompt is looked into: the one that answered, else the last. `contents` are the
    texts of retrieved documents, which a prompt holds beside the question.
    """
    sources = _Sources(segment=segment, call=prompt_call, contents=contents)
    query, flags = _query(sources)
    if query is not None and "input_truncated" in flags:
        query = _untruncated(query, sources)
    return Opening(query=query, history=_history(sources, query), flags=flags)


def _query(sources: _Sources) -> tuple[str | None, frozenset[str]]:
    segment, call = sources.segment, sources.call
    for step in segment.wrappers():
        if step.query is not None and "query" not in step.unsure:
            return _query_of_chain(step, sources)
    if call is not None and call.query:
        return call.query, frozenset()
    in_prompt = _query_in_prompt(sources)
    if in_prompt is not None:
        return in_prompt
    for step in segment.wrappers():
        if step.query is not None:
            return step.query, step.flags & {"input_truncated"}
    embeddings = (step for step in segment.steps if step.role is Role.EMBEDDING)
    tools = (step for step in segment.steps if step.role is Role.TOOL and step.documents is not None)
    for steps in (segment.searches, embeddings, tools):
        searched = next((step.retrieval_query for step in steps if step.retrieval_query), None)
        if searched is not None:
            return searched, frozenset({"query_from_retrieval"})
    return None, frozenset()


def _query_of_chain(step: Step, sources: _Sources) -> tuple[str, frozenset[str]]:
    """A chain's query; where the app handed it the very prompt that the model got, the question in that."""
    query, call = step.query or "", sources.call
    if call is not None and call.last_user and flat(call.last_user) == flat(query):
        in_message = sources.question(call.last_user, _searched(sources))
        if in_message is not None and in_message.is_part:
            return in_message.text, frozenset({"query_from_prompt"})
    if call is not None and _is_transcript(query, call.messages or ()):
        query = call.last_user or query
    return query, step.flags & {"input_truncated"}


def _is_transcript(text: str, messages: Sequence[Message]) -> bool:
    """Whether a text is all that was said so far and the question, as the model got them one by one."""
    spoken = [flat(m.content) for m in messages if m.role in {"user", "assistant"} and m.content]
    last = max((at for at, m in enumerate(messages) if m.role == "user" and m.content), default=-1)
    count = sum(1 for m in messages[: last + 1] if m.role in {"user", "assistant"} and m.content)
    return count > 1 and flat(text) == " ".join(spoken[:count])


def _query_in_prompt(sources: _Sources) -> tuple[str, frozenset[str]] | None:
    """The question in the last message of a user; where that is a rewritten one, the question it was rewritten from."""
    segment, call = sources.segment, sources.call
    if call is None or not call.last_user:
        return None
    in_message = sources.question(call.last_user, _searched(sources))
    if in_message is None:
        return None
    for other in segment.calls:
        if other is not call and other.output and other.last_user and flat(other.output) == flat(in_message.text):
            in_message = sources.question(other.last_user) or in_message
            break
    return in_message.text, frozenset({"query_from_prompt"}) if in_message.is_part else frozenset()


def _searched(sources: _Sources) -> list[str]:
    return [step.retrieval_query or "" for step in sources.segment.searches]


def _untruncated(query: str, sources: _Sources) -> str:
    """A query that an attribute limit cut, whole where another span says it whole."""
    in_prompt = _query_in_prompt(sources)
    others = [in_prompt[0]] if in_prompt else []
    others += [step.retrieval_query or "" for step in sources.segment.steps]
    return max((other for other in others if other.startswith(query)), key=len, default=query)


def _history(sources: _Sources, query: str | None) -> tuple[Message, ...]:
    segment = sources.segment
    certain = _first_history(step for step in segment.wrappers() if "history" not in step.unsure)
    if certain is not None:
        return certain
    in_prompt = _history_in_prompt(sources, query)
    printed = _up_to(query, _first_history(segment.wrappers()) or ())
    is_answered = any(m.role == "assistant" for m in in_prompt)
    same = [m.content for m in printed] == [m.content for m in in_prompt]
    # Some agents put everything into the prompt in the user's name, and print who said it.
    return printed if not in_prompt or (same and not is_answered) else in_prompt


def _history_in_prompt(sources: _Sources, query: str | None) -> tuple[Message, ...]:
    """What stands before the question in a prompt; in an agent's loop, before what its first call was asked."""
    call = sources.call
    if call is None:
        return ()
    history = _before_question(call.messages or (), query, sources)
    first = next((other for other in sources.segment.asking_calls if query and query in (other.last_user or "")), call)
    earliest = _before_question(first.messages or (), query, sources)
    rest = history[len(earliest) :] if history[: len(earliest)] == earliest else ()
    return earliest if rest and rest[0].content == first.last_user else history


def _up_to(query: str | None, history: tuple[Message, ...]) -> tuple[Message, ...]:
    """A printed history without roles may go on to what was said in this turn."""
    for at in range(len(history) - 1, -1, -1):
        if history[at].role == "user" and history[at].content == query:
            return history[:at]
    return history


def _first_history(steps: Iterator[Step]) -> tuple[Message, ...] | None:
    return next((step.history for step in steps if step.history is not None), None)


def _before_question(messages: Sequence[Message], query: str | None, sources: _Sources) -> tuple[Message, ...]:
    before = messages[: _question_at(messages, query)]
    earlier = [m for m in before if m.role in {"user", "assistant"} and m.content]
    while earlier and earlier[-1].role == "user" and _is_prompt(earlier[-1].content, query, sources.contents):
        earlier.pop()
    patterns = sources.segment.rules.prompt_patterns
    return tuple(Message(role=m.role, content=unwrapped(m.content, patterns)) for m in earlier)


def _question_at(messages: Sequence[Message], query: str | None) -> int:
    """Where the last message of a user stands, or the first since the last answer in which the question stands.

    Some agents go on as the user: what tools returned, or a request for a final answer.
    """
    last = next((at for at in range(len(messages) - 1, -1, -1) if messages[at].role == "user"), 0)
    first = last
    for at in range(min(last, len(messages) - 1), -1, -1):
        if messages[at].role == "assistant" and messages[at].content:
            break
        if query and messages[at].role == "user" and query in messages[at].content:
            first = at
    return first


def _is_prompt(text: str, query: str | None, contents: Sequence[str]) -> bool:
    """Some apps send documents and question as two messages of the user."""
    return (query is not None and query in text) or any(content in text for content in contents)
