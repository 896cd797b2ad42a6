"""Documents in a text that an app wrote for a model to read: what begins each of them, and what it says of itself.

Known forms: labels such as `[kb-1]`, `Document 2:` or `manual.pdf#page=3:` (Azure's demos), elements such as
`<document id="kb-1">`, `Source: ...` above `Content: ...` (LangChain's tutorials), and lines such as `title: ...` above
each text (LlamaIndex).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from monitor.extract.reprs import literal
from monitor.model.spans import AttributeValue

_LABEL = re.compile(
    r"^[ \t]*(?:\[([^\]\n]{1,80})\]|(?:document|source|passage|chunk)[ \t]*#?(\d{1,3})[ \t]*[:.]"
    r"|([^\s\[\]:.][^\n\[\]:.]{0,100}(?:\.[^\s\[\]:.]{1,40}){0,3}"
    r"\.[A-Za-z][A-Za-z0-9]{1,4}(?:#[\w=&.-]{1,60})?):[ \t])",
    re.IGNORECASE | re.MULTILINE,
)
_ELEMENT = re.compile(r"<(document|doc|passage|chunk|excerpt)((?:\s[^<>]{0,300})?)>", re.IGNORECASE)
_INNER_ELEMENT = re.compile(r"<(id|title|source|url|document_content|content|text)>([^<]*+)</", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"\b(id|index|title|source|url|name)=[\"']([^\"'<>]{1,200})[\"']", re.IGNORECASE)
_NAMING = frozenset(("id", "title", "source", "url", "name"))
_LEVEL = re.compile(r"[A-Z]+|error|warning|info|debug|note", re.IGNORECASE)
"""What stands in brackets before a remark."""
_SOURCED = re.compile(r"^Source:[ \t]*+(.{0,400}+)\n++Content:[ \t]*+", re.IGNORECASE | re.MULTILINE)
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_LINE = re.compile(r"([A-Za-z][\w ]{0,30}):[ \t]*(\S.{0,300})")
_DESCRIBING = frozenset(
    ("title", "source", "file_name", "file_path", "filename", "url", "doc_id", "document_id", "page_label")
)
SHORTEST = 40
"""Characters of the shortest text that counts as retrieved rather than as a remark such as "(no documents found)"."""


def excerpts(text: str) -> tuple[Mapping[str, AttributeValue], ...]:
    """Return the documents of a text that begins with one, as objects with content; empty when it does not.

    >>> excerpts("[k-1] The mill is run by the Berger family.")
    ({'id': 'k-1', 'content': 'The mill is run by the Berger family.'},)
    """
    body = text.strip()
    if len(body) < SHORTEST:
        return ()
    return _sourced(body) or _described(body) or _marked_up(body) or _labelled(body)


def _sourced(text: str) -> tuple[Mapping[str, AttributeValue], ...]:
    marks = list(_SOURCED.finditer(text))
    if not marks or marks[0].start() > 0:
        return ()
    rows: list[Mapping[str, AttributeValue]] = []
    for mark, body in zip(marks, _bodies(text, marks), strict=True):
        settings = literal(mark[1])
        rows.append({"content": body, "metadata": settings if isinstance(settings, dict) else {"source": mark[1]}})
    return tuple(row for row in rows if row["content"])


def _labelled(text: str) -> tuple[Mapping[str, AttributeValue], ...]:
    labels = list(_LABEL.finditer(text))
    names = [label[1] or label[2] or label[3] for label in labels]
    if not labels or labels[0].start() > 0 or all(map(_LEVEL.fullmatch, names)):
        return ()
    named_bodies = zip(names, _bodies(text, labels), strict=True)
    return tuple({"id": name, "content": body} for name, body in named_bodies if body)


def _marked_up(text: str) -> tuple[Mapping[str, AttributeValue], ...]:
    """Elements; an attribute, or an element inside, names the document."""
    elements = list(_ELEMENT.finditer(text))
    if not elements or elements[0].start() > 0:
        return ()
    rows: list[Mapping[str, AttributeValue]] = []
    for element, rest in zip(elements, _bodies(text, elements), strict=True):
        body = rest.partition(f"</{element[1]}>")[0]
        inner = {field[1].lower(): field[2].strip() for field in _INNER_ELEMENT.finditer(body)}
        fields = {field[1].lower(): field[2] for field in _ATTRIBUTE.finditer(element[2])} | inner
        content = inner.get("document_content") or inner.get("content") or inner.get("text") or body
        if content.strip():
            settings = {key: value for key, value in fields.items() if key in _NAMING}
            rows.append({"content": content.strip(), **settings})
    return tuple(rows)


def _bodies(text: str, marks: Sequence[re.Match[str]]) -> list[str]:
    """What follows each mark, up to the next."""
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    return [text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)]


def _described(text: str) -> tuple[Mapping[str, AttributeValue], ...]:
    settings: list[Mapping[str, AttributeValue]] = []
    bodies: list[list[str]] = []
    for paragraph in _PARAGRAPH.split(text):
        lines = [_LINE.fullmatch(line.strip()) for line in paragraph.split("\n")]
        fields = {line[1].lower(): line[2] for line in lines if line is not None}
        if len(fields) == len(lines) and not fields.keys().isdisjoint(_DESCRIBING):
            settings.append(fields)
            bodies.append([])
        elif not settings:
            return ()
        else:
            bodies[-1].append(paragraph)
    rows = zip(settings, bodies, strict=True)
    return tuple({"content": "\n\n".join(body), "metadata": fields} for fields, body in rows if body)
