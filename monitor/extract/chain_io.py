"""What a chain was asked and what it answered, out of the free-form input and output that frameworks record.

`certain` is False for what comes from a key that often holds something else, or
from a repr; assembly then prefers what a model call says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from monitor.extract import reprs
from monitor.extract.attributes import REDACTED, is_mapping, is_sequence
from monitor.extract.component_names import spellings
from monitor.extract.documents import documents, ranked
from monitor.extract.json_text import dump, innermost, parse
from monitor.extract.messages import (
    ParsedMessage,
    before_last_user,
    conversation,
    messages_of,
    role_of,
    text_of,
    without_underscores,
)
from monitor.extract.printed import has_printed_fields, is_name_only
from monitor.model.spans import AttributeValue
from monitor.model.turns import Citation, Message

_QUESTIONS = spellings(
    "question", "query", "user_query", "user_input", "user_question", "input", "message", "user_message",
    "query_str", "str_or_query_bundle", "user_msg", "user_prompt", "task", "args",
)  # fmt: skip
_WEAK_QUESTIONS = ("prompt", "text", "q", "content")
_HISTORIES = spellings(
    "chat_history", "history", "conversation_history", "message_history", "previous_messages", "chat_messages",
    "conversation",
)  # fmt: skip
_ANSWERS = spellings(
    "answer", "final_answer", "output", "response", "result", "output_text", "messages", "message", "replies",
    "choices", "candidates", "generations", "answers", "reply", "completion", "generation", "text", "content",
    "data", "outputs", "update", "return_values", "final_result", "raw",
)  # fmt: skip
_ALTERNATIVES = ("replies", "answers", "choices", "candidates", "generations")
_NESTED_ANSWERS = spellings("answer", "replies", "answers", "response", "final_answer", "output_text")
_CONTEXTS = spellings(
    "context", "contexts", "documents", "docs", "source_documents", "retrieved_documents", "passages",
    "retrieved_contexts", "chunks",
)  # fmt: skip
_ASIDE = {"metadata", "meta", "config", "configurable", "usage", *_HISTORIES}
_NOTHING = frozenset(("", "null", "None", '""', REDACTED))
_SPEAKER = re.compile(r"^(?:assistant|ai):\s+", re.IGNORECASE)
_FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]")
_TRANSCRIPT = re.compile(r"^(user|human|assistant|ai|bot)\s*:\s*", re.IGNORECASE | re.MULTILINE)
_DEPTH = 5
_BREADTH = 64

_Mapping: TypeAlias = Mapping[str, AttributeValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainInput:
    """What a chain's input says; `None` where it does not say."""

    query: str | None = None
    history: tuple[Message, ...] | None = None
    documents: tuple[Citation, ...] | None = None
    query_certain: bool = True
    history_certain: bool = True
    last_answer: str | None = None
    """The answer that the messages end with: it was given before, unless the app wrote it into its input afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOutput:
    """What a chain's output says."""

    response: str | None = None
    documents: tuple[Citation, ...] | None = None
    certain: bool = True
    shapeless: str | None = None
    """Compact JSON of an output in which no answer was found."""


def chain_input(value: AttributeValue) -> ChainInput:
    """Return what a chain's input asks; plain text is the query itself."""
    if isinstance(value, str):
        return _input_in_printed(value) if reprs.prints_plain(value) else ChainInput(query=_clean(value))
    if is_sequence(value):
        return _input_in_messages(messages_of(value)) or ChainInput()
    if isinstance(value, int | float):
        # What somebody typed into a menu, which an instrumentation took for a number.
        return ChainInput(query=dump(value))
    if not is_mapping(value):
        return ChainInput()
    history = _history(value)
    question = _question(value) or ChainInput()
    return ChainInput(
        query=question.query,
        history=question.history if history is None else conversation(history),
        documents=_contexts(value),
        query_certain=question.query_certain,
        history_certain=question.history_certain if history is None else all(message.certain for message in history),
        last_answer=question.last_answer,
    )


def chain_output(value: AttributeValue) -> ChainOutput:
    """Return what a chain's output answers; plain text is the answer itself."""
    is_printed = isinstance(value, str) and reprs.prints_messages(value)
    if isinstance(value, str) and not is_printed and not _prints_object(value):
        return ChainOutput(response=clean_answer(value))
    docs = _contexts(value) if is_mapping(value) else None
    answer = _answer(value, depth=0)
    if answer is None and is_mapping(value):
        answer = _nested_answer(value)
    if answer is not None:
        return ChainOutput(response=answer.content, documents=docs, certain=answer.certain)
    empty = is_printed or value is None or value in ([], {}, ())
    return ChainOutput(documents=docs, shapeless=None if empty else value if isinstance(value, str) else dump(value))


