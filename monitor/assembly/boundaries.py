"""What tells one turn from the next among spans that stand side by side: questions, answers, sessions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

from monitor.assembly.prompt_patterns import PromptPatterns
from monitor.assembly.prompt_question import flat, question
from monitor.assembly.segment import SEARCHES, Segment
from monitor.assembly.tree import WRAPPERS, walk
from monitor.extract import session_and_user
from monitor.model.spans import Role, Step
from monitor.model.turns import Message

_LOOKED_AT = 64
"""Spans of one segment that are looked at."""
_KEPT = 8
_SINGLE_STEPS = frozenset((Role.LLM, Role.RETRIEVAL, Role.RERANK, Role.TOOL, Role.EMBEDDING, Role.DB))
_TOLERANCE_NS = 10_000_000
"""Some SDKs take a span's begin and end from different clocks."""
_WORDS = 2
"""Words of the longest verdict."""
_DISTINCT = 8
"""Characters from which on a text is unlikely to occur in another by chance."""


class _Texts(NamedTuple):
    """What was said in a step, flattened."""

    questions: tuple[str, ...] = ()
    user_messages: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    earlier_answers: frozenset[str] = frozenset()


_NO_TEXTS = _Texts()


@dataclass(frozen=True, slots=True)
class Clues:
    """What a segment says about whose turn it is; texts are flattened."""

    questions: tuple[str, ...]
    user_messages: tuple[str, ...]
    """Whole last messages of users, in which questions stand."""
    answers: tuple[str, ...]
    earlier_answers: frozenset[str]
    """What an assistant had said before the last message of a user; of several segments in the last one."""
    session: str | None
    is_bare: bool
    """Single steps, without a chain, agent or request around them."""
    has_ended: bool
    """A model call produced a text, or failed."""
    has_searched: bool
    """Documents were looked for."""
    is_closed: bool
    """A question that was answered or failed, in a chain, agent or request of its own."""
    is_chain: bool
    """A chain itself says what it was asked or answered, and not only the calls in it."""
    end_ns: int
    """When the last of it ended."""

    def joined(self, later: Clues) -> Clues:
        """Return what both say together; the later one's texts come last."""
        return Clues(
            _last(self.questions, later.questions),
            _last(self.user_messages, later.user_messages),
            _last(self.answers, later.answers),
            later.earlier_answers,
            self.session or later.session,
            self.is_bare and later.is_bare,
            self.has_ended or later.has_ended,
            self.has_searched or later.has_searched,
            self.is_closed or later.is_closed,
            self.is_chain or later.is_chain,
            max(self.end_ns, later.end_ns),
        )


def clues(segment: Segment) -> Clues:
    """Return what the first spans of a segment say."""
    nodes = list(islice(walk(*segment.roots), _LOOKED_AT))
    head = nodes[0].step if nodes else None
    is_chain = head is not None and head.role in WRAPPERS and bool(head.query or head.response)
    if is_chain and head is not None:
        texts = [_of_chain(head)]
        is_bare = False
        answer = head.response or (head.shapeless if head.documents is None else None)
        has_ended = is_closed = answer is not None or head.error is not None
    else:
        steps = [step for node in nodes if (step := node.step) is not None]
        texts = [_of_step(step, segment.rules.prompt_patterns) for step in steps]
        is_bare = all(root.role in _SINGLE_STEPS or root.span is None for root in segment.roots)
        has_ended = any(step.role is Role.LLM and (step.output or step.error) for step in steps)
        is_closed = not is_bare and has_ended and any(step.questions for step in texts)
    return Clues(
        _last(*(step.questions for step in texts)),
        _last(*(step.user_messages for step in texts)),
        _last(*(step.answers for step in texts)),
        frozenset().union(*(step.earlier_answers for step in texts)),
        next((s for node in nodes if node.span and (s := session_and_user.session(node.span.attributes))), None),
        is_bare,
        has_ended,
        any(node.role in SEARCHES for node in nodes),
        is_closed,
        is_chain,
        max((root.end_ns for root in segment.roots), default=0),
    )


def departs(so_far: Clues, segment: Clues) -> bool:
    """Return whether a segment is certainly of a later turn: another session, or what was answered is history to it."""
    if so_far.session and segment.session and so_far.session != segment.session:
        return True
    return bool(segment.earlier_answers.intersection(so_far.answers))


