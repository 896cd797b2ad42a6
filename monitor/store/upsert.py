"""INSERT ... ON CONFLICT, which both databases spell alike and SQLAlchemy keeps in two places."""

from __future__ import annotations

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """Return an INSERT with `on_conflict_do_nothing` and `on_conflict_do_update` for the connection's database."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)
