"""Places for the names that senders choose: whoever has one keeps it, and a flood of new names makes no flood of rows.

Each app, environment and release is a trend of its own, with rows in every window. So a store has places for so many; a
name for which there is none becomes `other`. A place is free again when its name was not seen for as long as it was in
use before, three days at least and thirty at most: a flood is over after three days, an app of a year may rest for a
month. Processes that share a database share its places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeAlias, get_args

from sqlalchemy import Connection, and_, delete, func, select, text, tuple_, update

from monitor.model.names import (
    ENVIRONMENTS_PER_APP,
    NAME_LIMIT,
    OTHER,
    RELEASES_PER_APP,
    NameKind,
    NameLimits,
    NamesInUse,
)
from monitor.model.turns import Turn
from monitor.store.columns import label
from monitor.store.database import Database
from monitor.store.statements import batches, insert
from monitor.store.tables import names
from monitor.text.repair import repaired

_SHORTEST, _LONGEST = timedelta(days=3), timedelta(days=30)
"""For how long a place is kept for a name that is not seen."""
_SEEN_EVERY = timedelta(hours=1)
"""How exactly it is known when a name was last seen: its row is written no more often."""
_SHOWN_REFUSALS = timedelta(days=1)
_LONGEST_SENT = 1000
"""Characters of a name that is kept as it was sent."""
_LOCK = 0x6E616D6573
"""Of PostgreSQL's advisory lock: whoever gives places away does so alone. The letters "names"."""

_KEY = (names.c.app, names.c.environment, names.c.name)

_Scope: TypeAlias = tuple[str, str]
"""The app and environment that a name belongs to; "" where it belongs to none."""
_Name: TypeAlias = tuple[str, str, str]
"""A scope and a name in it."""


