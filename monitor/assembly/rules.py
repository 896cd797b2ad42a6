"""By which rules traces are read, made once of the settings: the conventions, the pseudonyms of users, the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from monitor.extract.convention import Convention
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
    version: str = ""
    """Changes whenever traces may be read otherwise: with the program, its dialects and what the settings name."""


def reading_rules(
    dialects: Iterable[Dialect], *, hash_user: Callable[[str], str], max_spans: int | None = None, version: str = ""
) -> ReadingRules:
    """Return the rules of these dialects, which may come in any order."""
    ordered = tuple(sorted(dialects, key=lambda dialect: (dialect.priority, dialect.name)))
    keys = merged(dialect.session_and_user for dialect in ordered if isinstance(dialect, Convention))
    return ReadingRules(
        dialects=ordered, hash_user=hash_user, session_and_user_keys=keys, max_spans=max_spans, version=version
    )
