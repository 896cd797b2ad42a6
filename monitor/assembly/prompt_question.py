"""What a person asked and which documents were shown, out of the prompt of a model call.

RAG apps put question and documents into one message. The question is found by, in this order: a retrieval query that
stands in it, a marker such as `Question:`, or what is left without the documents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.assembly.document_labels import introduced_at
from monitor.assembly.prompt_patterns import PromptPatterns
from monitor.extract.chain_io import clean_answer
from monitor.model.turns import Message

_MARKER = re.compile(
    r"(?:^|\n)[ \t>#*-]*+(?=[a-z])(?:the[ \t]++)?+"
    r"(?:(?:user|human|customer|current|latest|new|original|follow[- ]?up)(?:'s)?[ \t_-]++)?+"
    r"(?:question|query|input|message|request|frage|pregunta|domanda)(?:[ \t]++is)?+[ \t*]*+:[ \t*]*+",
    re.IGNORECASE,
)
_TAGS = ("question", "query", "user_query", "user_question", "user_input", "user_message", "input")
_TEMPLATE = re.compile(
    r"^[^\w\n]{0,20}+(?=[a-z])(?:(?:retrieved|relevant|following|given|provided|additional)[ \t]++){0,3}+"
    r"(?:context|documents?|sources?|passages?|knowledge|background|references?|search results|information|excerpts?|"
    r"(?:chat |conversation )?history|conversation|kontext|contexto)\b|<(?:context|documents?|sources?|passages?)\b"
    r"|[gub](?:(?<=g)iven|(?<=u)s(?:e|ing)|(?<=b)ased[ \t]+(?:only[ \t]+|solely[ \t]+)?on)"
    r"\s+(?:only\s+)?the\s+(?:following|context)",
    re.IGNORECASE | re.MULTILINE,
)
_TEMPLATE_WORDS = (
    "context", "document", "source", "passage", "knowledge", "background", "reference", "search results", "information",
    "excerpt", "history", "conversation", "kontext", "following",
)  # fmt: skip
"""One of these is in whatever `_TEMPLATE` finds."""
_INTRODUCED = re.compile(r"(?:answer|respond to|reply to)\b[^:\n]{0,60}:\s*(\S.*)", re.DOTALL | re.IGNORECASE)
_REWRITING = re.compile(
    r"\bstand[- ]?alone (?:question|query)\b|\b(?:rephrase|reformulate|rewrite) the (?:\w+ ){0,3}(?:question|query)\b",
    re.IGNORECASE,
)
_BUILT_IN_REWRITING = re.compile(
    r"(?=[pdfrgse])(?:provide only reformulated query and nothing else"  # LangChain4j: CompressingQueryTransformer
    r"|different versions of (?:a|the) (?:provided |given )?(?:user )?(?:query|question)\b"  # expanders
    r"|formulate a standalone question which can be understood without the chat history"  # LangChain
    r"|rephrase the follow up question to be a standalone question"
    r"|rewrite the message to be a standalone question"  # LlamaIndex
    r"|generates multiple search queries based on a single input query"
    r"|synthesize a concise, standalone query that incorporates the context"  # Spring AI
    r"|given a user query, (?:rewrite it to provide better results|translate it to )"
    r"|expand a given query into \S{1,20} queries"  # Haystack
    r"|generate a search query based on the conversation and the new question)",  # Azure's demo
    re.IGNORECASE,
)
"""Words of prompts that frameworks bring with them, after which a model says what to search for."""
_LABEL = re.compile(r"^[\s\\\])}'\":.,;|>*-]+")
_BODY = re.compile(
    r"^(?=[ \tctpeb])[ \t]*+(?:content|text|passage|page_content|excerpt|body)\s*+:\s*", re.IGNORECASE | re.MULTILINE
)
_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*+\n)++")
_SHORTEST = 3
_HEAD = 80
"""Characters of a document that must occur in a prompt for it to count as shown there."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and whether it is only part of the message."""

    text: str
    is_part: bool


def flat(text: str) -> str:
    """Return the text with every run of white space as one blank."""
    return " ".join(text.split())


def question(
    message: str, patterns: PromptPatterns, *, contents: Sequence[str] = (), searched: Sequence[str] = ()
) -> Question | None:
    """Return what the last message of a user asks, without template and documents; None when nothing is left.

    `contents` are texts of retrieved documents, `searched` the retrieval queries of the turn.
    """
    whole = message.strip()
    if not whole:
        return None
    holds_documents = any(content in whole for content in contents)
    template = holds_documents or bool(_TEMPLATE.search(whole))
    text = _task(whole, patterns) or _tagged(whole, patterns) or _marked(whole, patterns, template=template)
    if text is None and template:
        text = next((query for query in searched if len(query) >= _SHORTEST and query in whole), None)
    if text is None and template:
        text = _first(whole)
    if text is None and holds_documents:
        text = _last_without(contents, whole)
    if text is None:
        return Question(whole, is_part=False)
    return Question(text, is_part=text != whole) if text else None


def _first(whole: str) -> str | None:
    """A question that stands before the context, as advisors append that to it."""
    heading = _TEMPLATE.search(whole)
    before = whole[: heading.start() + 1].rpartition("\n")[0].strip() if heading else ""
    return before if before.endswith("?") else None


