"""Python `repr`s inside attributes: messages and documents of frameworks that print their objects.

LlamaIndex, DSPy and Haystack write `ChatMessage(role=<MessageRole.USER: 'user'>, ... text='...')`, LangChain 0.1
`HumanMessage(content='...')`. What is read here is less certain than JSON: a repr may itself be a shortened preview.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from monitor.extract import literals
from monitor.extract.attributes import finite
from monitor.model.spans import AttributeValue

_PRINTED = re.compile(
    r"""\s*+(?:\[\s*+)?<?(?:(?:Chat|Human|AI|System|Tool|Function|Text|User|Assistant)Message(?:Chunk)?\(|content=['"]"""
    r"""|messages=\[|(?:id|source)='[^']{1,80}' (?:\w+=.*)?\bcontent=['"])""",
    re.DOTALL,
)
_PRINTED_PLAIN = re.compile(r"\s*+(?:[\[(]\s*+)?\{'")
_DOCUMENTS = "Document|NodeWithScore|TextNode|ImageNode|IndexNode|Chunk|ScoredPoint"
_PRINTED_OBJECT = re.compile(r"\s*<?[A-Z]\w*\(\s*\w+=.*(?:\)>?|\.\.\.)\s*", re.DOTALL)
_FIELD = re.compile(r"""\b(\w+)=('(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")""", re.DOTALL)
_ENTRY = re.compile(r"""[{,]\s?'(\w{1,60})': ('(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")""", re.DOTALL)
_PRINTED_DOCUMENT = re.compile(rf"\s*(?:<?(?:{_DOCUMENTS})\(|page_content=['\"])")
_STRING = r"""(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")"""
# A quotation mark behind a backslash begins nothing: where none ends, each would be tried up to the end of the text.
_DOCUMENT_OR_QUOTED = re.compile(rf"(?<!\\){_STRING}|(?:(?<=\[)|(?<=, ))<?((?:{_DOCUMENTS})\()", re.DOTALL)
_CONTENT = re.compile(rf"\b(?:text|content|page_content)=({_STRING})", re.DOTALL)
_METADATA = re.compile(rf"\b(?:metadata|meta|payload)=(\{{(?:[^{{}}'\"]|{_STRING}|\{{[^{{}}]*+\}})*+\}})", re.DOTALL)
_TEXT = re.compile(r"""\b(?:text|content)=((?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"))""", re.DOTALL)
_ROLE = re.compile(
    r"<\w*+(?<=Role)\.(\w+)"
    r"|(?=[rHASTFU])\b(?:role='(\w+)'|(Human|AI|System|Tool|Function|User|Assistant)Message(?:Chunk)?\()"
)
_SOURCE = re.compile(r"\bsource='([^']{1,80})'")
_MESSAGE = re.compile(r"\b(?:Chat|Human|AI|System|Tool|Function|Text|User|Assistant)Message(?:Chunk)?\(")
_ANSWERED = re.compile(r"\b(?:usage_metadata=\{|response_metadata=\{['\"]|id='(?:lc_)?run-)")
"""What LangChain prints of a model's message and of no other; its `str` names no class."""
_META = re.compile(r",\s*(?:_meta|response_metadata|additional_kwargs|usage_metadata)=\{(?!\})")
_ID = re.compile(r"\bid_?=(?:'([^']+)'|([^\s,)'\"]+))")
_SCORE = re.compile(r"s(?<!\ws)core[=:]\s*(-?[\d.]+(?:e-?\d+)?)")
_LITERAL = re.compile(r"^\s*\w+=(?=[\[{(])")


def prints_plain(text: str) -> bool:
    """Return whether a text begins like objects of plain values that Python printed rather than like JSON.

    >>> prints_plain("[{'id': 1}]"), prints_plain('[{"id": 1}]')
    (True, False)
    """
    return bool(_PRINTED_PLAIN.match(text))


def prints_messages(text: str) -> bool:
    """Return whether the text begins like printed chat messages rather than like what a person or model wrote."""
    return bool(_PRINTED.match(text))


def prints_object(text: str) -> bool:
    """Return whether the text is an object as Python prints it, whole or shortened to a preview.

    >>> prints_object("StopEvent(result=AgentOutput(response='Char..."), prints_object("Use f(x=1).")
    (True, False)
    """
    return bool(_PRINTED_OBJECT.fullmatch(text))


def last_message(text: str) -> tuple[str, str] | None:
    """Return (role, content) of the last message printed in the text; None when it has no content or was cut.

    >>> last_message("Run(input=[HumanMessage(content='Why?'), AIMessage(content='S...") is None
    True
    """
    starts = [match.start() for match in _MESSAGE.finditer(text)]
    return next(iter(messages(text[starts[-1] :])), None) if starts else None


def field(text: str, names: Sequence[str]) -> str | None:
    """Return the first of `names` that a printed object has as a whole text, outermost first; None when it has none.

    >>> field("Prediction(reasoning='r', answer='So.')", ("response", "answer"))
    'So.'
    """
    fields = {match[1]: match[2] for match in reversed(list(_FIELD.finditer(text)))}
    return next((_unquote(fields[name]) for name in names if name in fields), None)


def entry(text: str, names: Sequence[str]) -> str | None:
    """Return the first of `names` that is a key of a printed dict with a text, whatever else the dict holds.

    >>> entry("{'llm': {'callback': <function f at 0x7f>}, 'prompt': {'question': 'Why?'}}", ["question"])
    'Why?'
    """
    entries = {match[1]: match[2] for match in reversed(list(_ENTRY.finditer(text)))}
    return next((_unquote(entries[name]) for name in names if name in entries), None)


def messages(text: str) -> tuple[tuple[str, str], ...]:
    """Return (role, content) of each message printed in the text, in order; role is "" where it does not say.

    >>> messages("HumanMessage(content='Why?') AIMessage(content='So.')")
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
            read.append(
                (next((group for group in role.groups() if group), "") if role else _unnamed(piece), "\n".join(texts))
            )
    return tuple(read)


def document(text: str) -> Mapping[str, AttributeValue] | None:
    """Return what one printed document says under `id`, `content`, `score` and `metadata`; None if it is none.

    >>> document("<NodeWithScore(node=TextNode(id_=kb-3), score=0.62)>")
    {'id': 'kb-3', 'score': 0.62}
    >>> document("page_content='A mill.' metadata={'source': 'a.md'}")
    {'content': 'A mill.', 'metadata': {'source': 'a.md'}}
    """
    if not _PRINTED_DOCUMENT.match(text):
        return None
    settings = _METADATA.search(text)
    plain = text if settings is None else text[: settings.start()] + text[settings.end() :]
    content = _CONTENT.search(plain)
    rest = plain if content is None else plain[: content.start()] + plain[content.end() :]
    identity, score = _ID.search(rest), _SCORE.search(rest)
    row: dict[str, AttributeValue] = {}
    if identity is not None:
        row["id"] = identity[1] or identity[2]
    if content is not None:
        row["content"] = literals.unquoted(content[1])
    if score is not None and (number := finite(score[1])) is not None:
        row["score"] = number
    metadata = literal(settings[1]) if settings is not None else None
    if metadata:
        row["metadata"] = metadata
    return row if row.keys() & {"id", "content"} else None


def documents(text: str) -> tuple[str, ...]:
    """Return the documents that a printed list holds, each as it is printed; empty for anything else.

    >>> documents("[Document(page_content='a, Document(b)'), Document(page_content='c')]")
    ("Document(page_content='a, Document(b)'), ", "Document(page_content='c')")
    """
    if text.lstrip()[:1] != "[" or not _PRINTED_DOCUMENT.match(text.lstrip()[1:]):
        return ()
    starts = [match.start() for match in _DOCUMENT_OR_QUOTED.finditer(text) if match[1]]
    end = text.rindex("]") if text.rstrip().endswith("]") else len(text)
    return tuple(text[start:stop] for start, stop in pairwise((*starts, end)))


def _unnamed(piece: str) -> str:
    source = _SOURCE.search(piece)
    if source is not None:  # AutoGen names the agent that speaks
        return "user" if source[1] == "user" else "assistant"
    if "tool_call_id='" in piece:
        return "Tool"
    return "AI" if _ANSWERED.search(piece) else ""


def artifact(text: str) -> str:
    """Return what a printed tool message keeps beside its content, as it is printed; "" for nothing.

    >>> artifact("content='Found.' name='find' artifact=[Document(page_content='A mill.')]")
    "[Document(page_content='A mill.')]"
    """
    return text.rpartition(" artifact=")[2] if " artifact=[" in text else ""


def literal(text: str) -> AttributeValue:
    """Return the value of a printed list, tuple or dict of plain values (`name=[...]` too); None for anything else."""
    body = _LITERAL.sub("", text, count=1).strip()
    return literals.value(body) if body[:1] in {"[", "{", "("} else None


def _unquote(quoted: str) -> str:
    try:
        return literals.unquoted(quoted)
    except ValueError:
        return quoted[1:-1]
