"""The documents of a turn: which of the spans that list documents counts, merged, completed and marked as used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from monitor.assembly.document_labels import introduced_at
from monitor.assembly.prompt_documents import quoted_documents
from monitor.assembly.prompt_patterns import PromptPatterns
from monitor.assembly.prompt_question import occurs, passages, shown, templated
from monitor.assembly.tree import WRAPPERS, Node
from monitor.extract.component_names import searches
from monitor.extract.documents import ranked
from monitor.model.spans import Role, Step
from monitor.model.turns import Citation, Message

_RETRIEVING = frozenset((Role.RETRIEVAL, Role.RERANK))
_QUOTED = 100
"""Documents without text that are looked for in a prompt."""
_BLANK_LINES = re.compile(r"\n[ \t]*\n")
_FILTERING = re.compile(r"filter|postprocess|grade|prune|compress|rerank|threshold|dedup", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCitations:
    """A turn's documents in rank order; None when no retrieval was seen, () when it found nothing."""

    citations: tuple[Citation, ...] | None
    flags: frozenset[str] = frozenset()


def retrieved_documents(nodes: Sequence[Node]) -> tuple[Citation, ...] | None:
    """Return the documents of the first of these that lists any, in order of preference.

    Rerankers (what they kept), outermost retrievals (with what filters dropped marked as not used), tool results of
    that shape, chains that were handed documents, databases (what they found before the app chose from it), plain
    texts that a tool returned. Several of a kind add up; the same document counts once, where it stands first.
    """
    outer = _outermost(nodes, _RETRIEVING)
    kept = _narrowed([node.step for node in outer if node.step and node.role is Role.RERANK])
    documents = _together(node.step for node in outer if node.step and node.role is Role.RETRIEVAL)
    if documents and not any(citation.id or citation.content for citation in documents):
        documents = _with_text_of_others(documents, nodes)
    if kept is not None:
        return _completed(kept, documents or ())
    if documents is not None:
        return _filtered(documents, nodes, since_ns=max((node.end_ns for node in outer), default=0))
    of_tools = _of_role(nodes, Role.TOOL)
    if of_tools is not None and (not of_tools or any(map(_is_described, of_tools))):
        return of_tools
    documents = _of_chains(step for node in nodes if node.role in WRAPPERS and (step := node.step) is not None)
    if documents is None:
        documents = _of_role(nodes, Role.DB)
    return documents or (documents if of_tools is None else of_tools)


def _is_described(citation: Citation) -> bool:
    """Whether more is known of a document than its text, which a tool may have put together of several."""
    return any(part is not None for part in (citation.id, citation.title, citation.source, citation.score))


def _with_text_of_others(nameless: Sequence[Citation], nodes: Sequence[Node]) -> tuple[Citation, ...] | None:
    """Documents of which only the number is known, with the text that a tool returned or a prompt was filled with."""
    steps = [step for node in nodes if node.role in {Role.TOOL, Role.LLM} and (step := node.step) is not None]
    text = next((step.shapeless for step in steps if step.shapeless and step.shapeless.strip()), None)
    if text is None:
        return None
    pieces = [piece.strip() for piece in _BLANK_LINES.split(text) if piece.strip()]
    if len(pieces) != len(nameless):
        return (Citation(content=text.strip()),)
    return tuple(replace(citation, content=piece) for citation, piece in zip(nameless, pieces, strict=True))


def turn_citations(
    documents: tuple[Citation, ...] | None,
    messages: Sequence[Message] | None,
    patterns: PromptPatterns,
    *,
    may_be_cut: bool,
) -> TurnCitations:
    """Return the documents as the answering prompt shows them; without any, those that only the prompt holds.

    Documents that came as ids only get the text that the prompt quotes for them; where it quotes none by its id, the
    documents that the prompt shows count instead. `used` tells whether a document stands in the prompt; it stays None
    (False for one that was dropped) for one that is not seen when the prompt `may_be_cut`, was recorded without any
    context, such as the bare question, or shows other documents than these and none of them: reworded ones.
    """
    if messages is None or not any(message.content for message in messages):
        return TurnCitations(citations=None if documents is None else ranked(documents))
    bare = [citation.id for citation in (documents or ())[:_QUOTED] if citation.id and not citation.content]
    quoted = passages(messages, bare, patterns) if bare else {}
    if documents is None or (documents and not quoted and not any(citation.content for citation in documents)):
        from_prompt = quoted_documents(messages, patterns)
        if from_prompt:
            return TurnCitations(citations=from_prompt, flags=frozenset({"citations_from_prompt"}))
    if documents is None:
        return TurnCitations(citations=None)
    flags: set[str] = set()
    prompt = shown(messages)
    seen_of = [_is_seen(citation, messages, prompt) for citation in documents]
    uncertain = may_be_cut or not templated(messages)
    uncertain = uncertain or (not quoted and not any(seen_of) and bool(quoted_documents(messages, patterns)))
    complete = []
    for citation, seen in zip(documents, seen_of, strict=True):
        text = quoted.get(citation.id or "") if not citation.content else None
        if text is not None:
            flags.add("content_from_prompt")
            complete.append(replace(citation, content=text, used=True))
            continue
        complete.append(citation if not seen and uncertain else replace(citation, used=seen))
    return TurnCitations(citations=ranked(complete), flags=frozenset(flags))


