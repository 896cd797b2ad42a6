"""What a component does, by its name: for SDKs whose decorators and frameworks say no more than "a function"."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from monitor.model.spans import Role

_INNER = re.compile(r"(?<=[a-z0-9])_([a-z0-9])")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_WHOLE = frozenset((
    "chain", "agent", "workflow", "pipeline", "graph", "engine", "rag", "qa", "answer", "answers", "generate",
    "generator", "generation", "respond", "response", "chat", "rewrite", "rewriter", "condense", "expand", "grade",
    "grader", "plan", "planner", "route", "router", "format", "formatter", "prompt", "template", "history", "memory",
    "evaluate", "evaluation", "session", "user", "and",
))  # fmt: skip
"""Words of components that do more than look something up, or something else."""
_SEARCHING = re.compile(
    r"(?=[srkldciq])(?:search|retriev|knowledge|lookup|docs|context|information|query|(?<![^_])kb(?:_|$))",
    re.IGNORECASE,
)
_SEARCHES = frozenset(("search", "searches", "searcher", "lookup"))


def spellings(*names: str) -> tuple[str, ...]:
    """Return each name as Python's and as JavaScript's apps write it.

    >>> spellings("chat_history", "query")
    ('chat_history', 'chatHistory', 'query')
    """
    both = ((name, _INNER.sub(lambda match: match[1].upper(), name)) for name in names)
    return tuple(dict.fromkeys(spelt for pair in both for spelt in pair))


def searches(tool: str) -> bool:
    """Return whether a tool's name says that it looks for documents.

    >>> searches("getInformation"), searches("send_mail")
    (True, False)
    """
    return _SEARCHING.search(tool) is not None


@lru_cache(maxsize=4096)
def role_by_name(name: str) -> Role | None:
    """Return whether a component retrieves, reranks or embeds; None where its name does not tell.

    >>> role_by_name("VectorIndexRetriever"), role_by_name("retrieval_chain")
    (<Role.RETRIEVAL: 'retrieval'>, None)
    """
    words = [word.lower() for word in _WORD.findall(name[:200])]
    if not words or not _WHOLE.isdisjoint(words):
        return None
    if any(word.startswith("rerank") for word in words) or _follows(words, "re", "rank"):
        return Role.RERANK
    if any(word.startswith("retriev") or word in _SEARCHES for word in words):
        return Role.RETRIEVAL
    return Role.EMBEDDING if words[-1].startswith("embed") or words[0] == "embed" else None


def _follows(words: list[str], first: str, second: str) -> bool:
    return any(word == first and following.startswith(second) for word, following in pairwise(words))
