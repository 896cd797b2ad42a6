"""Where everything is kept: a URL, or the parts of one, so that a password need not stand in it."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr

from monitor.settings.section import Section


class StoreSettings(Section):
    """Where everything is kept. What `url` leaves out, the parts beside it may say; what both say is refused."""

    url: str = "sqlite:///rag-monitor.db"
    """SQLAlchemy URL: `sqlite:///path` or `postgresql+psycopg://user:password@host/database`. In user, password and database `@`, `:`, `/`, `?`, `#` and `%` are percent-encoded (`@` is `%40`)."""  # noqa: E501 -- one cell of a table
    host: str | None = None
    """PostgreSQL's host; with it, or another of these parts, and no `url`, the store is in PostgreSQL."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """PostgreSQL's port; null for 5432."""
    user: str | None = None
    """PostgreSQL's role, as it is: nothing is encoded here."""
    password: SecretStr | None = None
    """Its password, as it is."""
    password_file: Path | None = None
    """Instead of `password`: a file that holds it."""
    database: str | None = None
    """The database's name."""
    max_connections: int = Field(default=32, ge=2, le=200)
    """To PostgreSQL, or to the pooler before it, of one process at the most; 8 of them stay open."""

    def at(self, url: str) -> Self:
        """Return the same settings for the database at another URL, to which no part is added."""
        return type(self)(url=url, max_connections=self.max_connections)
