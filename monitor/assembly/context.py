"""Documents that only the prompt holds, for apps whose retrieval is not instrumented.

Read is what a tool returned since the question, else what stands between a heading such as `Context:` and the question,
or inside `<context>`; parts that begin with a label such as `[kb-1]` or `Document 2:` become a citation each, and so do
the `Source: ...` and `Content: ...` of LangChain's tutorials.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from monitor.assembly.prompt import documents_part
from monitor.model import Citation, Message
from monitor.reading.attributes import is_mapping
from monitor.reading.documents import documents, ranked
from monitor.reading.reprs import literal
from monitor.spans import AttributeValue

_HEADING = re.compile(
    r"(?:^|\n)[ \t>#*-]{0,10}(?:here[ \t]+(?:is|are)[ \t]+(?:the|some)[ \t]+)?"
    r"(?:(?:retrieved|relevant|following|given|provided|reference)[ \t]+){0,2}"
    r"(?:context|documents|sources|passages|excerpts|search results|knowledge base)(?:[ \t]+information)?"
    r"(?:[ \t]+for[ \t]+(?:the|your)[ \t]+(?:context|question|query))?(?:[ \t]+(?:is|are)[ \t]+below)?"
    r"[ \t*]*[:.][ \t*]*(?:\n-{3,})?",
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
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_LINE = re.compile(r"([A-Za-z][\w ]{0,30}):[ \t]*(\S.{0,300})")
_DESCRIBING = frozenset(
    ("title", "source", "file_name", "file_path", "filename", "url", "doc_id", "document_id", "page_label")
)
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
    block = documents_part(text[heading.end() :])
    rule = _RULE.search(block) if heading[0].endswith("---") else None
    return _substantial(block[: rule.start()] if rule else block)


def _substantial(block: str) -> str | None:
    block = block.strip()
    return None if len(block) < _SHORTEST or _REMARK.fullmatch(block) else block


def _split(block: str) -> list[Citation]:
    described = _described(block)
    if described:
        return described
    labels = list(_LABEL.finditer(block))
    if not labels or block[: labels[0].start()].strip():
        return [Citation(content=block, used=True)]
    ends = [*(label.start() for label in labels[1:]), len(block)]
    pieces = [(label[1] or label[2], block[label.end() : end].strip()) for label, end in zip(labels, ends, strict=True)]
    return [Citation(id=name, content=piece, used=True) for name, piece in pieces if piece]


def _described(block: str) -> list[Citation]:
    """LlamaIndex shows each document below lines such as `title: ...` and `file_path: ...`."""
    rows: list[dict[str, AttributeValue]] = []
    bodies: list[list[str]] = []
    for paragraph in _PARAGRAPH.split(block):
        said = [_LINE.fullmatch(line.strip()) for line in paragraph.split("\n")]
        settings = {line[1].lower(): line[2] for line in said if line is not None}
        if len(settings) == len(said) and not settings.keys().isdisjoint(_DESCRIBING):
            rows.append({"metadata": settings})
            bodies.append([])
        elif not rows:
            return []
        else:
            bodies[-1].append(paragraph)
    listed: list[AttributeValue] = [
        {**row, "content": "\n\n".join(body)} for row, body in zip(rows, bodies, strict=True)
    ]
    read = documents(listed, trusted=True) if listed else None
    return [replace(one, used=True) for one in read.citations if one.content] if read is not None else []
