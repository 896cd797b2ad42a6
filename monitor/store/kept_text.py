"""What users wrote, as the store keeps it: `TextStore` over SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from sqlalchemy import select, text

from monitor.model.stored import Erased, OldestText
from monitor.store import erasure, leases, pseudonyms, retention, spans
from monitor.store.database import Database
from monitor.store.tables import turns

REWRITTEN = ("spans", "turn_texts", "exchanges", "turns")
"""Tables that hold text, or whose it was."""

_LOOKED_AT = 1000
"""Fragments that are looked into at once."""
_USER = "user"
"""Name of the key under which ids of users are hashed."""


class KeptText:
    """The text of one database. Each method says in `monitor.stores` what it promises."""

    def __init__(self, database: Database, *, window: timedelta) -> None:
        self._database = database
        self._window = window

    def prune(self, *, text_before: datetime, fragments_before: datetime, limit: int) -> int:
        """As `TextStore.prune`; two transactions, so that other writers come in between."""
        with self._database.writing("pruning text") as connection:
            touched = retention.prune_text(connection, before=text_before, limit=limit)
        with self._database.writing("pruning fragments") as connection:
            touched += retention.prune_fragments(connection, before=fragments_before, limit=limit)
        if not touched:
            self._database.empty_log()
        return touched

    def oldest(self) -> OldestText:
        """As `TextStore.oldest`."""
        with self._database.reading("looking for the oldest text") as connection:
            return retention.oldest(connection)

    def traces_of(self, *, session_id: str | None, user_id: str | None) -> frozenset[str]:
        """As `TextStore.traces_of`."""
        with self._database.writing("looking for a person's traces") as connection:
            whose = []
            if session_id is not None:
                whose.append(turns.c.session_hash == pseudonyms.of_session(connection, session_id))
            if user_id is not None:
                key = pseudonyms.key(connection, _USER)
                whose.append(turns.c.user_id == pseudonyms.pseudonym(user_id, key=key))
            return frozenset(
                trace_id
                for is_theirs in whose
                for trace_id in connection.execute(select(turns.c.trace_id).where(is_theirs)).scalars()
            )

    def traces_with(self, what: bytes) -> Iterator[str]:
        """As `TextStore.traces_with`; part by part, so nothing is held open."""
        last: int | None = 0
        while last is not None:
            with self._database.reading("looking into fragments") as connection:
                last, found = spans.containing(connection, what, after=last, limit=_LOOKED_AT)
            yield from found

    def erase(self, trace_ids: Sequence[str]) -> Erased:
        """As `TextStore.erase`; in one transaction for some of them, so it may be called again after a failure."""
        erased = Erased()
        for start in range(0, len(trace_ids), erasure.AT_ONCE):
            with self._database.writing("erasing text") as connection:
                now = leases.now(connection)
                some = trace_ids[start : start + erasure.AT_ONCE]
                erased += erasure.erase(connection, some, now=now, length=self._window)
        self._database.empty_log()
        return erased

    def rewrite(self) -> bool:
        """As `TextStore.rewrite`."""
        if not self._database.sqlite and not self._owns_tables():
            return False
        self._database.rewrite(REWRITTEN)
        return True

    def _owns_tables(self) -> bool:
        owns = text("SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(:name)")
        with self._database.reading("looking for the owner of the tables") as connection:
            return all(connection.execute(owns, {"name": name}).scalar() for name in REWRITTEN)
