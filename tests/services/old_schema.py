"""A database as an older version left it."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

from monitor.store import tables

_MIGRATIONS = Path(tables.__file__).with_name("migrations")


def migrate_to(revision: str, connection: Connection) -> None:
    """Give an empty database the tables of a revision."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
