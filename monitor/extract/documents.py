"""Retrieved documents in the shapes that retrievers and frameworks give them, as citations.

Known shapes: plain texts, objects with the usual key names, LangChain constructor JSON, LlamaIndex `{node, score}`,
`[document, score]` pairs, columns of a vector store, JSON in JSON, and Python reprs of documents and lists of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from monitor.extract import reprs
from monitor.extract.attributes import REDACTED, finite, is_mapping, is_sequence
from monitor.extract.component_names import searches, spellings
from monitor.extract.excerpts import SHORTEST, excerpts
from monitor.extract.json_text import parse
from monitor.extract.messages import role_of, text_of
from monitor.extract.printed import is_printed
from monitor.model.spans import AttributeValue
from monitor.model.turns import Citation

_IDS = spellings("id", "id_", "doc_id", "document_id", "node_id", "chunk_id", "uuid", "pid", "point_id")
_CONTENTS = spellings(
    "content", "page_content", "text", "document", "body", "passage", "snippet", "long_text", "chunk",
)  # fmt: skip
_TITLES = spellings("title", "name", "file_name", "filename", "heading")
_SOURCES = spellings("source", "url", "uri", "file_path", "path", "link", "file_name", "filename")
_METADATA = ("metadata", "meta", "payload", "extra_info", "attributes", "properties")
_LISTS = spellings(
    "documents", "docs", "source_documents", "context", "contexts", "retrieved_documents", "retrieved_contexts",
    "source_nodes", "nodes", "passages", "chunks", "results", "matches", "hits", "retrieval_context",
)  # fmt: skip
_OBJECTS = ("sources", "relevantContext")
"""Lists that hold documents when they are lists of objects, and names otherwise."""
_DEPTH = 5
_SENTENCE = 4
"""Words of the shortest text that is content rather than a name."""

ScoreKind: TypeAlias = Literal["similarity", "distance", "unknown"]

_SIMILARITIES = spellings("relevance_score", "similarity", "relevance", "certainty", "rerank_score", "similarity_score")
_SCORES: Mapping[str, ScoreKind] = {
    **dict.fromkeys(_SIMILARITIES, "similarity"),
    "score": "unknown",
    **dict.fromkeys(("distance", "_distance"), "distance"),
}
"""In order of preference: beside a distance the score is what the app goes by."""


@dataclass(frozen=True, slots=True)
class Documents:
    """Citations in the order given, ranked from 1; `damaged` when metadata could not be read."""

    citations: tuple[Citation, ...]
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value stands; `trusted`: the convention, or the key it stands under, says that it is a document."""

    trusted: bool
    depth: int = 0

    def inside(self, *, trusted: bool | None = None) -> _Place:
        """Return the place of what stands in the value, as trusted as the value itself unless said otherwise."""
        return _Place(self.trusted if trusted is None else trusted, self.depth + 1)


def documents(value: AttributeValue, *, trusted: bool = False) -> Documents | None:
    """Return the documents in a value, () for an empty list, None when it is no list of documents.

    `trusted`: the convention says these are documents, so an id alone or a plain text suffices; otherwise objects
    must show content next to an id, source, title or score.
    """
    citations, damaged = _listed(value, _Place(trusted))
    return None if citations is None else Documents(ranked(citations), damaged)


def tool_documents(tool: str | None, value: AttributeValue) -> Documents | None:
    """Return the documents in what a tool returned; of one whose name says that it searches, texts alone suffice.

    A remark of a few words is no document, nor is a record without text.

    >>> tool_documents("getInformation", [{"text": "Pumps are covered."}]).citations[0].content
    'Pumps are covered.'
    >>> tool_documents("getInformation", "No documents found."), tool_documents("send_mail", [{"text": "Sent."}])
    (None, None)
    """
    read = documents(value)
    if read is not None or not searches(tool or ""):
        return read
    read = documents(value, trusted=True)
    if read is not None:
        return read if any(citation.content for citation in read.citations) else None
    if isinstance(value, str) and len(value.strip()) >= SHORTEST and not is_printed(value):
        return Documents((Citation(content=value.strip(), rank=1),))
    return None


def document(value: AttributeValue, *, trusted: bool = False) -> Documents | None:
    """Return one document as a list of one, None when the value is no document."""
    citation, damaged = _single(value, _Place(trusted))
    return None if citation is None else Documents((citation,), damaged)


def ranked(citations: Sequence[Citation]) -> tuple[Citation, ...]:
    """Return the citations with `rank` counting from 1."""
    return tuple(
        citation if citation.rank == rank else replace(citation, rank=rank)
        for rank, citation in enumerate(citations, 1)
    )


