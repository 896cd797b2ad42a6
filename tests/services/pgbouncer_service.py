"""PgBouncer in transaction mode, in front of the session's PostgreSQL: as small and as strict as its defaults are."""

import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator

import pytest
from deadline import wait_until
from guard import Guard
from loopback import free_port
from postgres_service import PostgresServer, unprivileged_user
from requirement import require_or_skip
from sqlalchemy import make_url

POOL_SIZE = 5
"""Connections to PostgreSQL for each database; whoever finds none free waits."""

_READY_SECONDS = 20.0
_DEBIAN = "/usr/sbin"
"""Where Debian installs it, which is not on everybody's PATH."""
_CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={server_port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 400
# A lost connection to the server is tried again soon, since tests restart it.
server_login_retry = 1
"""


class PgBouncer:
    """A pooler on 127.0.0.1 that lends a connection for one transaction, to whichever client asks next."""

    def __init__(self, binary: str, server: PostgresServer, guard: Guard) -> None:
        self._guard = guard
        self._folder = guard.folder("rag-monitor-pgbouncer-", user=unprivileged_user())
        self.port = free_port()
        login = make_url(server.url("postgres"))
        users = self._folder / "users"
        users.write_text(f'"{login.username}" "{login.password}"\n')
        (self._folder / "pgbouncer.ini").write_text(
            _CONFIGURATION.format(server_port=server.port, port=self.port, folder=self._folder, pool_size=POOL_SIZE)
        )
        for path in self._folder.iterdir():
            if unprivileged_user() is not None:
                shutil.chown(path, unprivileged_user())
        self._process = guard.start(
            [binary, self._folder / "pgbouncer.ini"],
            folder=self._folder,
            log=self._folder / "pgbouncer.log",
            environment={"PATH": "", "LC_ALL": "C"},
            user=unprivileged_user(),
            end=signal.SIGTERM,
        )
        wait_until(self._listens, f"PgBouncer on port {self.port}", seconds=_READY_SECONDS)

    @property
    def version(self) -> str:
        """What the program calls itself."""
        said = subprocess.run([self._process.args[0], "--version"], capture_output=True, text=True, check=True)
        return said.stdout.splitlines()[0]

    def url(self, server_url: str) -> str:
        """The URL that leads through the pooler to the database of a URL of the server."""
        return make_url(server_url).set(port=self.port).render_as_string(hide_password=False)

    def stop(self) -> None:
        """End the pooler and the connections of its clients."""
        self._guard.stop(self._process, signal.SIGTERM)

    def _listens(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"starting PgBouncer: it ended with\n{(self._folder / 'pgbouncer.log').read_text()}")
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True


def find_pgbouncer() -> str | None:
    """The program's path; None where it is not installed."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path=_DEBIAN)


@pytest.fixture(scope="session")
def pgbouncer(guard: Guard, request: pytest.FixtureRequest) -> Iterator[PgBouncer]:
    """The session's pooler in front of its PostgreSQL server."""
    binary = find_pgbouncer()
    if binary is None:
        require_or_skip("pgbouncer", f"PgBouncer not found (looked for pgbouncer on PATH and in {_DEBIAN})")
    pooler = PgBouncer(binary, request.getfixturevalue("postgres_server"), guard)
    yield pooler
    pooler.stop()


@pytest.fixture
def pooled_url(pgbouncer: PgBouncer, postgres_url: str) -> str:
    """The URL, through the pooler, of an empty database of this test's own."""
    return pgbouncer.url(postgres_url)
