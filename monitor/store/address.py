"""Where the database is: a URL, parts beside it, and what of them may be shown."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from monitor.errors import ConfigError

_ALLOWED = "allowed: sqlite:///path/of/file.db and postgresql+psycopg://user:password@host:5432/database"


class Parts(TypedDict, total=False):
    """What may be said beside a URL, by SQLAlchemy's names."""

    username: str
    password: str
    host: str
    port: int
    database: str


def parse(url: str | URL) -> URL:
    """Return the address of a store.

    Raises:
        ConfigError: it is none, or it cannot be told where its password ends; nothing of it is repeated.
    """
    try:
        parsed = make_url(url)
        if parsed.drivername in {"postgresql", "postgres"}:
            parsed = parsed.set(drivername="postgresql+psycopg")
        parsed.get_dialect()
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError, ValueError):
        # A password with `@` and `:` in it makes a port that is no number, which is a ValueError.
        raise ConfigError(f"not a database URL that is known here; {_ALLOWED}", where="store.url") from None
    if parsed.drivername not in {"sqlite", "sqlite+pysqlite", "postgresql+psycopg"}:
        raise ConfigError(f"no store for {parsed.drivername!r}; {_ALLOWED}", where="store.url")
    if parsed.get_backend_name() == "sqlite":
        _check_file(parsed)
        return parsed
    _check_parts(parsed, url if isinstance(url, str) else "")
    try:
        parsed.get_dialect().import_dbapi()
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{error.name} is not installed: pip install 'rag-monitor[postgres]'", where="store.url"
        ) from None
    return parsed


def complete(url: str, parts: Parts) -> URL:
    """Return the address at a URL with the parts that it leaves out, by SQLAlchemy's names of them.

    Raises:
        ConfigError: as `parse`, or something is said twice.
    """
    address = parse(url)
    if address.get_backend_name() == "sqlite" and parts:
        raise ConfigError(
            f"a SQLite file beside {_keys(parts)}, which are PostgreSQL's; keep one of both", where="store.url"
        )
    if twice := [name for name in parts if getattr(address, name) is not None]:
        raise ConfigError(f"given in store.url already; keep one of both: {_keys(twice)}", where="store")
    return address.set(**parts)


def _keys(parts: Iterable[str]) -> str:
    return ", ".join(f"store.{'user' if name == 'username' else name}" for name in parts)


def place(address: URL) -> str:
    """Return what is shown of an address: the file, or host and database; never a user or password."""
    if address.get_backend_name() == "sqlite":
        return address.database or ""
    return f"{address.host or 'local'}/{address.database}"


def _check_file(address: URL) -> None:
    if not address.database or address.database == ":memory:" or address.query.get("mode") == "memory":
        raise ConfigError(f"SQLite in memory would lose what was acknowledged; {_ALLOWED}", where="store.url")
    folder = Path(address.database).parent
    if not address.database.startswith("file:") and not folder.is_dir():
        raise ConfigError(f"no folder {str(folder)!r} to keep {Path(address.database).name!r} in", where="store.url")


def _check_parts(address: URL, written: str) -> None:
    """Refuse what the `@`, `/` or `:` of a password may have cut in two: its second half would be shown as the host."""
    if written.count("@") > 1 or "@" in f"{address.host}{address.database}":
        raise ConfigError(
            "cannot tell its user, password, host and database apart; percent-encode `@`, `/`, `:`, `?`, `#` and `%` "
            "in them (`@` is %40), or give the password as store.password or store.password_file",
            where="store.url",
        )
