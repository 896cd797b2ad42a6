"""A private PostgreSQL server for the test session, and a fresh database for each test that asks for one."""

import itertools
import os
import pwd
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import psycopg
import pytest
from deadline import wait_until
from guard import Guard, ServerEndedError, group_of
from loopback import free_port
from psycopg import sql
from requirement import require_or_skip

_ROLE = "rag_monitor"
_READY_SECONDS = 60.0
_PORTS_TRIED = 3
_ENVIRONMENT = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
_NO_MORE: Mapping[str, str] = MappingProxyType({})
_CONFIGURATION = """
listen_addresses = '127.0.0.1'
max_connections = 100
shared_buffers = 32MB
fsync = on
synchronous_commit = on
# A server far from UTC finds timestamps that lean on the session's time zone.
timezone = 'Asia/Kolkata'
"""
_SERVER = pytest.StashKey["PostgresServer"]()


class PostgresServer:
    """A PostgreSQL server on 127.0.0.1 and a Unix socket that keeps its data and port until the session ends.

    `environment` is what the server process has besides `PATH`, such as that of a clock of its own.
    """

    def __init__(self, binaries: Path, guard: Guard, *, environment: Mapping[str, str] = _NO_MORE) -> None:
        self._guard = guard
        self._environment = _ENVIRONMENT | environment
        self._binaries = binaries
        self._user = unprivileged_user()
        self._folder = guard.folder("rag-monitor-postgres-", user=self._user)
        self._log = self._folder / "postgres.log"
        self._password = secrets.token_urlsafe(12)
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self._initialise()
        self._start_on_free_port()
        self.version = self._ask("SHOW server_version")

    @property
    def running(self) -> bool:
        """Whether the server process is there."""
        return self._process is not None and self._process.poll() is None

    def url(self, database: str) -> str:
        """The SQLAlchemy URL of `database`, over TCP with a password."""
        return f"postgresql+psycopg://{_ROLE}:{self._password}@127.0.0.1:{self.port}/{database}"

    def create_database(self) -> str:
        """The name of a new, empty database."""
        name = f"test_{next(self._numbers)}"
        self._do("CREATE DATABASE {}", name)
        return name

    def drop_database(self, name: str) -> None:
        """Drop the database `name` and close what is still connected to it."""
        self._do("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def start(self) -> None:
        """Start the server on its data and port unless it runs; returns when it accepts connections."""
        if self.running:
            return
        self._end(signal.SIGKILL)
        self._process = self._guard.start(
            [
                self._binaries / "postgres",
                *("-D", self._folder / "data"),
                *("-p", str(self.port)),
                *("-k", self._folder),
            ],
            folder=self._folder,
            log=self._log,
            environment=self._environment,
            user=self._user,
            end=signal.SIGQUIT,
        )
        wait_until(self._ready, f"PostgreSQL on port {self.port}", seconds=_READY_SECONDS)

    def stop(self) -> None:
        """Shut the server down; open connections are rolled back and closed."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Crash the server: no checkpoint is written, so the next start recovers from the write-ahead log.

        SIGQUIT instead of SIGKILL, which leaves shared memory that can refuse the next start.
        """
        self._end(signal.SIGQUIT)

    def restart(self) -> None:
        """Stop the server if it runs and start it again, with its data and port."""
        self.stop()
        self.start()

    def heal(self) -> None:
        """Undo what a test left behind: start the server if it is down."""
        self.start()

    def _initialise(self) -> None:
        password_file = self._folder / "password"
        password_file.write_text(self._password)
        if self._user is not None:
            shutil.chown(password_file, self._user)
        initdb = subprocess.run(
            [
                self._binaries / "initdb",
                *("-D", self._folder / "data"),
                *("-U", _ROLE),
                *("--encoding", "UTF8"),
                *("--locale", "C"),
                *("--auth-local", "trust"),
                *("--auth-host", "scram-sha-256"),
                *("--pwfile", password_file),
                "--no-sync",
            ],
            cwd=self._folder,
            env=_ENVIRONMENT,
            user=self._user,
            group=group_of(self._user),
            extra_groups=None if self._user is None else [],
            capture_output=True,
            text=True,
            check=False,
        )
        if initdb.returncode:
            raise RuntimeError(f"creating a PostgreSQL data folder: initdb ended with {initdb.stderr.strip()}")
        with (self._folder / "data" / "postgresql.conf").open("a") as configuration:
            configuration.write(_CONFIGURATION)

    def _start_on_free_port(self) -> None:
        for _ in range(_PORTS_TRIED - 1):
            with suppress(ServerEndedError):
                return self.start()
            self.port = free_port()
        return self.start()

    def _ready(self) -> bool:
        if not self.running:
            raise ServerEndedError(f"starting PostgreSQL on port {self.port}: it ended with\n{self._log.read_text()}")
        with suppress(FileNotFoundError, IndexError):
            lines = (self._folder / "data" / "postmaster.pid").read_text().splitlines()
            return self._process is not None and int(lines[0]) == self._process.pid and lines[7].strip() == "ready"
        return False

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._guard.stop(self._process, how)
            self._process = None

    def _connect(self) -> psycopg.Connection[tuple[str]]:
        return psycopg.connect(host=str(self._folder), port=self.port, user=_ROLE, dbname="postgres", autocommit=True)

    def _do(self, statement: str, name: str) -> None:
        with self._connect() as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(name)))

    def _ask(self, question: str) -> str:
        with self._connect() as connection:
            row = connection.execute(question).fetchone()
        if row is None:
            raise RuntimeError(f"asking PostgreSQL {question!r}: no row came back")
        return row[0]


def unprivileged_user() -> str | None:
    """The account to run the server as, since PostgreSQL refuses root; `None` where we are not root."""
    if os.geteuid() != 0:
        return None
    names = {account.pw_name for account in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def find_binaries() -> Path | None:
    """The folder of `postgres` and `initdb`: from PATH, else Debian's folder of the highest version."""
    on_path = shutil.which("postgres")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    for found in (*([Path(on_path)] if on_path else []), *reversed(debian)):
        folder = found.resolve().parent
        if (folder / "initdb").exists():
            return folder
    return None


@pytest.fixture(scope="session")
def postgres_server(guard: Guard, request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """The session's PostgreSQL server; restarted after a test that left it down."""
    binaries = find_binaries()
    if binaries is None:
        looked = "postgres and initdb, on PATH and in /usr/lib/postgresql/*/bin"
        require_or_skip("postgres", f"PostgreSQL server binary not found (looked for {looked})")
    server = PostgresServer(binaries, guard)
    request.config.stash[_SERVER] = server
    yield server
    server.stop()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The SQLAlchemy URL of an empty database of this test's own, dropped after it."""
    name = postgres_server.create_database()
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Heal the server before the fixtures of a test are torn down."""
    if (server := item.config.stash.get(_SERVER, None)) is not None:
        server.heal()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which PostgreSQL the tests ran against."""
    if (server := config.stash.get(_SERVER, None)) is not None:
        terminalreporter.write_line(f"service: PostgreSQL {server.version} on 127.0.0.1:{server.port}")
