"""The store: every protocol of `monitor.ports` that ends in `Store`, over SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from monitor.model import Turn
from monitor.spans import Assembly, Fragment, StoredFragment
from monitor.store import migration, spans, turns, windows
from monitor.store.database import Database

_PAGE = 200


def open_store(
    url: str,
    *,
    migrate: bool = True,
    window: timedelta = timedelta(hours=1),
    patience: timedelta = timedelta(seconds=10),
) -> SqlStore:
    """Return the store at a SQLAlchemy URL.

    Args:
        url: `sqlite:///path` or `postgresql+psycopg://user:password@host/database`.
        migrate: bring the schema up to date first, and rollups to windows of the given length.
        window: the length of the windows of trends.
        patience: how long to wait for another writer's lock, or for a free connection.

    Raises:
        ConfigError: the URL is wrong, or the database was made by a newer version of this program.
        StoreUnavailable: the database cannot be reached or written.
    """
    database = Database(url, patience=patience)
    if migrate:
        try:
            migration.upgrade(database)
            with database.writing("setting the length of windows") as connection:
                windows.adopt(connection, window)
        except BaseException:
            database.close()
            raise
    return SqlStore(database, window=window)


class SqlStore:
    """One database. Each method is one transaction, and says in `monitor.ports` what it promises."""

    def __init__(self, database: Database, *, window: timedelta) -> None:
        self._database = database
        self._window = window

    def append(self, fragments: Sequence[Fragment]) -> int:
        """As `SpanStore.append`."""
        with self._database.writing("storing fragments") as connection:
            return spans.append(connection, fragments)

    def due(self, *, quiet_since: datetime, open_since: datetime, limit: int) -> tuple[str, ...]:
        """As `SpanStore.due`."""
        with self._database.reading("finding due traces") as connection:
            return spans.due(connection, quiet_since=quiet_since, open_since=open_since, limit=limit)

    def fragments(self, trace_ids: Sequence[str]) -> Mapping[str, tuple[StoredFragment, ...]]:
        """As `SpanStore.fragments`."""
        with self._database.following("reading fragments") as connection:
            through = spans.high_water(connection)
        with self._database.reading("reading fragments") as connection:
            return spans.fragments(connection, trace_ids, through=through)

    def replace_turns(self, assemblies: Sequence[Assembly], *, now: datetime) -> None:
        """As `TurnStore.replace_turns`."""
        with self._database.writing("replacing turns") as connection:
            turns.replace(connection, assemblies, now=now, length=self._window)

    def turn(self, turn_id: str) -> Turn | None:
        """As `TurnStore.turn`."""
        with self._database.reading("reading a turn") as connection:
            return turns.turn(connection, turn_id)

    def turns(
        self,
        *,
        app: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> Iterator[Turn]:
        """As `TurnStore.turns`; read page by page, so a slow reader holds nothing open."""
        after: tuple[datetime, str] | None = None
        left = limit
        while left is None or left > 0:
            size = _PAGE if left is None else min(_PAGE, left)
            with self._database.reading("reading turns") as connection:
                found = turns.page(connection, app=app, since=since, until=until, after=after, limit=size)
            yield from found
            if len(found) < size:
                return
            after = (found[-1].started_at, found[-1].turn_id)
            left = None if left is None else left - size

    def unsampled(self, limit: int) -> tuple[Turn, ...]:
        """As `TurnStore.unsampled`."""
        with self._database.reading("reading turns to sample") as connection:
            return turns.unsampled(connection, limit)

    def check(self) -> None:
        """As `Store.check`."""
        migration.check(self._database)

    def close(self) -> None:
        """As `Store.close`."""
        self._database.close()
