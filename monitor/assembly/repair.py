"""What cannot be is repaired before it becomes part of a turn: text that databases and JSON refuse, names, counts."""

from __future__ import annotations

import re
from dataclasses import replace

from monitor.extract.attributes import finite
from monitor.extract.messages import text_of
from monitor.extract.printed import named
from monitor.model.spans import Role, Step
from monitor.model.turns import Turn
from monitor.text.repair import repaired

TOKENS_UNREADABLE = "tokens_unreadable"
"""Flag: a number of tokens was given that can be none."""
_MOST_TOKENS = 10**12
_TOKENS = re.compile(r"(?:input|prompt|output|completion)_?tokens$|token_count\.(?:prompt|completion)$", re.IGNORECASE)


def with_sound_names_and_counts(step: Step) -> Step:
    """Return the step without a name of an object for a model's, and without numbers of tokens that can be none.

    A negative number, which some SDKs write for "unknown", would be added to the turn's, and one of hundreds of digits
    fits no database: the step then says nothing of it, and has the flag `tokens_unreadable`.
    """
    model, request_model = named(step.model), named(step.request_model)
    if (model, request_model) != (step.model, step.request_model):
        step = replace(step, model=model, request_model=request_model)
    counts = (_count(step.input_tokens), _count(step.output_tokens))
    if counts == (step.input_tokens, step.output_tokens) and not _says_tokens_otherwise(step):
        return step
    return replace(step, input_tokens=counts[0], output_tokens=counts[1], flags=step.flags | {TOKENS_UNREADABLE})


def _says_tokens_otherwise(step: Step) -> bool:
    """Whether a model call has something under a key for tokens that is no number, and so was not read."""
    if step.role is not Role.LLM or None not in {step.input_tokens, step.output_tokens}:
        return False
    return any(
        "token" in key and _TOKENS.search(key) and value is not None and value != "" and finite(value) is None
        for key, value in step.span.attributes.items()
    )


def _count(tokens: int | None) -> int | None:
    return tokens if tokens is not None and 0 <= tokens <= _MOST_TOKENS else None


def with_sound_text(turn: Turn) -> Turn:
    """Return the turn with its texts repaired (flag `text_repaired` where one was) and inlined media as markers.

    JSON inside attributes may hold what the attribute itself could not.
    """
    seen: set[str] = set()

    def text(value: str | None) -> str | None:
        if value is None:
            return None
        return required(value)

    def required(value: str) -> str:
        if ";base64," in value:
            value = text_of(value)
        sound = repaired(value)
        if sound is not value:
            seen.add("text_repaired")
        return sound

    fixed = replace(
        turn,
        session_id=text(turn.session_id),
        query=text(turn.query),
        response=text(turn.response),
        model=text(turn.model),
        error=text(turn.error),
        app=required(turn.app),
        environment=required(turn.environment),
        release=required(turn.release),
        history=tuple(replace(message, content=required(message.content)) for message in turn.history),
        retrieval_queries=tuple(map(required, turn.retrieval_queries)),
        citations=None
        if turn.citations is None
        else tuple(
            replace(c, id=text(c.id), title=text(c.title), content=text(c.content), source=text(c.source))
            for c in turn.citations
        ),
        facets={facet: required(value) for facet, value in turn.facets.items()},
    )
    return replace(fixed, flags=fixed.flags | seen) if seen else fixed
