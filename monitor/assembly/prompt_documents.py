"""Documents that only the prompt holds, for apps whose retrieval is not instrumented.

Read is what a tool returned since the question, else what stands between a heading such as `Context:` and the question,
or inside `<context>`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from monitor.assembly.prompt_patterns import PromptPatterns
from monitor.assembly.prompt_question import documents_part
from monitor.extract.chain_io import documents_from_tools
from monitor.extract.documents import documents, ranked
from monitor.extract.excerpts import SHORTEST
from monitor.model.turns import Citation, Message

_HEADING = re.compile(
    r"(?:^|\n)[ \t>#*-]{0,10}+(?=[a-z])(?:here[ \t]++(?:is|are)[ \t]++(?:the|some)[ \t]++)?+"
    r"(?:(?:retrieved|relevant|following|given|provided|reference)[ \t]++){0,2}+"
    r"(?:context|documents|sources|passages|excerpts|search results|knowledge base)(?:[ \t]++information)?+"
    r"(?:[ \t]++for[ \t]++(?:the|your)[ \t]++(?:context|question|query))?+(?:[ \t]++(?:is|are)[ \t]++below)?+"
    r"(?:[ \t*]*+[:.]|,?[ \t]++surrounded[ \t]++by[ \t]++-{3,})[ \t*]*(?:\s{1,4}-{3,})?",
    re.IGNORECASE,
)
_POINTING = re.compile(r"\b(?:following|below|provided|given|retrieved)\b", re.IGNORECASE)
_SUBJECT = re.compile(
    r"\b(?:context|information|documents?|sources|passages|excerpts|snippets|articles|knowledge|facts)\b", re.IGNORECASE
)
_PIECES = re.compile(r"\bfollowing (?:pieces of )?(?:retrieved )?(?:context|documents|information|passages|sources)\b")
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
LONGEST_LINE = 300
"""Characters of a line that may introduce documents."""
_LONGEST_PARAGRAPH = 600
_TAGS = ("context", "documents", "sources", "passages")
_RULE = re.compile(r"\n-{3,}[ \t]*(?:\n|$)")
_NOTHING = re.compile(
    r"\W*(?:(?:none|null|n/a|nil|empty|nothing|nichts)\W*$"
    r"|(?:no|not|keine?)\b.*\b(?:found|available|provided|gefunden|results?|documents?|context)\b)",
    re.IGNORECASE | re.DOTALL,
)
_REMARK = re.compile(r"\s*[(\[<].{0,80}[)\]>]\s*", re.DOTALL)


def quoted_documents(messages: Sequence[Message], patterns: PromptPatterns) -> tuple[Citation, ...]:
    """Return the documents that a prompt quotes, by rank; empty when none can be told apart from instructions."""
    from_tools = documents_from_tools(messages)
    if from_tools is not None:
        return tuple(replace(citation, used=True) for citation in from_tools)
    for message in reversed(messages):
        if message.role in {"user", "system"}:
            block = _tagged(message.content) or _headed(message.content, patterns)
            if block is not None:
                return ranked(_split(block))
    return ()


def _tagged(text: str) -> str | None:
    for tag in _TAGS:
        end = text.rfind(f"</{tag}>")
        start = text.rfind(f"<{tag}>", 0, end) if end > 0 else -1
        if start >= 0:
            return _enclosed(text[start + len(tag) + 2 : end])
    return None


def _headed(text: str, patterns: PromptPatterns) -> str | None:
    heading = _HEADING.search(text)
    if heading is None:
        begins = _introduced(text)
        return None if begins is None else _substantial(documents_part(text[begins:], patterns))
    body = text[heading.end() :]
    rule = _RULE.search(body) if heading[0].endswith("---") else None
    return _enclosed(body[: rule.start()]) if rule else _substantial(documents_part(body, patterns))


def _introduced(text: str) -> int | None:
    """Where the documents begin that a sentence introduces: a line that ends with a colon, else a paragraph."""
    at = 0
    for line in text.splitlines(keepends=True):
        at += len(line)
        heading = line.strip() if len(line) <= LONGEST_LINE else ""
        if heading.endswith(":") and _POINTING.search(heading) and _SUBJECT.search(heading):
            return at
    at = 0
    for gap in _PARAGRAPH.finditer(text):
        if gap.start() - at <= _LONGEST_PARAGRAPH and _PIECES.search(text, at, gap.start()):
            return gap.end()
        at = gap.end()
    return None


def _enclosed(block: str) -> str | None:
    """What tags or rules enclose, however short, unless it says that there is nothing."""
    block = block.strip()
    is_remark = len(block) < SHORTEST and (_NOTHING.match(block) or _REMARK.fullmatch(block))
    return block if block and not is_remark else None


def _substantial(block: str) -> str | None:
    block = block.strip()
    return None if len(block) < SHORTEST or _REMARK.fullmatch(block) else block


def _split(block: str) -> list[Citation]:
    listed = documents(block)
    citations = listed.citations if listed is not None and listed.citations else (Citation(content=block),)
    return [replace(citation, used=True) for citation in citations]