def documents_from_tools(messages: Sequence[ParsedMessage | Message]) -> tuple[Citation, ...] | None:
    """Return the documents in replies of tools since the last message of a user, each once; None when none did."""
    last_question = max((at for at, message in enumerate(messages) if message.role == "user"), default=-1)
    by_content: dict[str, Citation] = {}
    for message in messages[last_question + 1 :]:
        read = documents(message.content) if message.role == "tool" else None
        for citation in read.citations if read is not None else ():
            if citation.content:
                by_content.setdefault(citation.content, citation)
    return ranked(tuple(by_content.values())) if by_content else None


def first_answer(messages: Iterable[ParsedMessage]) -> str | None:
    """Return the first answer among the replies of a model, without what frameworks put around it; None for none."""
    return next((answer for message in messages if (answer := clean_answer(message.content))), None)


def clean_answer(text: str) -> str | None:
    """Return an answer without what frameworks put around it; None when nothing is left.

    >>> clean_answer("assistant: Two years."), clean_answer("<generator object>")
    ('Two years.', None)
    >>> clean_answer("[[ ## answer ## ]] Yes.")
    'Yes.'
    """
    if _says_nothing(text):
        return None
    fields = list(_FIELD.finditer(text))
    if fields:
        text = _field(text, fields)
    return _SPEAKER.sub("", text).strip() or None


def _field(text: str, fields: Sequence[re.Match[str]]) -> str:
    """DSPy's reply: the field `answer` or `response`, else the last before `completed`."""
    ends = [*(field.start() for field in fields[1:]), len(text)]
    parts = [(f[1], text[f.end() : end].strip()) for f, end in zip(fields, ends, strict=True) if f[1] != "completed"]
    answer = next((body for name, body in parts if name in {"answer", "response"}), None)
    return answer if answer is not None else (parts[-1][1] if parts else text)


def _input_in_printed(text: str) -> ChainInput:
    """What Python printed of a dict, with objects in it that are no plain values: a question under its name, messages.

    What is none of these is not believed to be what somebody typed.
    """
    printed = reprs.literal(text)
    if printed is not None:
        return chain_input(printed)
    query = _clean(reprs.entry(text, _QUESTIONS) or "")
    if query is not None:
        return ChainInput(query=query, query_certain=False)
    read = [(role_of(role) or role_of(f"{role}message"), content) for role, content in reprs.messages(text)]
    asked = next((content for role, content in reversed(read) if role == "user"), None)
    return ChainInput(query=_clean(asked or ""), query_certain=False)


def _clean(text: str) -> str | None:
    text = text_of(text).strip()
    return None if _says_nothing(text) else text


def _says_nothing(text: str) -> bool:
    return text.strip() in _NOTHING or is_name_only(text)


def _levels(value: _Mapping) -> Iterator[list[_Mapping]]:
    """The maps in a value, outermost first, without those that hold documents or settings."""
    level = [value]
    for _ in range(_DEPTH):
        yield level
        level = [
            inner
            for outer in level
            for key, inner in outer.items()
            if is_mapping(inner) and key not in _CONTEXTS and key not in _ASIDE
        ][:_BREADTH]
        if not level:
            return


def _question(value: _Mapping) -> ChainInput | None:
    for level in _levels(value):
        for keys, certain in ((_QUESTIONS, True), (("messages",), True), (_WEAK_QUESTIONS, False)):
            for key in keys:
                for holder in level:
                    question = _question_in_value(holder.get(key)) if key in holder else None
                    if question is not None:
                        return question if certain else ChainInput(query=question.query, query_certain=False)
    return None


def _question_in_value(value: AttributeValue) -> ChainInput | None:
    if isinstance(value, str):
        parsed = innermost(value)
        if parsed is not None and not isinstance(parsed.value, str):
            return _question_in_structure(parsed.value)
        query = _clean(value)
        return None if query is None else ChainInput(query=query)
    return _question_in_structure(value)


def _question_in_structure(value: AttributeValue) -> ChainInput | None:
    if is_sequence(value):
        if value and isinstance(value[0], str) and not reprs.prints_messages(value[0]):
            query = _clean(value[0])
            return None if query is None else ChainInput(query=query)
        return _input_in_messages(messages_of(value))
    if is_mapping(value):
        is_message = role_of(value.get("role")) or role_of(value.get("type")) or "lc" in value
        return _input_in_messages(messages_of(value)) if is_message else _question(value)
    return None


def _input_in_messages(messages: Sequence[ParsedMessage]) -> ChainInput | None:
    """History is not said to be empty by messages that hold nothing but the question: some apps keep it elsewhere.

    Messages that end with an answer may be the conversation so far, and the question stands elsewhere.
    """
    earlier, last = before_last_user(messages)
    if last is None or not last.content.strip():
        return None
    history = conversation(earlier)
    final = messages[-1]
    last_answer = clean_answer(final.content) if final.role == "assistant" and not final.tool_calls else None
    return ChainInput(
        query=last.content.strip(),
        history=history or None,
        query_certain=last_answer is None,
        history_certain=last.certain and last_answer is None,
        last_answer=last_answer,
    )


