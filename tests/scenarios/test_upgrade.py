"""A store that 0.1.0 wrote says the same with this version.

`golden/store_0_1_0.sql.gz` is the store of `demo --days 6 --turns-per-hour 8 --seed 3` under 0.1.0, without the texts
of all but five turns, and with a resolved alert and five second opinions added; the JSON file beside it is what the
verbs of 0.1.0 printed from it.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from old_schema import migrate_to
from sqlalchemy import MetaData, create_engine, text

from monitor.cli.main import commands

GOLDEN = Path(__file__).parents[1] / "golden"
PRINTED = json.loads((GOLDEN / "store_0_1_0.json").read_text(encoding="utf-8"))
LAST_REVISION = "0006"
RENAMED = {"lower": "rate_lower", "upper": "rate_upper"}
"""Keys of an alert -> what they are called now."""


def load_sqlite(path: Path) -> None:
    """Make the store of 0.1.0 at `path`."""
    with closing(sqlite3.connect(path)) as store:
        store.executescript(gzip.decompress((GOLDEN / "store_0_1_0.sql.gz").read_bytes()).decode())


def copy_to_postgresql(path: Path, url: str) -> None:
    """Write the rows of the store at `path` into an empty database, as 0.1.0 would have."""
    engine = create_engine(url)
    with engine.begin() as target, closing(sqlite3.connect(path)) as source:
        migrate_to(LAST_REVISION, target)
        schema = MetaData()
        schema.reflect(target)
        for table in schema.sorted_tables:
            names = [column.name for column in table.columns]
            rows = source.execute(f"SELECT {', '.join(names)} FROM {table.name}").fetchall()  # noqa: S608 -- our own names
            if rows and table.name != "alembic_version":
                target.execute(table.delete())
                target.execute(table.insert(), [_typed(table, dict(zip(names, row, strict=True))) for row in rows])
        target.execute(text("SELECT setval(pg_get_serial_sequence('spans', 'position'), max(position)) FROM spans"))
    engine.dispose()


def _typed(table: Any, row: dict[str, Any]) -> dict[str, Any]:
    """SQLite has no truth values."""
    return {name: bool(value) if table.columns[name].type.python_type is bool else value for name, value in row.items()}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of 0.1.0."""
    path = tmp_path / "old.db"
    load_sqlite(path)
    if request.param == "sqlite":
        return f"sqlite:///{path}"
    postgres: str = request.getfixturevalue("postgres_url")
    copy_to_postgresql(path, postgres)
    return postgres


def lines(url: str, *arguments: str) -> list[dict[str, Any]]:
    """What a verb prints as JSON lines."""
    done = CliRunner().invoke(
        commands, [*arguments, "--store", url, "--format", "jsonl"], standalone_mode=False, catch_exceptions=False
    )
    return [json.loads(line) for line in done.output.splitlines()]


def test_old_store_says_the_same(url: str) -> None:
    """Migrated, it has the same trends, alerts and second opinions, to the last digit that matters."""
    CliRunner().invoke(commands, ["migrate", "--store", url], standalone_mode=False, catch_exceptions=False)
    assert 7 == len(PRINTED["trends"])
    before = [_flat(line) | {"not_asked": 0} for line in PRINTED["trends"]]
    assert [pytest.approx(line) for line in before] == [*map(_flat, lines(url, "trends"))]
    old = [{RENAMED.get(key, key): value for key, value in alert.items()} for alert in PRINTED["alerts"]]
    alerts = lines(url, "alerts")
    assert old == [{key: after[key] for key in before} for before, after in zip(old, alerts, strict=True)]
    assert [None, "2026-11-26T11:15:00Z"] == [alert["recovered_at"] for alert in alerts]
    groups = lines(url, "judge", "second-opinions", "--days", "36500")
    assert [pytest.approx(line) for line in map(_flat, PRINTED["judge steady"])] == [*map(_flat, groups)]


def _flat(line: dict[str, Any]) -> dict[str, Any]:
    """The line with the reasons of unscored turns beside the other keys."""
    return {key: value for key, value in line.items() if key != "unscored"} | line.get("unscored", {})
