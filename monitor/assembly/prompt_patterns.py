"""What a question and its surroundings look like in a prompt: headings in plain words, and what dialects declare."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from monitor.extract.convention import PromptWording

_ANSWER_HEADING = (
    r"(?:(?:helpful|final|your|standalone|assistant(?:'s)?)[ \t]*+)?"
    r"(?:answer|response|reply|question|query|antwort)\s*+:"
)
_NEXT_SECTION = (
    _ANSWER_HEADING,
    r"(?:context|documents?|sources?|passages?|chat history|conversation|history)\s*+:",
    r"<\w",
)
_AFTER_DOCUMENTS = (
    _ANSWER_HEADING,
    r"(?:context|chat history|conversation|history|instructions?|rules|task|guidelines)\s*+:",
    r"<\w",
)
"""As above; but `Source:` and `Document:` introduce one of several documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPatterns:
    """Patterns of all loaded dialects."""

    tasks: tuple[re.Pattern[str], ...]
    """Group 1 is the task that an agent was set."""
    question_fields: tuple[re.Pattern[str], ...]
    """Group 1 is a question."""
    field_marks: tuple[str, ...]
    """What every field begins with."""
    next_section: re.Pattern[str]
    """Where a question ends."""
    after_documents: re.Pattern[str]
    """Where the documents of a prompt end."""


def prompt_patterns(wordings: Iterable[PromptWording]) -> PromptPatterns:
    """Return the patterns for what these dialects declare."""
    declared = tuple(wordings)
    marks = tuple(mark for wording in declared for mark in wording.field_marks)
    instructions = tuple(begin for wording in declared for begin in wording.instructions)
    own = [re.escape(begin) for begin in (*marks, *instructions)]
    return PromptPatterns(
        tasks=tuple(task for wording in declared for task in wording.tasks),
        question_fields=tuple(field for wording in declared for field in wording.question_fields),
        field_marks=marks,
        next_section=_line_start(*_NEXT_SECTION, *own),
        after_documents=_line_start(*_AFTER_DOCUMENTS, *own),
    )


def _line_start(*alternatives: str) -> re.Pattern[str]:
    return re.compile(rf"\n[ \t]*+(?=\S)(?:{'|'.join(alternatives)})", re.IGNORECASE)
