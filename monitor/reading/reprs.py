"""Python `repr`s inside attributes: messages and documents of frameworks that print their objects.

LlamaIndex, DSPy and Haystack write `ChatMessage(role=<MessageRole.USER: 'user'>, ... text='...')`, LangChain 0.1
`HumanMessage(content='...')`. What is read here is less certain than JSON: a repr may itself be a shortened preview.
"""

from __future__ import annotations

import re

from monitor.reading import literals
from monitor.spans import AttributeValue

_PRINTED = re.compile(
    r"""\s*\[?\s*<?(?:(?:Chat|Human|AI|System|Tool|Function)Message(?:Chunk)?\(|content=['"]|messages=\[)"""
)
_PRINTED_DOCUMENT = re.compile(r"\s*<?(?:Document|NodeWithScore|TextNode|ImageNode|IndexNode|Chunk|ScoredPoint)\(")
_TEXT = re.compile(r"""\b(?:text|content)=((?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"))""", re.DOTALL)
_ROLE = re.compile(r"<(?:\w*Role)\.(\w+)|\brole='(\w+)'|\b(Human|AI|System|Tool|Function)Message(?:Chunk)?\(")
_MESSAGE = re.compile(r"\b(?:Chat|Human|AI|System|Tool|Function)Message(?:Chunk)?\(")
_META = re.compile(r",\s*(?:_meta|response_metadata|additional_kwargs|usage_metadata)=\{(?!\})")
_ID = re.compile(r"\bid_?=(?:'([^']+)'|([^\s,)'\"]+))")
_SCORE = re.compile(r"\bscore[=:]\s*(-?[\d.]+(?:e-?\d+)?)")
_LITERAL = re.compile(r"^\s*\w+=(?=[\[{(])")


def prints_messages(text: str) -> bool:
    """Return whether the text begins like printed chat messages rather than like what a person or model wrote."""
    return bool(_PRINTED.match(text))


def spoken(text: str) -> tuple[tuple[str, str], ...]:
    """Return (role, content) of each message printed in the text, in order; role is "" where it does not say.

    >>> spoken("HumanMessage(content='Why?') AIMessage(content='So.')")
    (('Human', 'Why?'), ('AI', 'So.'))
    """
    starts = [match.start() for match in _MESSAGE.finditer(text)] or [0]
    read = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        piece = text[start:end]
        meta = _META.search(piece)
        texts = [_unquote(match[1]) for match in _TEXT.finditer(piece, 0, meta.start() if meta else len(piece))]
        if texts:
            role = _ROLE.search(piece)
            read.append((next((group for group in role.groups() if group), "") if role else "", "\n".join(texts)))
    return tuple(read)


def document(text: str) -> tuple[str | None, str | None, float | None] | None:
    """Return (id, content, score) of one printed document, None when the text prints no document.

    >>> document("<NodeWithScore(node=TextNode(id_=kb-3), score=0.62)>")
    ('kb-3', None, 0.62)
    """
    if not _PRINTED_DOCUMENT.match(text):
        return None
    identity, score = _ID.search(text), _SCORE.search(text)
    content = _TEXT.search(text)
    if identity is None and content is None:
        return None
    try:
        number = float(score[1]) if score else None
    except ValueError:
        number = None
    return (
        (identity[1] or identity[2]) if identity else None,
        _unquote(content[1]) if content else None,
        number,
    )


def literal(text: str) -> AttributeValue:
    """Return the value of a printed list, tuple or dict of plain values (`name=[...]` too); None for anything else."""
    body = _LITERAL.sub("", text, count=1).strip()
    return literals.value(body) if body[:1] in {"[", "{", "("} else None


def _unquote(quoted: str) -> str:
    try:
        return literals.unquoted(quoted)
    except ValueError:
        return quoted[1:-1]
