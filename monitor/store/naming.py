"""What the tables are gathered in, and how their indexes and constraints are named."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Index, MetaData

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def index_some(name: str, *columns: ColumnElement[object], where: ColumnElement[bool]) -> None:
    """Index the rows for which `where` holds."""
    Index(name, *columns, sqlite_where=where, postgresql_where=where)
