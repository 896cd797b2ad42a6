"""What docs/postgresql.md has people type works, and leaves the monitor with the rights that it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from code_under_test import clean_environment
from postgres_service import find_binaries
from sqlalchemy import URL, make_url

from monitor.errors import StoreUnavailable
from monitor.model.spans import Fragment
from monitor.runtime.store_opening import store_address
from monitor.settings.store import StoreSettings
from monitor.store.sql_store import open_store

if TYPE_CHECKING:
    from postgres_service import PostgresServer

PAGE = (Path(__file__).parents[2] / "docs" / "postgresql.md").read_text(encoding="utf-8")
SQL = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
CONSOLE = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PASSWORDS = {"monitor_owner": "password-of-the-owner", "monitor": "password-of-the-monitor"}


class Desk:
    """Where somebody follows the page, at a server of their own."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self._superuser = make_url(server.url("postgres"))
        self._folder = folder

    def address(self, role: str) -> URL:
        """Where the role finds the page's database."""
        place = {"host": self._superuser.host, "port": self._superuser.port}
        return store_address(StoreSettings(**place, user=role, password=PASSWORDS[role], database="monitor"))

    def ask(self, role: str, statement: str) -> object:
        """The one value that a statement gives the role; None for none."""
        url = self.address(role).set(drivername="postgresql").render_as_string(hide_password=False)
        with closing(psycopg.connect(url)) as asking:
            rows = asking.execute(statement)
            return rows.fetchone()[0] if rows.description else None

    def psql(self, statements: str, *, role: str = "", database: str = "postgres") -> None:
        """Run a block of SQL as a role, or as superuser."""
        self.shell("psql --no-psqlrc --set ON_ERROR_STOP=1 --file=-", role=role, database=database, typed=statements)

    def shell(self, script: str, *, role: str = "", database: str = "postgres", typed: str = "") -> None:
        """Run a script as a shell does that stops at the first failure."""
        environment = {
            **clean_environment(self._folder),
            "PATH": f"{find_binaries()}:{os.environ['PATH']}",
            "PGHOST": self._superuser.host,
            "PGPORT": str(self._superuser.port),
            "PGUSER": role or self._superuser.username,
            "PGPASSWORD": PASSWORDS.get(role) or self._superuser.password,
            "PGDATABASE": database,
        }
        done = subprocess.run(
            ["bash", "-eu", "-c", f"PATH={Path(sys.executable).parent}:$PATH\n{script}"],
            cwd=self._folder,
            env=environment,
            input=typed,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def commands(block: str) -> str:
    """What is typed in a block."""
    return "\n".join(line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ "))


@pytest.fixture
def desk(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[Desk]:
    """A server on which the page's roles and databases are those of this test."""
    desk = Desk(postgres_server, tmp_path)
    yield desk
    for name in ("monitor", "monitor_copy"):
        postgres_server.drop_database(name)
    desk.psql("DROP ROLE IF EXISTS monitor; DROP ROLE IF EXISTS monitor_owner;")


def test_page(desk: Desk, tmp_path: Path) -> None:
    """The page followed from above: the monitor has rows only, deleted text is vacuumed, and a dump can be restored."""
    roles, schema, vacuum = SQL
    migrate, backup = CONSOLE
    desk.psql(roles)
    desk.psql(schema, role="monitor_owner", database="monitor")
    with pytest.raises(StoreUnavailable, match="this role may not; migrate as the owner") as caught:
        open_store(desk.address("monitor"))
    assert caught.value.reason == "read_only"
    desk.shell(commands(migrate), role="monitor_owner")

    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    with closing(open_store(desk.address("monitor"))) as store:
        store.check()
        store.append(
            [Fragment(trace_id="1" * 32, signal="traces", payload=b"x", count=1, received_at=now, digest=b"1" * 16)]
        )
        assert store.take_lease("schedule", "me", ttl=timedelta(minutes=1))
        assert store.key("user") == store.key("user")
    for refused in ("CREATE TABLE t (x int)", "CREATE TABLE public.t (x int)", "TRUNCATE spans", "DROP TABLE spans"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            desk.ask("monitor", refused)
    assert "rag_monitor" == desk.ask("monitor", "SELECT schemaname FROM pg_tables WHERE tablename = 'spans'")

    desk.psql("DELETE FROM spans", role="monitor", database="monitor")
    desk.psql(vacuum, role="monitor_owner", database="monitor")
    assert 0 == desk.ask("monitor_owner", "SELECT pg_relation_size('spans')")

    desk.psql("CREATE DATABASE monitor_copy OWNER monitor_owner ENCODING 'UTF8' TEMPLATE template0;")
    desk.shell(commands(backup), role="monitor_owner")
    assert 0o600 == (tmp_path / "monitor.dump").stat().st_mode & 0o777
