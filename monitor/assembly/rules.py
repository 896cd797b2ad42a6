"""By which rules traces are read, made once of the settings: the conventions, the pseudonyms of users, the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from monitor.assembly.exclusions import NOTHING, Exclusions
from monitor.assembly.prompt_patterns import PromptPatterns, prompt_patterns
from monitor.extract.convention import Convention, FacetKeys
from monitor.extract.session_and_user import SessionAndUserKeys, merged
from monitor.ports import Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingRules:
    """What does not change from trace to trace; `reading_rules` makes one."""

    dialects: tuple[Dialect, ...]
    """By priority: the first that claims a span reads it."""
    hash_user: Callable[[str], str]
    """Turns the user id that the app sent into the one that is kept."""
    session_and_user_keys: SessionAndUserKeys
    """Of all conventions, `merged`."""
    max_spans: int | None
    """Spans of one trace that are looked at, the earliest; None for no limit."""
    facet_keys: FacetKeys
    """Of all conventions, as those of session and user."""
    prompt_patterns: PromptPatterns
    """What all conventions declare, and headings in plain words."""
    exclusions: Exclusions = NOTHING
    """What is left out."""
    version: str = ""
    """Changes whenever traces may be read otherwise: with the program, its dialects and what the settings name."""


def reading_rules(
    dialects: Iterable[Dialect],
    *,
    hash_user: Callable[[str], str],
    max_spans: int | None = None,
    exclusions: Exclusions = NOTHING,
    version: str = "",
) -> ReadingRules:
    """Return the rules of these dialects, which may come in any order."""
    ordered = tuple(sorted(dialects, key=lambda dialect: (dialect.priority, dialect.name)))
    conventions = [dialect for dialect in ordered if isinstance(dialect, Convention)]
    return ReadingRules(
        dialects=ordered,
        hash_user=hash_user,
        session_and_user_keys=merged(convention.session_and_user for convention in conventions),
        max_spans=max_spans,
        facet_keys=_together([convention.facet_keys for convention in conventions]),
        prompt_patterns=prompt_patterns(convention.prompt_wording for convention in conventions),
        exclusions=exclusions,
        version=version,
    )


def _together(declared: Sequence[FacetKeys]) -> FacetKeys:
    return FacetKeys(
        arguments=tuple(key for keys in declared for key in keys.arguments),
        component=tuple(key for keys in declared for key in keys.component),
        reranker=tuple(key for keys in declared for key in keys.reranker),
        prompt_template=tuple(key for keys in declared for key in keys.prompt_template),
        index_embedding=tuple(key for keys in declared for key in keys.index_embedding),
    )
