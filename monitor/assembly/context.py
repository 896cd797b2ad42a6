"""Documents that only the prompt holds, for apps whose retrieval is not instrumented.

Read is what a tool returned since the question, else what stands between a heading such as `Context:` and the question,
or inside `<context>`; parts that begin with a label such as `[kb-1]` or `Document 2:` become a citation each, and so do
the `Source: ...` and `Content: ...` of LangChain's tutorials.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from monitor.assembly.prompt import up_to_question
from monitor.model import Citation, Message
from monitor.reading.attributes import is_mapping
from monitor.reading.documents import documents, ranked
from monitor.reading.reprs import literal
from monitor.spans import AttributeValue

_HEADING = re.compile(
    r"(?:^|\n)[ \t>#*-]{0,10}(?:(?:retrieved|relevant|following|given|provided|reference)[ \t]+){0,2}"
    r"(?:context|documents|sources|passages|excerpts|search results|knowledge base)(?:[ \t]+information)?"
    r"(?:[ \t]+(?:is|are)[ \t]+below)?[ \t*]*[:.][ \t*]*(?:\n-{3,})?",
    re.IGNORECASE,
)
_TAGS = ("context", "documents", "sources", "passages")
_RULE = re.compile(r"\n-{3,}[ \t]*(?:\n|$)")
_LABEL = re.compile(
    r"^[ \t]*(?:\[([^\]\n]{1,80})\]|(?:document|source|passage|chunk)[ \t]*#?(\d{1,3})[ \t]*[:.])",
    re.IGNORECASE | re.MULTILINE,
)
_SOURCED = re.compile(r"^Source:[ \t]*(.{1,400})\n+Content:[ \t]*", re.IGNORECASE | re.MULTILINE)
_REMARK = re.compile(r"\s*[(\[<].{0,80}[)\]>]\s*", re.DOTALL)
_SHORTEST = 40
"""Characters of the shortest text that counts as retrieved rather than as a remark such as "(no documents found)"."""


def quoted_documents(messages: Sequence[Message]) -> tuple[Citation, ...]:
    """Return the documents that a prompt quotes, by rank; empty when none can be told apart from instructions."""
    returned = _returned(messages)
    if returned:
        return ranked(returned)
    for message in reversed(messages):
        if message.role in {"user", "system"}:
            block = _tagged(message.content) or _headed(message.content)
            if block is not None:
                return ranked(_split(block))
    return ()


def _returned(messages: Sequence[Message]) -> list[Citation]:
    """What tools returned since the last message of a user, each document once."""
    found: dict[str, Citation] = {}
    asked = max((at for at, message in enumerate(messages) if message.role == "user"), default=-1)
    for message in messages[asked + 1 :]:
        if message.role == "tool":
            read = documents(message.content)
            listed = read.citations if read is not None else _sourced(message.content) or _labelled(message.content)
            for citation in listed:
                if citation.content:
                    found.setdefault(citation.content, replace(citation, used=True))
    return list(found.values())


def _sourced(text: str) -> list[Citation]:
    """`Source: {metadata}` and `Content: text`, one after the other."""
    marks = list(_SOURCED.finditer(text))
    if not marks:
        return []
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    rows: list[AttributeValue] = []
    for mark, end in zip(marks, ends, strict=True):
        named = literal(mark[1])
        metadata = named if is_mapping(named) else {"source": mark[1]}
        rows.append({"content": text[mark.end() : end].strip(), "metadata": metadata})
    read = documents(rows, trusted=True)
    return list(read.citations) if read is not None else []


def _labelled(text: str) -> list[Citation]:
    first = _LABEL.match(text)
    return _split(text) if first is not None and len(text) >= _SHORTEST else []


def _tagged(text: str) -> str | None:
    for tag in _TAGS:
        end = text.rfind(f"</{tag}>")
        start = text.rfind(f"<{tag}>", 0, end) if end > 0 else -1
        if start >= 0:
            return _substantial(text[start + len(tag) + 2 : end])
    return None


def _headed(text: str) -> str | None:
    heading = _HEADING.search(text)
    if heading is None:
        return None
    block = up_to_question(text[heading.end() :])
    rule = _RULE.search(block) if heading[0].endswith("---") else None
    return _substantial(block[: rule.start()] if rule else block)


def _substantial(block: str) -> str | None:
    block = block.strip()
    return None if len(block) < _SHORTEST or _REMARK.fullmatch(block) else block


def _split(block: str) -> list[Citation]:
    labels = list(_LABEL.finditer(block))
    if not labels or block[: labels[0].start()].strip():
        return [Citation(content=block, used=True)]
    ends = [*(label.start() for label in labels[1:]), len(block)]
    pieces = [(label[1] or label[2], block[label.end() : end].strip()) for label, end in zip(labels, ends, strict=True)]
    return [Citation(id=name, content=piece, used=True) for name, piece in pieces if piece]
