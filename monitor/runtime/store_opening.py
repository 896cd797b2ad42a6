"""The store that the settings name."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from sqlalchemy import URL

from monitor.errors import StoreUnavailable
from monitor.settings.renewed_files import renewed
from monitor.settings.section import secret
from monitor.settings.store import StoreSettings
from monitor.settings.tree import Settings
from monitor.store.address import Parts, complete
from monitor.store.database import Renewed
from monitor.store.sql_store import SqlStore, open_store


def store_address(settings: StoreSettings) -> URL:
    """Return where the store is; shown as text, without its password.

    Raises:
        ConfigError: it is no address of a store, is said twice, or its password's file cannot be read.
    """
    parts: Parts = {}
    if settings.user is not None:
        parts["username"] = settings.user
    if (password := _password(settings)) is not None:
        parts["password"] = password
    if settings.host is not None:
        parts["host"] = settings.host
    if settings.port is not None:
        parts["port"] = settings.port
    if settings.database is not None:
        parts["database"] = settings.database
    is_named = "url" in settings.model_fields_set
    return complete(settings.url if is_named or not parts else "postgresql+psycopg://", parts)


def _password(settings: StoreSettings) -> str | None:
    return secret(settings.password, settings.password_file, None, "store.password")


def _renewed(address: URL, settings: StoreSettings) -> URL | Renewed:
    """Return the address, with the password as its file has it at each connection where there is one."""
    file = settings.password_file
    if file is None:
        return address
    return Renewed(address, renewed((file,), partial(_password, settings), "store.password"))


def open_settled(settings: Settings) -> SqlStore:
    """Return the store with the schema of this version, and with windows as the settings have them.

    Raises:
        ConfigError: a setting of the store is wrong, or a newer version made it.
        StoreUnavailable: the database cannot be opened.
    """
    return open_store(
        _renewed(store_address(settings.store), settings.store),
        window=settings.rollup.window,
        max_connections=settings.store.max_connections,
    )


def open_existing(settings: Settings) -> SqlStore:
    """Return the store for reading: nothing is made or changed, so a file that is not there is no empty store.

    Raises:
        ConfigError: the URL is wrong.
        StoreUnavailable: there is no store, or its schema is not the one of this version.
    """
    address = store_address(settings.store)
    file = sqlite_file(address)
    if file is not None and not file.exists():
        raise StoreUnavailable(f"no store at {file}; `rag-monitor run`, `replay` and `migrate` make it")
    store = open_store(
        _renewed(address, settings.store),
        migrate=False,
        window=settings.rollup.window,
        max_connections=settings.store.max_connections,
    )
    try:
        store.check()
    except StoreUnavailable:
        store.close()
        raise
    return store


def sqlite_file(address: URL) -> Path | None:
    """Return the file of a SQLite database; None for other databases, and for a file that has a URI of its own."""
    if address.get_backend_name() != "sqlite" or not address.database or address.database.startswith("file:"):
        return None
    return Path(address.database)