def _history(value: _Mapping) -> tuple[ParsedMessage, ...] | None:
    for level in _levels(value):
        for key in _HISTORIES:
            for holder in level:
                value_at_key = holder.get(key)
                if is_sequence(value_at_key) and value_at_key and all(isinstance(line, str) for line in value_at_key):
                    return _lines([str(line) for line in value_at_key]) or messages_of(value_at_key)
                if is_sequence(value_at_key) or is_mapping(value_at_key):
                    return messages_of(value_at_key)
                if isinstance(value_at_key, str):
                    return _transcript(value_at_key) or messages_of(value_at_key)
        for holder in level:
            messages = messages_of(holder["messages"]) if _has_question_beside_messages(holder) else ()
            if messages and messages[-1].role == "assistant":
                return messages
    return None


def _has_question_beside_messages(value: _Mapping) -> bool:
    return is_sequence(value.get("messages")) and any(isinstance(value.get(key), str) for key in _QUESTIONS)


def _transcript(text: str) -> tuple[ParsedMessage, ...]:
    """`Human: ...` and `AI: ...` lines, as prompt-building code writes them."""
    marks = list(_TRANSCRIPT.finditer(text))
    if not marks or marks[0].start() > 0:
        return ()
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    return tuple(
        ParsedMessage(role_of(mark[1]) or "user", text[mark.end() : end].strip(), certain=False)
        for mark, end in zip(marks, ends, strict=True)
    )


def _lines(lines: Sequence[str]) -> tuple[ParsedMessage, ...]:
    """A list whose texts all begin with who speaks."""
    transcripts = [_transcript(line) for line in lines]
    return tuple(messages[0] for messages in transcripts) if all(len(messages) == 1 for messages in transcripts) else ()


def _contexts(value: _Mapping) -> tuple[Citation, ...] | None:
    for key in _CONTEXTS:
        context = value.get(key)
        if is_sequence(context):
            read = documents(context, trusted=True)
            if read is not None and (not context or any(citation.content for citation in read.citations)):
                return read.citations
    return None


def _answer(value: AttributeValue, *, depth: int) -> ParsedMessage | None:  # noqa: PLR0911 -- one return per shape
    if depth > _DEPTH:
        return None
    if isinstance(value, str):
        return _answer_in_text(value, depth=depth)
    if is_sequence(value):
        return _answer_in_list(value, depth=depth)
    if not is_mapping(value):
        return None
    value = without_underscores(value)
    if role_of(value.get("role")) or role_of(value.get("type")) or "lc" in value:
        return _closing_answer(messages_of(value))
    for key in _ANSWERS:
        if value.get(key):
            answer = _answer(_first_alternative(value, key), depth=depth + 1)
            if answer is not None:
                return answer
    return None


def _first_alternative(value: _Mapping, key: str) -> AttributeValue:
    alternatives = value.get(key)
    return alternatives[0] if key in _ALTERNATIVES and is_sequence(alternatives) and alternatives else alternatives


def _answer_in_text(value: str, *, depth: int) -> ParsedMessage | None:
    parsed = parse(value)
    if parsed is not None:
        answer = _answer(parsed.value, depth=depth + 1)
        if answer is not None:
            return answer
    if reprs.prints_messages(value):
        return _closing_answer(messages_of(value))
    if _prints_object(value):
        return _answer_in_object(value)
    text = clean_answer(value)
    return None if text is None else ParsedMessage("assistant", text)


def _prints_object(value: str) -> bool:
    return reprs.prints_object(value) or has_printed_fields(value)


def _answer_in_object(value: str) -> ParsedMessage | None:
    """The last message printed inside an object, if a model said it, else a field; a preview may have neither."""
    if "Message(" in value:
        role, printed = reprs.last_message(value) or ("", "")
        printed = printed if (role_of(role) or role_of(f"{role}message")) == "assistant" else ""
    else:
        printed = reprs.field(value, _ANSWERS) or ""
    text = clean_answer(printed)
    return None if text is None else ParsedMessage("assistant", text, certain=False)


def _answer_in_list(value: Sequence[AttributeValue], *, depth: int) -> ParsedMessage | None:
    """Of messages the last; of alternatives the first; several plain texts are no answer."""
    if not value or (isinstance(value[0], str) and len(value) > 1):
        return None
    first = value[0]
    is_message = is_mapping(first) and (role_of(first.get("role")) or role_of(first.get("type")) or "lc" in first)
    if is_message or (isinstance(first, str) and reprs.prints_messages(first)):
        return _closing_answer(messages_of(value))
    return _answer(first, depth=depth + 1)


def _closing_answer(messages: Sequence[ParsedMessage]) -> ParsedMessage | None:
    if not messages or messages[-1].role != "assistant":
        return None
    text = clean_answer(messages[-1].content)
    return None if text is None else ParsedMessage("assistant", text, certain=messages[-1].certain)


def _nested_answer(value: _Mapping) -> ParsedMessage | None:
    for level in _levels(value):
        for key in _NESTED_ANSWERS:
            for holder in level:
                answer = _answer(_first_alternative(holder, key), depth=1)
                if answer is not None:
                    return answer
    return None
