"""What statements need that SQLAlchemy keeps in two places, or leaves to its users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

T = TypeVar("T")

_KEYS_PER_STATEMENT = 500


def insert(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """Return an INSERT with `on_conflict_do_nothing` and `on_conflict_do_update` for the connection's database."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


def batches(keys: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield `keys` in parts small enough to be the parameters of one statement."""
    for start in range(0, len(keys), _KEYS_PER_STATEMENT):
        yield keys[start : start + _KEYS_PER_STATEMENT]