class Names:
    """The names of one database: `NameStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def in_use(self, *, now: datetime) -> tuple[NamesInUse, ...]:
        """As `NameStore.in_use`."""
        refused = func.max(names.c.last_seen).filter(names.c.name == OTHER)
        statement = select(names.c.kind, func.count().filter(names.c.name != OTHER), refused).group_by(names.c.kind)
        with self._database.reading("counting names") as connection:
            found = {kind: (count, at) for kind, count, at in connection.execute(statement)}
        uses = []
        for kind in get_args(NameKind):
            count, at = found.get(kind, (0, None))
            recent = at if at is not None and at > now - _SHOWN_REFUSALS else None
            uses.append(NamesInUse(kind=kind, count=count, refused_at=recent))
        return tuple(uses)


def placed(connection: Connection, turns: Sequence[Turn], limits: NameLimits | None, *, now: datetime) -> list[Turn]:
    """Return the turns under the names that they are stored under; a turn whose name has no place is flagged.

    Without `limits` there is a place for everyone.
    """
    cut = [_with_names(turn, label(turn.app), label(turn.environment), label(turn.release)) for turn in turns]
    if limits is None:
        return cut
    apps = _places(connection, "app", {("", "", t.app) for t in cut}, limits.apps, limits.apps, now=now)
    cut = [t if ("", "", t.app) in apps else _with_names(t, OTHER, t.environment, t.release) for t in cut]
    within = {(t.app, "", t.environment) for t in cut}
    in_all = ENVIRONMENTS_PER_APP * limits.apps
    environments = _places(connection, "environment", within, limits.environments, in_all, now=now)
    cut = [t if (t.app, "", t.environment) in environments else _with_names(t, t.app, OTHER, t.release) for t in cut]
    within = {(t.app, t.environment, t.release) for t in cut}
    in_all = RELEASES_PER_APP * limits.apps
    releases = _places(connection, "release", within, limits.releases, in_all, now=now)
    return [
        t if (t.app, t.environment, t.release) in releases else _with_names(t, t.app, t.environment, OTHER) for t in cut
    ]


def _with_names(turn: Turn, app: str, environment: str, release: str) -> Turn:
    """Return the turn under these names; those that it was sent with are kept, where they are others."""
    pairs = (("app", turn.app, app), ("environment", turn.environment, environment), ("release", turn.release, release))
    sent = {kind: _kept(name) for kind, name, shown in pairs if name != shown}
    if not sent:
        return turn
    return replace(
        turn,
        app=app,
        environment=environment,
        release=release,
        flags=turn.flags | {NAME_LIMIT},
        sent_names={**sent, **turn.sent_names},
    )


def _kept(name: str) -> str:
    """Return a name as it was sent, but for one that is as long as a text."""
    return repaired(name) if len(name) <= _LONGEST_SENT else label(name)


def _places(
    connection: Connection, kind: NameKind, wanted: set[_Name], most_of_scope: int, most: int, *, now: datetime
) -> set[_Name]:
    """Return those of the names that have a place, after giving places to new ones as far as there are any."""
    # "" is no name, and `other` is where all the others are.
    free = {name for name in wanted if name[2] in {"", OTHER}}
    known = _known(connection, kind, sorted(wanted - free))
    new = sorted(wanted - free - known)
    if not new:
        _note_seen(connection, kind, known, now=now)
        return free | known
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        # Somebody may have given them a place while we waited.
        known |= _known(connection, kind, new)
        new = [name for name in new if name not in known]
    room = _Room(connection, kind, most_of_scope, most, now=now)
    given = {name for name in new if room.take(name[:2])}
    marks = {(*name[:2], OTHER) for name in new if name not in given}
    _write(connection, kind, given | marks, now=now)
    _note_seen(connection, kind, known | marks, now=now)
    return free | known | given


class _Room:
    """How many places are left; those of names of long ago are given away when one is needed."""

    def __init__(self, connection: Connection, kind: NameKind, most_of_scope: int, most: int, *, now: datetime) -> None:
        self._connection = connection
        self._kind = kind
        self._most_of_scope = most_of_scope
        self._most = most
        self._now = now
        self._swept = False
        self._count()

    def take(self, scope: _Scope) -> bool:
        """Take a place, if there is one."""
        if not self._is_free(scope) and not self._swept:
            self._sweep()
        if not self._is_free(scope):
            return False
        self._used[scope] += 1
        return True

    def _is_free(self, scope: _Scope) -> bool:
        return self._used[scope] < self._most_of_scope and self._used.total() < self._most

    def _count(self) -> None:
        scope = (names.c.app, names.c.environment)
        statement = select(*scope, func.count()).where(names.c.kind == self._kind, names.c.name != OTHER)
        rows = self._connection.execute(statement.group_by(*scope))
        self._used = Counter({(app, environment): count for app, environment, count in rows})

    def _sweep(self) -> None:
        """Free the places of all names that were not seen for so long; nobody is waited for, as everywhere here."""
        self._swept = True
        quiet = and_(names.c.kind == self._kind, names.c.last_seen < self._now - _SHORTEST)
        old = [
            (row.app, row.environment, row.name)
            for row in self._connection.execute(select(names).where(quiet).with_for_update(skip_locked=True))
            if self._now - row.last_seen > min(row.last_seen - row.first_seen, _LONGEST)
        ]
        for part in batches(old):
            self._connection.execute(delete(names).where(quiet, tuple_(*_KEY).in_(part)))
        for app, environment, name in old:
            self._used[app, environment] -= name != OTHER


def _known(connection: Connection, kind: NameKind, wanted: Sequence[_Name]) -> set[_Name]:
    return {
        (row.app, row.environment, row.name)
        for part in batches(wanted)
        for row in connection.execute(select(*_KEY).where(names.c.kind == kind, tuple_(*_KEY).in_(part)))
    }


def _write(connection: Connection, kind: NameKind, new: Iterable[_Name], *, now: datetime) -> None:
    rows = [
        {"kind": kind, "app": app, "environment": environment, "name": name, "first_seen": now, "last_seen": now}
        for app, environment, name in sorted(new)
    ]
    if rows:
        connection.execute(insert(connection, names).on_conflict_do_nothing(), rows)


def _note_seen(connection: Connection, kind: NameKind, seen: Iterable[_Name], *, now: datetime) -> None:
    """Write that they were seen, where that is not known; a row that somebody else writes just now is left to them."""
    for part in batches(sorted(seen)):
        stale = and_(names.c.kind == kind, tuple_(*_KEY).in_(part), names.c.last_seen < now - _SEEN_EVERY)
        rows = connection.execute(select(*_KEY).where(stale).with_for_update(skip_locked=True)).all()
        if rows:
            mine = tuple_(*_KEY).in_([tuple(row) for row in rows])
            connection.execute(update(names).where(names.c.kind == kind, mine).values(last_seen=now))
