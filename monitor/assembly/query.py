"""What was asked in a turn, and what had been said before. Source: dialects.md 4.3, query and history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from monitor.assembly.model_calls import Call
from monitor.assembly.prompt_question import flat, question, unwrapped
from monitor.assembly.turn_spans import Material
from monitor.model.spans import Role, Step
from monitor.model.turns import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A turn's query and history; `flags` say where an uncertain query comes from."""

    query: str | None
    history: tuple[Message, ...]
    flags: frozenset[str] = frozenset()


def asked(material: Material, *, asking: Call | None, contents: Sequence[str]) -> Asked:
    """Return the query and history of a turn.

    `asking` is the call whose prompt is looked into: the one that answered, else the last. `contents` are the texts of
    retrieved documents, which a prompt holds beside the question.
    """
    query, flags = _query(material, asking, contents)
    if query is not None and "input_truncated" in flags:
        query = _whole(query, material, asking, contents)
    return Asked(query=query, history=_history(material, asking, query, contents), flags=flags)


def _query(material: Material, asking: Call | None, contents: Sequence[str]) -> tuple[str | None, frozenset[str]]:
    none: frozenset[str] = frozenset()
    for step in material.wrappers():
        if step.query is not None and "query" not in step.unsure:
            return _as_asked(step, material, asking, contents)
    if asking is not None and asking.query:
        return asking.query, none
    prompted = _from_prompts(material, asking, contents)
    if prompted is not None:
        return prompted
    for step in material.wrappers():
        if step.query is not None:
            return step.query, step.flags & {"input_truncated"}
    for role in (None, Role.EMBEDDING, Role.TOOL):
        searched = material.searches if role is None else (s for s in material.steps if s.role is role and _found(s))
        text = next((step.retrieval_query for step in searched if step.retrieval_query), None)
        if text is not None:
            return text, frozenset({"query_from_retrieval"})
    return None, none


def _found(step: Step) -> bool:
    return step.role is not Role.TOOL or step.documents is not None


def _as_asked(
    step: Step, material: Material, asking: Call | None, contents: Sequence[str]
) -> tuple[str, frozenset[str]]:
    """A chain's query; where the app handed it the very prompt that the model got, the question in that."""
    told = step.query or ""
    if asking is not None and asking.last_user and flat(asking.last_user) == flat(told):
        prompted = _from_prompts(material, asking, contents)
        if prompted is not None and prompted[1]:
            return prompted
    if asking is not None and _is_transcript(told, asking.messages or ()):
        return asking.last_user or told, step.flags & {"input_truncated"}
    return told, step.flags & {"input_truncated"}


def _is_transcript(text: str, messages: Sequence[Message]) -> bool:
    """Whether a text is all that was said so far and the question, as the model got them one by one."""
    said = [flat(m.content) for m in messages if m.role in {"user", "assistant"} and m.content]
    last = max((at for at, m in enumerate(messages) if m.role == "user" and m.content), default=-1)
    count = sum(1 for m in messages[: last + 1] if m.role in {"user", "assistant"} and m.content)
    return count > 1 and flat(text) == " ".join(said[:count])


def _from_prompts(
    material: Material, asking: Call | None, contents: Sequence[str]
) -> tuple[str, frozenset[str]] | None:
    """The question in the last message of a user; where that is a rewritten one, the question it was rewritten from."""
    if asking is None or not asking.last_user:
        return None
    searched = [step.retrieval_query or "" for step in material.searches]
    found = question(asking.last_user, contents=contents, searched=searched)
    if found is None:
        return None
    for call in material.calls:
        if call is not asking and call.output and call.last_user and flat(call.output) == flat(found.text):
            found = question(call.last_user, contents=contents) or found
            break
    return found.text, frozenset({"query_from_prompt"}) if found.cut else frozenset()


def _whole(query: str, material: Material, asking: Call | None, contents: Sequence[str]) -> str:
    """A query that an attribute limit cut, whole where another span says it whole."""
    prompted = _from_prompts(material, asking, contents)
    others = [prompted[0]] if prompted else []
    others += [step.retrieval_query or "" for step in material.steps]
    return max((other for other in others if other.startswith(query)), key=len, default=query)


def _history(
    material: Material, asking: Call | None, query: str | None, contents: Sequence[str]
) -> tuple[Message, ...]:
    certain = _first(step for step in material.wrappers() if "history" not in step.unsure)
    if certain is not None:
        return certain
    prompted = _prompted(material, asking, query, contents) if asking is not None else ()
    printed = _up_to(query, _first(material.wrappers()) or ())
    answered = any(m.role == "assistant" for m in prompted)
    same = [m.content for m in printed] == [m.content for m in prompted]
    # Some agents put everything into the prompt in the user's name, and print who said it.
    return printed if not prompted or (same and not answered) else prompted


def _prompted(material: Material, asking: Call, query: str | None, contents: Sequence[str]) -> tuple[Message, ...]:
    """What stands before the question in a prompt; in an agent's loop, before what its first call was asked."""
    found = _before_question(asking.messages or (), query, contents)
    first = next((call for call in material.calls if query and query in (call.last_user or "")), asking)
    begun = _before_question(first.messages or (), query, contents)
    goes_on = found[: len(begun)] == begun and found[len(begun) : len(begun) + 1]
    return begun if goes_on and goes_on[0].content == first.last_user else found


def _up_to(query: str | None, history: tuple[Message, ...]) -> tuple[Message, ...]:
    """A printed history without roles may go on to what was said in this turn."""
    for at in range(len(history) - 1, -1, -1):
        if history[at].role == "user" and history[at].content == query:
            return history[:at]
    return history


def _first(steps: Iterator[Step]) -> tuple[Message, ...] | None:
    return next((step.history for step in steps if step.history is not None), None)


def _before_question(messages: Sequence[Message], query: str | None, contents: Sequence[str]) -> tuple[Message, ...]:
    earlier = [m for m in messages[: _asked_at(messages, query)] if m.role in {"user", "assistant"} and m.content]
    while earlier and earlier[-1].role == "user" and _is_prompt(earlier[-1].content, query, contents):
        earlier.pop()
    return tuple(Message(role=m.role, content=unwrapped(m.content)) for m in earlier)


def _asked_at(messages: Sequence[Message], query: str | None) -> int:
    """Where the last message of a user stands, or the first since the last answer in which the question stands.

    Some agents go on as the user: what tools returned, or a request for a final answer.
    """
    last = next((at for at in range(len(messages) - 1, -1, -1) if messages[at].role == "user"), 0)
    found = last
    for at in range(min(last, len(messages) - 1), -1, -1):
        if messages[at].role == "assistant" and messages[at].content:
            break
        if query and messages[at].role == "user" and query in messages[at].content:
            found = at
    return found


def _is_prompt(text: str, query: str | None, contents: Iterable[str]) -> bool:
    """Some apps send documents and question as two messages of the user."""
    return (query is not None and query in text) or any(content in text for content in contents)
