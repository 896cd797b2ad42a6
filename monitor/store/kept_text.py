"""What users wrote, as the store keeps it: `TextStore` over SQLite or PostgreSQL."""

from __future__ import annotations

from datetime import datetime

from monitor.model.stored import OldestText
from monitor.store import retention
from monitor.store.database import Database


class KeptText:
    """The text of one database. Each method says in `monitor.stores` what it promises."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