def _listed(value: AttributeValue, place: _Place) -> tuple[list[Citation] | None, bool]:
    if place.depth > _DEPTH:
        return None, False
    if isinstance(value, str):
        return _in_text(value, place)
    if is_mapping(value):
        return _from_container(value, place)
    if not is_sequence(value):
        return None, False
    read = _in_blocks if value and all(map(_is_block, value)) else _items
    return read(value, place)


def _in_text(text: str, place: _Place) -> tuple[list[Citation] | None, bool]:
    """JSON, printed objects, a printed message of a tool, or a text written for a model to read."""
    printed = reprs.literal(text) if reprs.prints_plain(text) else None
    if printed is not None:
        return _listed(printed, place.inside())
    parsed = parse(text)
    if parsed is not None and not isinstance(parsed.value, str):
        return _listed(parsed.value, place.inside())
    printed_documents: Sequence[AttributeValue] = reprs.documents(text)
    if not printed_documents and reprs.prints_messages(text):
        printed_documents = reprs.documents(reprs.artifact(text))
        messages = reprs.messages(text)
        if not printed_documents and messages:
            return _listed(messages[-1][1], place.inside())
    printed_documents = printed_documents or excerpts(text)
    return _listed(printed_documents, place.inside()) if printed_documents else (None, False)


def _items(value: Sequence[AttributeValue], place: _Place) -> tuple[list[Citation] | None, bool]:
    citations: list[Citation] = []
    damaged = False
    inside = place.inside()
    for item in value:
        citation, is_damaged = _single(item, inside, rank=len(citations) + 1)
        damaged |= is_damaged
        if citation is not None:
            citations.append(citation)
    if not citations and value:
        if len(value) == 1 and (is_sequence(value[0]) or is_mapping(value[0])):
            return _listed(value[0], place.inside())
        return None, damaged
    return citations, damaged


def _is_block(part: AttributeValue) -> bool:
    """Whether it is a part of a message whose text is JSON: what MCP and Bedrock make of a tool's result."""
    text = part.get("text") if is_mapping(part) and part.keys() <= {"type", "text", "annotations"} else None
    return isinstance(text, str) and text.lstrip()[:1] in {"[", "{"}


def _in_blocks(value: Sequence[AttributeValue], place: _Place) -> tuple[list[Citation] | None, bool]:
    citations: list[Citation] = []
    damaged = read = False
    for part in value:
        in_part, is_damaged = _listed(part["text"] if is_mapping(part) else None, place.inside())
        damaged, read = damaged or is_damaged, read or in_part is not None
        citations += in_part or ()
    return (citations if read else None), damaged


def _from_container(value: Mapping[str, AttributeValue], place: _Place) -> tuple[list[Citation] | None, bool]:
    for key in _LISTS:
        inner = value.get(key)
        if is_sequence(inner):
            columns = _columns(value) if key == "documents" and inner and is_sequence(inner[0]) else None
            read = (columns, False) if columns is not None else _listed(inner, place.inside(trusted=True))
            if read[0] is not None:
                return read
        elif is_mapping(inner):
            read = _listed(inner, place.inside())
            if read[0] is not None:
                return read
    citations = _of_objects(value, place)
    if citations is not None:
        return citations, False
    for key in ("output", "outputs", "result", "data"):
        if key in value:
            return _listed(value[key], place.inside())
    citation, damaged = _single(value, place.inside())
    return (None if citation is None else [citation]), damaged


def _of_objects(value: Mapping[str, AttributeValue], place: _Place) -> list[Citation] | None:
    for key in _OBJECTS if value.keys().isdisjoint(_CONTENTS) else ():
        objects = value.get(key)
        if is_sequence(objects) and all(map(is_mapping, objects)):
            read, _ = _listed(objects, place.inside(trusted=False))
            if read is not None:
                return read
    return None


def _columns(value: Mapping[str, AttributeValue]) -> list[Citation] | None:
    """Chroma's result: parallel lists per query; the first query's are read."""

    def column(name: str) -> Sequence[AttributeValue]:
        lists = value.get(name)
        first = lists[0] if is_sequence(lists) and lists else None
        return first if is_sequence(first) else ()

    ids, texts, distances, metadatas = map(column, ("ids", "documents", "distances", "metadatas"))
    if not texts:
        return None
    rows: list[Citation] = []
    for i, body in enumerate(texts):
        row: dict[str, AttributeValue] = {"content": body}
        for name, values in (("id", ids), ("distance", distances), ("metadata", metadatas)):
            if i < len(values):
                row[name] = values[i]
        citation, _ = _single(row, _Place(trusted=True, depth=1), rank=len(rows) + 1)
        if citation is not None:
            rows.append(citation)
    return rows


