"""The migrations make what the tables say."""

import doctest
import re
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text

from monitor.errors import ConfigError, StoreUnavailable
from monitor.store import changed_windows, columns, rollup
from monitor.store.migration import migrate
from monitor.store.sql_store import open_store
from monitor.store.tables import REVISION, metadata

MIGRATIONS = Path(columns.__file__).with_name("migrations")


def test_migrated_schema(url: str) -> None:
    """A migrated database differs from the tables in nothing that alembic can see."""
    migrate(url)
    engine = create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_migrated_twice(url: str) -> None:
    """A database that is up to date is left as it is."""
    migrate(url)
    migrate(url)
    with closing(open_store(url, migrate=False)) as store:
        store.check()


def test_revision() -> None:
    """The revision that the program asks for is the last migration."""
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [REVISION]


def test_newer_schema(url: str) -> None:
    """A database made by a newer version is neither migrated nor taken for ours."""
    migrate(url)
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    told = f"the schema is 9999, made by a newer version of rag-monitor; this one knows {REVISION}: upgrade the program"
    with pytest.raises(ConfigError, match=told):
        migrate(url)
    with closing(open_store(url, migrate=False)) as store, pytest.raises(StoreUnavailable, match=told):
        store.check()


def test_schema_of_another_program(url: str) -> None:
    """Another program that keeps its revision in a table of that name is not taken for a newer version of ours."""
    migrate(url)
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'ae1027a6acf'"))
    engine.dispose()
    told = "its table alembic_version is another program's; give the monitor a database or a schema of its own"
    with pytest.raises(ConfigError, match=told):
        migrate(url)
    with closing(open_store(url, migrate=False)) as store, pytest.raises(StoreUnavailable, match=told):
        store.check()


def test_text_is_vacuumed_soon(postgres_url: str) -> None:
    """PostgreSQL vacuums each table of text, and what is stored out of line of it, once a hundredth is deleted."""
    migrate(postgres_url)
    engine = create_engine(postgres_url)
    options = text(
        "SELECT relation.relname, relation.reloptions, toast.reloptions FROM pg_class relation "
        "JOIN pg_class toast ON toast.oid = relation.reltoastrelid WHERE toast.reloptions IS NOT NULL"
    )
    soon = ["autovacuum_vacuum_scale_factor=0.01", "autovacuum_vacuum_threshold=1000"]
    with engine.connect() as connection:
        found = {row[0]: (sorted(row[1]), sorted(row[2])) for row in connection.execute(options)}
    engine.dispose()
    assert dict.fromkeys(("spans", "turn_texts", "exchanges"), (soon, soon)) == found


def test_ingest_pages(tmp_path: Path) -> None:
    """A new SQLite file logs ahead and has pages that hold a fragment of usual size."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    migrate(url)
    engine = create_engine(url)
    with engine.connect() as connection:
        pragmas = [connection.execute(text(f"PRAGMA {name}")).scalar() for name in ("journal_mode", "page_size")]
    engine.dispose()
    assert ["wal", 8192] == pragmas


def test_text_columns_of_user_text() -> None:
    """Retention finds all user text: the columns for it are in three tables and nowhere else."""
    words = re.compile(r"payload|query|history|citation|response|ground_truth|prompt|reply|_text")
    found = {table.name for table in metadata.tables.values() for c in table.c if words.search(c.name)}
    assert {"spans", "turn_texts", "exchanges"} == found


@pytest.mark.parametrize("module", [changed_windows, columns, rollup])
def test_examples(module: ModuleType) -> None:
    """The examples in the docstrings hold."""
    assert doctest.testmod(module).failed == 0
