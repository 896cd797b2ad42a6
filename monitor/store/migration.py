"""Brings a database to the schema of this version, whoever else is trying to at the same moment.

The whole upgrade is one transaction under a lock of the database, so that several processes may start at once on an
empty database, and one that dies midway leaves nothing behind, neither tables nor lock.
"""

from __future__ import annotations

import re
import time
from datetime import timedelta
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, inspect, text

from monitor.errors import ConfigError, StoreUnavailable
from monitor.store import changed_windows
from monitor.store.database import Database
from monitor.store.tables import REVISION

_FOLDER = Path(__file__).with_name("migrations")
LOCK = 0x7261676D6F6E
"""Key of PostgreSQL's advisory lock around a migration, "ragmon": a number that no other program is likely to use."""

_PATIENCE = timedelta(minutes=5)
_PAGE_BYTES = 8192
_APPLICATION_ID = 0x7261676D
"""The letters "ragm" in the header of our SQLite files."""
_OUR_REVISION = re.compile(r"\d{4}")


def migrate(url: str) -> None:
    """Bring the database to `REVISION`; a database that is there already is left as it is.

    Raises:
        ConfigError: the URL is wrong, or the database was made by a newer version of this program.
        StoreUnavailable: the database cannot be reached or written.
    """
    database = Database(url, patience=_PATIENCE)
    try:
        upgrade(database)
    finally:
        database.close()


def upgrade(database: Database) -> None:
    """As `migrate`, over a pool of connections that is open already."""
    with database.reading("reading the schema's revision") as connection:
        if revision(connection) == REVISION:
            return
        refuse_foreign(database, connection)
    if database.sqlite:
        _write_ahead(database)
    with database.writing("migrating the schema") as connection:
        if not database.sqlite:
            _lock_postgresql(connection)
        present = revision(connection)
        if present is not None and (problem := _not_ours(present)):
            raise ConfigError(problem, where="store.url")
        config = Config()
        config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def make_current(database: Database, window: timedelta) -> None:
    """Bring schema and rollups up to date, these to windows of a length; close the database where that fails.

    Raises:
        ConfigError: as `migrate`.
        StoreUnavailable: as `migrate`.
    """
    try:
        upgrade(database)
        changed_windows.adopt(database, window)
    except BaseException:
        database.close()
        raise


def check(database: Database) -> None:
    """Return when the database answers with the schema of this version.

    Raises:
        StoreUnavailable: it does not answer, or has another schema; `rag-monitor migrate` makes it current.
    """
    with database.reading("checking the store") as connection:
        present = revision(connection)
    if present != REVISION:
        problem = _not_ours(present or "") or (
            f"schema {present or 'missing'}, needed {REVISION}; run `rag-monitor migrate`"
        )
        raise StoreUnavailable(f"checking the store: {database.place}: {problem}")


def is_empty(database: Database) -> bool:
    """Return whether a start may set the database up: nothing is in it yet.

    Raises:
        ConfigError: nothing is in it and we may not make tables there, or it cannot hold all text; or it is a SQLite
            file of another program.
        StoreUnavailable: it does not answer.
    """
    with database.reading("looking into the database") as connection:
        refuse_foreign(database, connection)
        if inspect(connection).get_table_names():
            return False
        if not database.sqlite:
            _check_encoding(connection)
            may_create = "SELECT coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)"
            if not connection.execute(text(may_create)).scalar_one():
                raise ConfigError(
                    "the database is empty and this user may not make tables in it; GRANT CREATE ON SCHEMA public",
                    where="store.url",
                )
    return True


def revision(connection: Connection) -> str | None:
    """Return the schema's revision; None for an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    present: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return present


def refuse_foreign(database: Database, connection: Connection) -> None:
    """Return when a SQLite file is empty or ours; PostgreSQL's databases may hold other programs' tables beside ours.

    Raises:
        ConfigError: its header or its tables are another program's.
    """
    if not database.sqlite:
        return
    owner = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
    has_only_others = revision(connection) is None and inspect(connection).get_table_names()
    if owner not in {0, _APPLICATION_ID} or has_only_others:
        raise ConfigError(f"{database.place} is a database of another program", where="store.url")


def _not_ours(present: str) -> str:
    """Return what is wrong with a revision that no migration of ours leads on from; "" for one that can be migrated."""
    if present and not _OUR_REVISION.fullmatch(present):
        return (
            "its table alembic_version is another program's; give the monitor a database or a schema of its own "
            "(docs/postgresql.md)"
        )
    if present > REVISION:
        return (
            f"the schema is {present}, made by a newer version of rag-monitor; this one knows {REVISION}: "
            "upgrade the program"
        )
    return ""


def _lock_postgresql(connection: Connection) -> None:
    connection.execute(text(f"SET LOCAL lock_timeout = {_PATIENCE // timedelta(milliseconds=1)}"))
    connection.execute(text("SET LOCAL statement_timeout = 0"))
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
    _check_encoding(connection)


def _check_encoding(connection: Connection) -> None:
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding != "UTF8":
        raise ConfigError(f"the database is encoded as {encoding}; create it with ENCODING 'UTF8'", where="store.url")


def _write_ahead(database: Database) -> None:
    """Turn write-ahead logging on, which a file keeps; SQLite does not wait for others here, so we ask again."""
    deadline = time.monotonic() + 30
    while True:
        try:
            with database.outside_transactions("setting up the SQLite file") as connection:
                connection.exec_driver_sql(f"PRAGMA page_size = {_PAGE_BYTES}")
                if connection.exec_driver_sql("PRAGMA journal_mode = WAL").scalar() != "wal":
                    raise ConfigError(
                        "this file system cannot keep a write-ahead log", where=f"store.url: {database.place}"
                    )
        except StoreUnavailable as error:
            if error.reason != "locked" or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
