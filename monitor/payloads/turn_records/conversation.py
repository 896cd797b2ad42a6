"""A conversation's messages become exchanges: each question with what answered it and what was said before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from monitor.extract.documents import ranked
from monitor.extract.messages import messages_of
from monitor.model.spans import AttributeValue
from monitor.model.turns import Citation, Message
from monitor.payloads.turn_records.record import Conversation, Spoken, citations_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A question and its answer; `at` is the place of the answer's end among the messages, from 0."""

    at: int
    query: str
    history: tuple[Message, ...]
    response: str
    citations: tuple[Citation, ...] | None


def exchanges(conversation: Conversation) -> tuple[Exchange, ...]:
    """Return the questions that were answered, in order.

    What an assistant says while it calls tools is a step, not an answer; several messages in a row are one answer. A
    greeting, system prompts, tool results and roles that nobody knows are no turns. Content that is no text, such as
    an image, is a marker.
    """
    return tuple(_exchanges(conversation.messages))


@dataclass(slots=True)
class _Open:
    """What was said since the last question."""

    question: str | None = None
    at: int | None = None
    texts: list[str] = field(default_factory=list)
    citations: tuple[Citation, ...] | None = None

    def answer(self) -> str:
        return "\n\n".join(text for text in self.texts if text)

    def messages(self) -> Iterator[Message]:
        if self.question:
            yield Message(role="user", content=self.question)
        if self.answer():
            yield Message(role="assistant", content=self.answer())

    def exchange(self, history: Sequence[Message]) -> Iterator[Exchange]:
        if self.question is not None and self.at is not None:
            yield Exchange(
                at=self.at,
                query=self.question,
                history=tuple(history),
                response=self.answer(),
                citations=None if self.citations is None else ranked(self.citations),
            )


def _exchanges(messages: Sequence[Spoken]) -> Iterator[Exchange]:
    history: list[Message] = []
    current = _Open()
    for at, message in enumerate(messages):
        role, content = _read(message)
        if role == "user":
            yield from current.exchange(history)
            history += current.messages()
            current = _Open(question=content)
        elif role == "assistant":
            current.at = at
            current.texts.append(content)
            cited = citations_of(message.context)
            if cited is not None:
                current.citations = (*(current.citations or ()), *cited)
    yield from current.exchange(history)


def _read(message: Spoken) -> tuple[str, str]:
    """Return role and text; role "" for what is neither a question nor an answer."""
    value = {"role": message.role, "content": message.content, "tool_calls": message.tool_calls}
    read = messages_of(cast("AttributeValue", value), default_role="")
    if not read or read[0].tool_calls or message.function_call:
        return "", ""
    return read[0].role, read[0].content