def follows(so_far: Clues, segment: Clues, ahead: Clues | None) -> bool:
    """Return whether a segment goes on with the turn `so_far`; `ahead` is the next segment that names a question.

    Some instrumentations put a chain and its steps side by side: what ended before the chain did is part of it.
    """
    if segment.end_ns <= so_far.end_ns + _TOLERANCE_NS and _inside(so_far, segment):
        return True
    if so_far.is_closed and segment.is_closed:
        # Nodes of a graph that say nothing themselves: one grades, one answers, one checks.
        again = not (so_far.is_chain and segment.is_chain) and not set(so_far.questions).isdisjoint(segment.questions)
        again = again or _checks(so_far, segment)
        return again or bool(set(so_far.answers).intersection(segment.questions))
    if so_far.is_bare and not so_far.has_ended:
        # Searched for, in whatever words, and not answered yet; a chain that searches by itself asks by itself.
        apart = so_far.has_searched and segment.has_searched and not segment.is_bare
        apart = apart and bool(so_far.questions and segment.questions)
        return not apart or _related(so_far, segment)
    if not segment.questions:
        return ahead is None or _related(so_far, ahead)
    return not so_far.questions or _related(so_far, segment)


def _inside(around: Clues, segment: Clues) -> bool:
    if around.is_bare:
        return False
    known = {*around.questions, *around.answers}
    return not segment.questions or bool(known.intersection(segment.questions)) or _related(around, segment)


def _checks(so_far: Clues, segment: Clues) -> bool:
    """Whether a segment only says a word on the answer to a question, both of which it was shown."""
    verdicts = bool(segment.answers) and all(
        len(answer.split()) <= _WORDS or answer[0] == "{" for answer in segment.answers
    )
    shown = segment.user_messages
    return verdicts and _stands_in(so_far.questions, shown) and _stands_in(so_far.answers, shown)


def _of_chain(step: Step) -> _Texts:
    queries = _flattened(step.query)
    return _Texts(queries, queries, _flattened(step.response if step.response != step.query else None))


def _of_step(step: Step, patterns: PromptPatterns) -> _Texts:
    if step.role in SEARCHES or step.role in WRAPPERS:
        queries = _flattened(step.retrieval_query if step.role in SEARCHES else step.query)
        return _Texts(queries, queries)
    if step.role is not Role.LLM:
        return _NO_TEXTS
    messages = step.messages or ()
    last = next((at for at in range(len(messages) - 1, -1, -1) if messages[at].role == "user"), None)
    if last is None:
        return _Texts(answers=_flattened(step.output))
    in_message = question(messages[last].content, patterns)
    return _Texts(
        _flattened(in_message.text if in_message else None),
        _flattened(messages[last].content),
        _flattened(step.output),
        _answers_in(messages[:last]),
    )


def _answers_in(messages: Sequence[Message]) -> frozenset[str]:
    return frozenset(flat(m.content) for m in messages[-2 * _KEPT :] if m.role == "assistant")


def _related(earlier: Clues, later: Clues) -> bool:
    """The same question, part of it, or a rewritten one: the answer of one call and the question of the next."""
    if set(earlier.questions).intersection(later.questions):
        return True
    if _stands_in((*earlier.questions, *earlier.answers), later.questions):
        return True
    if _stands_in(later.questions, earlier.user_messages):
        return True
    question_quoted = _stands_in(earlier.questions, later.user_messages)
    answer_quoted = _stands_in(earlier.answers, later.user_messages)
    return question_quoted != answer_quoted  # both together are the transcript of a conversation that has moved on


def _stands_in(parts: Sequence[str], wholes: Sequence[str]) -> bool:
    return any(len(part) >= _DISTINCT and part in whole for part in parts for whole in wholes)


def _flattened(text: str | None) -> tuple[str, ...]:
    words = flat(text) if text else ""
    return (words,) if words else ()


def _last(*texts: Iterable[str]) -> tuple[str, ...]:
    """The last few distinct ones, in order."""
    return tuple(dict.fromkeys(reversed(tuple(chain(*texts)))))[:_KEPT][::-1]
