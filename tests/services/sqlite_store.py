"""An empty store in a file, for the tests that need no server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from monitor.store.sql_store import SqlStore, open_store


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """Where the file of `store` is, or will be."""
    return tmp_path / "store.db"


@pytest.fixture
def store(store_path: Path) -> Iterator[SqlStore]:
    """An empty SQLite store."""
    opened = open_store(f"sqlite:///{store_path}")
    yield opened
    opened.close()
