"""What tells one turn from the next among spans that stand side by side: questions, answers, sessions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from monitor.assembly.prompt_question import flat, question
from monitor.assembly.tree import Node, walk
from monitor.extract import session_and_user
from monitor.model.spans import Role, Step
from monitor.model.turns import Message

_LOOKED_AT = 64
"""Spans of one unit that are looked at."""
_KEPT = 8
_STEPS = frozenset((Role.LLM, Role.RETRIEVAL, Role.RERANK, Role.TOOL, Role.EMBEDDING, Role.DB))
_SEARCHING = frozenset((Role.RETRIEVAL, Role.RERANK))
_TOLERANCE_NS = 10_000_000
"""Some SDKs take a span's begin and end from different clocks."""
_WORDS = 2
"""Words of the longest verdict."""
_TELLING = 8
"""Characters from which on a text is unlikely to occur in another by chance."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a unit says about whose turn it is; texts are flattened."""

    questions: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    """Whole last messages of users, in which questions stand."""
    answers: tuple[str, ...] = ()
    earlier: frozenset[str] = frozenset()
    """What an assistant had said before the last message of a user."""
    session: str | None = None
    bare: bool = True
    """Single steps, without a chain, agent or request around them."""
    ended: bool = False
    """A model call produced a text, or failed."""
    searched: bool = False
    """Documents were looked for."""
    closed: bool = False
    """A question that was answered or failed, in a chain, agent or request of its own."""
    told: bool = False
    """The chain itself says what it was asked or answered, and not only the calls in it."""
    ends: int = 0
    """When the last of it ended, in ns."""

    def with_(self, other: Evidence) -> Evidence:
        """Return what both say together; the later one's texts come last."""
        return replace(
            self,
            questions=_last(self.questions + other.questions),
            asked=_last(self.asked + other.asked),
            answers=_last(self.answers + other.answers),
            earlier=self.earlier | other.earlier,
            session=self.session or other.session,
            bare=self.bare and other.bare,
            ended=self.ended or other.ended,
            searched=self.searched or other.searched,
            closed=self.closed or other.closed,
            told=self.told or other.told,
            ends=max(self.ends, other.ends),
        )


def evidence(roots: Sequence[Node]) -> Evidence:
    """Return what the first spans below `roots` say."""
    nodes = list(islice(walk(*roots), _LOOKED_AT))
    ends = max((root.end_ns for root in roots), default=0)
    head = nodes[0].step if nodes else None
    searched = any(node.role in _SEARCHING for node in nodes)
    session = next((s for node in nodes if node.span and (s := session_and_user.session(node.span.attributes))), None)
    if head is not None and head.role in {Role.CHAIN, Role.AGENT} and (head.query or head.response):
        return Evidence(
            told=True,
            questions=_texts((head.query,)),
            asked=_texts((head.query,)),
            answers=_texts((head.response if head.response != head.query else None,)),
            session=session,
            bare=False,
            ended=head.response is not None or head.error is not None,
            searched=searched,
            closed=head.response is not None or head.error is not None,
            ends=ends,
        )
    steps = [node.step for node in nodes if node.step is not None]
    bare = all(root.role in _STEPS or root.span is None for root in roots)
    ended = any(step.role is Role.LLM and (step.output or step.error) for step in steps)
    found = Evidence(session=session)
    for step in steps:
        found = found.with_(_of(step))
    return replace(
        found,
        bare=bare,
        ended=ended,
        searched=searched,
        closed=not bare and ended and bool(found.questions),
        ends=ends,
    )


def departs(so_far: Evidence, unit: Evidence) -> bool:
    """Return whether a unit is certainly of a later turn: another session, or what was answered is history to it."""
    if so_far.session and unit.session and so_far.session != unit.session:
        return True
    return bool(unit.earlier.intersection(so_far.answers))


def follows(so_far: Evidence, unit: Evidence, ahead: Evidence | None) -> bool:
    """Return whether a unit goes on with the turn `so_far`; `ahead` is the next unit that names a question.

    Some instrumentations put a chain and its steps side by side: what ended before the chain did is part of it.
    """
    if unit.ends <= so_far.ends + _TOLERANCE_NS and _inside(so_far, unit):
        return True
    if so_far.closed and unit.closed:
        # Nodes of a graph that say nothing themselves: one grades, one answers, one checks.
        again = not (so_far.told and unit.told) and not set(so_far.questions).isdisjoint(unit.questions)
        again = again or _checks(so_far, unit)
        return again or bool(set(so_far.answers).intersection(unit.questions))
    if so_far.bare and not so_far.ended:
        # Searched for, in whatever words, and not answered yet; a chain that searches by itself asks by itself.
        apart = so_far.searched and unit.searched and not unit.bare and so_far.questions and unit.questions
        return not apart or _related(so_far, unit)
    if not unit.questions:
        return ahead is None or _related(so_far, ahead)
    return not so_far.questions or _related(so_far, unit)


def _inside(around: Evidence, unit: Evidence) -> bool:
    if around.bare:
        return False
    known = {*around.questions, *around.answers}
    return not unit.questions or bool(known.intersection(unit.questions)) or _related(around, unit)


def _checks(so_far: Evidence, unit: Evidence) -> bool:
    """Whether a unit only says a word on the answer to a question, both of which it was shown."""
    verdicts = bool(unit.answers) and all(len(said.split()) <= _WORDS or said[0] == "{" for said in unit.answers)
    return verdicts and _stands_in(so_far.questions, unit.asked) and _stands_in(so_far.answers, unit.asked)


def _of(step: Step) -> Evidence:
    if step.role in {Role.RETRIEVAL, Role.RERANK}:
        searched = _texts((step.retrieval_query,))
        return Evidence(questions=searched, asked=searched)
    if step.role in {Role.CHAIN, Role.AGENT}:
        return Evidence(questions=_texts((step.query,)), asked=_texts((step.query,)))
    if step.role is not Role.LLM:
        return Evidence()
    messages = step.messages or ()
    last = next((at for at in range(len(messages) - 1, -1, -1) if messages[at].role == "user"), None)
    if last is None:
        return Evidence(answers=_texts((step.output,)))
    found = question(messages[last].content)
    return Evidence(
        questions=_texts((found.text if found else None,)),
        asked=_texts((messages[last].content,)),
        answers=_texts((step.output,)),
        earlier=_said_before(messages[:last]),
    )


def _said_before(messages: Sequence[Message]) -> frozenset[str]:
    return frozenset(flat(m.content) for m in messages[-2 * _KEPT :] if m.role == "assistant")


def _related(one: Evidence, other: Evidence) -> bool:
    """The same question, part of it, or a rewritten one: the answer of one call and the question of the next."""
    if set(one.questions).intersection(other.questions):
        return True
    if _stands_in((*one.questions, *one.answers), other.questions) or _stands_in(other.questions, one.asked):
        return True
    quoted, replied = _stands_in(one.questions, other.asked), _stands_in(one.answers, other.asked)
    return quoted != replied  # both together are the transcript of a conversation that has moved on


def _stands_in(parts: Sequence[str], wholes: Sequence[str]) -> bool:
    return any(len(part) >= _TELLING and part in whole for part in parts for whole in wholes)


def _texts(texts: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(kept for text in texts if text and (kept := flat(text)))


def _last(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reversed(texts)))[:_KEPT][::-1]