def _task(text: str, patterns: PromptPatterns) -> str | None:
    """The task that a framework sets its agent, or the question that an app introduces in it."""
    task = next((match for pattern in patterns.tasks if (match := pattern.search(text))), None)
    if task is None:
        return None
    introduced = _INTRODUCED.fullmatch(task[1].strip())
    return (introduced[1] if introduced else task[1]).strip() or None


def documents_part(text: str, patterns: PromptPatterns) -> str:
    """Return what stands before the question or the instructions that follow the documents of a prompt."""
    return _before(text, patterns.after_documents)


def _before(text: str, section: re.Pattern[str]) -> str:
    ends = [match.start() for match in (_MARKER.search(text), section.search(text)) if match]
    return text[: min(ends)] if ends else text


def rewrites(messages: Sequence[Message], output: str) -> bool:
    """Return whether a model was asked to reword a question, and did: its output is one, and no answer.

    What frameworks ask by themselves is known by their words, and what is searched for may be no question then.
    """
    is_question = output.rstrip().endswith("?")
    prompts = [message.content for message in messages if message.role != "assistant"]
    return bool(output) and any(
        _BUILT_IN_REWRITING.search(prompt) or (is_question and _REWRITING.search(prompt)) for prompt in prompts
    )


def unwrapped(text: str, patterns: PromptPatterns) -> str:
    """Return an earlier message without the marks of fields that a framework puts around question and answer."""
    if not any(mark in text for mark in patterns.field_marks):
        return text
    return _tagged(text, patterns) or clean_answer(text) or text


def shown(messages: Sequence[Message]) -> str:
    """Return all that a model was shown except earlier answers, flattened."""
    return flat("\n".join(message.content for message in messages if message.role != "assistant"))


def templated(messages: Sequence[Message]) -> bool:
    """Return whether a prompt speaks of context, so that documents would stand in it."""
    return any(_speaks_of_context(message.content) for message in messages if message.role != "assistant")


def _speaks_of_context(text: str) -> bool:
    # Looking for plain words first takes a tenth of the time, and most prompts of several kB hold none.
    lowered = text.lower()
    return any(word in lowered for word in _TEMPLATE_WORDS) and _TEMPLATE.search(text) is not None


def occurs(content: str, prompt: str) -> bool:
    """Return whether a document stands in a flattened prompt, judged by its beginning; also inside JSON."""
    start = content[: 4 * _HEAD]
    if flat(start)[:_HEAD] in prompt:
        return True
    if "\\" not in prompt:
        return False
    # Results of tools are JSON text: line breaks, quotation marks and, by Python, letters beyond ASCII are escaped.
    return any(flat(json.dumps(start, ensure_ascii=plain)[1:-1])[:_HEAD] in prompt for plain in (False, True))


def passages(messages: Sequence[Message], ids: Sequence[str], patterns: PromptPatterns) -> dict[str, str]:
    """Return, for each document id that a prompt introduces, the text that follows it up to the next id or section."""
    texts: dict[str, str] = {}
    for message in reversed(messages):
        if message.role == "assistant":
            continue
        places = sorted(
            (match.start(), match.end(), identity)
            for identity in ids
            if identity not in texts and (match := introduced_at(identity, message.content))
        )
        for at, (_, end, identity) in enumerate(places):
            stop = places[at + 1][0] if at + 1 < len(places) else len(message.content)
            piece = message.content[end:stop]
            if at + 1 < len(places):  # what stands on the line of the next id introduces that one
                piece = piece.rpartition("\n")[0] if "\n" in piece else piece
            text = _passage(piece, patterns)
            if text:
                texts[identity] = text
    return texts


def _passage(piece: str, patterns: PromptPatterns) -> str:
    piece = _before(piece, patterns.next_section)
    body = _BODY.search(piece)
    return _LABEL.sub("", piece[body.end() :] if body else piece).strip()


def _tagged(whole: str, patterns: PromptPatterns) -> str | None:
    for tag in _TAGS:
        end = whole.rfind(f"</{tag}>")
        start = whole.rfind(f"<{tag}>", 0, end) if end > 0 else -1
        if start >= 0:
            return whole[start + len(tag) + 2 : end].strip() or None
    fields = [match[1].strip() for pattern in patterns.question_fields for match in pattern.finditer(whole)]
    return _up_to_next_section(fields[-1], patterns) or None if fields else None


def _marked(whole: str, patterns: PromptPatterns, *, template: bool) -> str | None:
    """A marker inside a message that is no template is the person's own."""
    last = None
    for match in _MARKER.finditer(whole):
        last = match
    if last is None or not (template or last.start() == 0):
        return None
    return _up_to_next_section(whole[last.end() :], patterns) or None


def _up_to_next_section(text: str, patterns: PromptPatterns) -> str:
    section = patterns.next_section.search(text)
    return (text[: section.start()] if section else text).strip()


def _last_without(contents: Sequence[str], whole: str) -> str:
    """The last paragraph once the documents are taken out: templates put the question at the end."""
    for content in sorted(contents, key=len, reverse=True):
        whole = whole.replace(content, "\n\n")
    paragraphs = [paragraph.strip() for paragraph in _BLANK_LINES.split(whole) if paragraph.strip()]
    return paragraphs[-1] if paragraphs else ""