def _single(  # noqa: PLR0911 -- one return per shape
    value: AttributeValue, place: _Place, *, rank: int = 1
) -> tuple[Citation | None, bool]:
    if place.depth > _DEPTH:
        return None, False
    if isinstance(value, str):
        return _from_text(value, place, rank=rank)
    if is_sequence(value):
        if len(value) == 2 and not isinstance(value[1], str):  # noqa: PLR2004 -- [document, score]
            inner, damaged = _single(value[0], place.inside(), rank=rank)
            score = finite(value[1])
            return (replace(inner, score=score) if inner and score is not None else inner), damaged
        return None, False
    if not is_mapping(value) or _is_message(value):
        return None, False
    for wrapper in ("kwargs", "node", "document", "entity", "doc", "json"):
        wrapped = value.get(wrapper)
        if is_mapping(wrapped) and (wrapper != "kwargs" or "lc" in value):
            inner, damaged = _single(wrapped, place.inside(), rank=rank)
            if inner is None:
                return None, damaged
            score, kind = _score(value)
            return (inner if score is None else replace(inner, score=score, score_kind=kind)), damaged
    return _from_mapping(value, trusted=place.trusted, rank=rank)


def _is_message(value: Mapping[str, AttributeValue]) -> bool:
    """Whether somebody said it: messages have ids and texts too. LangChain names a message's class in `id`."""
    name = value.get("id") if "lc" in value else None
    roles = (value.get("role"), value.get("type"), name[-1] if is_sequence(name) and name else None)
    return any(role_of(role) is not None for role in roles)


def _from_text(value: str, place: _Place, *, rank: int) -> tuple[Citation | None, bool]:
    if not value.strip():
        return None, False
    parsed = parse(value)
    if parsed is not None and is_mapping(parsed.value):
        return _single(parsed.value, place.inside(), rank=rank)
    printed = reprs.document(value)
    if printed is not None:
        return _from_mapping(printed, trusted=True, rank=rank)
    return (Citation(content=value, rank=rank) if place.trusted and value != REDACTED else None), False


def _from_mapping(value: Mapping[str, AttributeValue], *, trusted: bool, rank: int) -> tuple[Citation | None, bool]:
    meta, damaged = _metadata(value)
    identity = _text(value, _IDS) or _text(meta, _IDS)
    content = _text(value, _CONTENTS) or _text(meta, ("text", "content", "page_content", "chunk", "document"))
    content = content or _parts(value.get("content"))
    score, kind = _score(value)
    if score is None:
        score, kind = _score(meta)
    title = _text(value, _TITLES) or _text(meta, _TITLES)
    source = _text(value, _SOURCES) or _text(meta, _SOURCES)
    if content is None and score is not None:
        content = _only_sentence(value)
        title = None if title == content else title
    citation = Citation(
        id=identity, title=title, content=content, score=score, score_kind=kind, source=source, rank=rank
    )
    known = any(part is not None for part in (identity, title, source, score)) or bool(meta)
    if content is None and not (trusted and (identity is not None or source is not None)):
        return None, damaged
    return (citation if trusted or known else None), damaged


def _only_sentence(value: Mapping[str, AttributeValue]) -> str | None:
    """What a search returned beside a score, under whatever name: the only text that is a sentence."""
    sentences = [text for text in value.values() if isinstance(text, str) and len(text.split()) >= _SENTENCE]
    return sentences[0] if len(sentences) == 1 else None


def _parts(content: AttributeValue) -> str | None:
    """The text of content in parts, as Genkit and tools of MCP servers have it."""
    are_texts = is_sequence(content) and all(is_mapping(part) and "text" in part for part in content)
    return text_of(content).strip() or None if are_texts else None


def _metadata(value: Mapping[str, AttributeValue]) -> tuple[Mapping[str, AttributeValue], bool]:
    for key in _METADATA:
        written = value.get(key)
        if is_mapping(written):
            return written, False
        if isinstance(written, str) and written.strip():
            parsed = parse(written)
            if parsed is not None and is_mapping(parsed.value):
                return parsed.value, parsed.cut is not None
            return {}, written != REDACTED
    return {}, False


def _score(value: Mapping[str, AttributeValue]) -> tuple[float | None, ScoreKind]:
    for key, kind in _SCORES.items():
        if key in value and (score := finite(value[key])) is not None:
            return score, kind
    return None, "unknown"


def _text(value: Mapping[str, AttributeValue], keys: Sequence[str]) -> str | None:
    for key in keys:
        if key not in value:
            continue
        written = value[key]
        if isinstance(written, str) and written.strip() and written != REDACTED:
            return written
        if isinstance(written, int) and not isinstance(written, bool):
            return str(written)
    return None
