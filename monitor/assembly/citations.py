"""The documents of a turn: which of the spans that list documents counts, merged, completed and marked as used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from monitor.assembly.prompt import flat, occurs, passages, shown
from monitor.assembly.tree import Node
from monitor.model import Citation, Message
from monitor.reading.documents import ranked
from monitor.spans import Role, Step

_RETRIEVING = frozenset((Role.RETRIEVAL, Role.RERANK))
_SEARCHING = re.compile(
    r"search|retriev|knowledge|lookup|docs|context|information|query|(?:^|_)kb(?:_|$)", re.IGNORECASE
)
_WRAPPERS = frozenset((Role.CHAIN, Role.AGENT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cited:
    """A turn's documents in rank order; None when no retrieval was seen, () when it found nothing."""

    citations: tuple[Citation, ...] | None
    flags: frozenset[str] = frozenset()


def retrieved(nodes: Sequence[Node]) -> tuple[Citation, ...] | None:
    """Return the documents of the first of these that lists any, in order of preference.

    Rerankers (what they kept), outermost retrievals, tool results of that shape, databases, chains that were handed
    documents. Several of a kind add up; the same document counts once, where it stands first.
    """
    outer = _outermost(nodes, _RETRIEVING)
    kept = _narrowed([node.step for node in outer if node.step and node.role is Role.RERANK])
    found = _together(node.step for node in outer if node.step and node.role is Role.RETRIEVAL)
    if kept is not None:
        return _completed(kept, found or ())
    for roles in (frozenset((Role.TOOL,)), frozenset((Role.DB,))):
        found = found if found is not None else _together(n.step for n in _outermost(nodes, roles) if n.step)
    if found is None:
        found = _handed([node.step for node in nodes if node.step is not None and node.role in _WRAPPERS])
    return found


def cited(documents: tuple[Citation, ...] | None, messages: Sequence[Message] | None, *, cut: bool) -> Cited:
    """Return the documents as the answering prompt shows them.

    Documents that came as ids only get the text that the prompt quotes for them. `used` tells whether a document
    stands in the prompt; with `cut` prompts a document that is not seen may have been cut off.
    """
    if documents is None or messages is None or not any(message.content for message in messages):
        return Cited(citations=None if documents is None else ranked(documents))
    flags: set[str] = set()
    bare = [citation.id for citation in documents if citation.id and not citation.content]
    quoted = passages(messages, bare) if bare else {}
    prompt = shown(messages)
    complete = []
    for citation in documents:
        text = quoted.get(citation.id or "") if not citation.content else None
        if text is not None:
            flags.add("content_from_prompt")
            complete.append(replace(citation, content=text, used=True))
            continue
        seen = _seen(citation, prompt)
        complete.append(replace(citation, used=None if not seen and cut else seen))
    return Cited(citations=ranked(complete), flags=frozenset(flags))


def _seen(citation: Citation, prompt: str) -> bool | None:
    if citation.content:
        return occurs(citation.content, prompt)
    return flat(citation.id) in prompt if citation.id else None


def _outermost(nodes: Sequence[Node], roles: frozenset[Role]) -> list[Node]:
    """Nodes of these roles that have documents (or none of whose ancestors of these roles has), by start."""
    covered: dict[int, bool] = {}
    found = []
    for node in nodes:
        above = covered.get(id(node.parent), False)
        step = node.step
        lists = step is not None and step.role in roles and step.documents is not None
        covered[id(node)] = above or lists
        if lists and not above:
            found.append(node)
    return sorted(found, key=lambda node: (node.start_ns, node.span_id))


def _together(steps: Iterable[Step]) -> tuple[Citation, ...] | None:
    lists = [step.documents for step in steps if step.documents is not None and _counts(step)]
    return _distinct([citation for documents in lists for citation in documents]) if lists else None


def _counts(step: Step) -> bool:
    """An empty list is a retrieval that found nothing only if a retrieval made it."""
    return bool(step.documents) or step.role is not Role.TOOL or bool(_SEARCHING.search(step.tool or ""))


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


def _completed(kept: Sequence[Citation], found: Sequence[Citation]) -> tuple[Citation, ...]:
    known = {key: citation for citation in reversed(found) for key in (citation.content, citation.id) if key}
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


def _handed(steps: Sequence[Step]) -> tuple[Citation, ...] | None:
    lists = [step.documents for step in steps if step.documents is not None]
    full = next((documents for documents in lists if documents), None)
    return _distinct(full) if full else (() if lists else None)