def _is_seen(citation: Citation, messages: Sequence[Message], prompt: str) -> bool | None:
    """Whether the text of a document stands in the prompt, or the prompt introduces one by its id."""
    if citation.content:
        return occurs(citation.content, prompt)
    if not citation.id:
        return None
    return any(introduced_at(citation.id, message.content) for message in messages if message.role != "assistant")


def _of_role(nodes: Sequence[Node], role: Role) -> tuple[Citation, ...] | None:
    return _together(node.step for node in _outermost(nodes, frozenset((role,))) if node.step)


def _outermost(nodes: Sequence[Node], roles: frozenset[Role]) -> list[Node]:
    """Nodes of these roles that have documents (or none of whose ancestors of these roles has), by start."""
    covered: dict[int, bool] = {}
    outermost = []
    for node in nodes:
        above = covered.get(id(node.parent), False)
        step = node.step if node.role in roles else None
        lists = step is not None and step.documents is not None
        covered[id(node)] = above or lists
        if lists and not above:
            outermost.append(node)
    return sorted(outermost, key=lambda node: (node.start_ns, node.span_id))


def _together(steps: Iterable[Step]) -> tuple[Citation, ...] | None:
    lists = [step.documents for step in steps if step.documents is not None and _counts(step)]
    return _distinct([citation for documents in lists for citation in documents]) if lists else None


def _counts(step: Step) -> bool:
    """An empty list is a retrieval that found nothing only if a retrieval made it."""
    return bool(step.documents) or step.role is not Role.TOOL or searches(step.tool or "")


def _distinct(citations: Sequence[Citation]) -> tuple[Citation, ...]:
    """Chunks may share the id of their document, so an id alone means the same only where a content is missing."""
    kept: list[Citation] = []
    contents: set[str] = set()
    by_id: dict[str, int] = {}
    for citation in citations:
        if citation.content is not None:
            if citation.content in contents:
                continue
            contents.add(citation.content)
            at = by_id.get(citation.id or "")
            if at is not None and kept[at].content is None:
                kept[at] = replace(kept[at], content=citation.content)
                continue
        elif citation.id in by_id:
            continue
        if citation.id is not None:
            by_id.setdefault(citation.id, len(kept))
        kept.append(citation)
    return tuple(kept)


def _narrowed(steps: Sequence[Step]) -> tuple[Citation, ...] | None:
    """What rerankers kept; one that was given what another kept replaces it, others add up."""
    kept: tuple[Citation, ...] | None = None
    for step in steps:
        documents = _distinct(step.documents or ())
        before = {citation.id or citation.content for citation in kept or ()}
        again = all((citation.id or citation.content) in before for citation in documents)
        kept = documents if kept is None or again else _distinct((*kept, *documents))
    return kept


def _filtered(retrieved: tuple[Citation, ...], nodes: Sequence[Node], *, since_ns: int) -> tuple[Citation, ...]:
    """All of them, those marked as not used that later chains did not let pass whose names say that they filter."""
    passed = [
        step.documents
        for node in nodes
        if node.role in WRAPPERS and node.start_ns >= since_ns and node.span and _FILTERING.search(node.span.name)
        if (step := node.step) is not None and step.documents is not None
    ]
    filters = [some for some in passed if all(_stands_among(citation, retrieved) for citation in some)]
    return tuple(
        citation if all(_stands_among(citation, some) for some in filters) else replace(citation, used=False)
        for citation in retrieved
    )


def _stands_among(citation: Citation, others: Sequence[Citation]) -> bool:
    return any(
        citation.content == other.content if citation.content and other.content else citation.id == other.id
        for other in others
    )


def _completed(kept: Sequence[Citation], retrieved: Sequence[Citation]) -> tuple[Citation, ...]:
    known = {key: citation for citation in reversed(retrieved) for key in (citation.content, citation.id) if key}
    complete = []
    for citation in kept:
        other = known.get(citation.id or "") or known.get(citation.content or "")
        if other is not None:
            citation = replace(  # noqa: PLW2901 -- the same citation, completed
                citation,
                id=citation.id or other.id,
                content=citation.content or other.content,
                title=citation.title or other.title,
                source=citation.source or other.source,
            )
        complete.append(citation)
    return tuple(complete)


def _of_chains(steps: Iterable[Step]) -> tuple[Citation, ...] | None:
    empty = None
    for step in steps:
        if step.documents:
            return _distinct(step.documents)
        empty = step.documents if empty is None else empty
    return empty
