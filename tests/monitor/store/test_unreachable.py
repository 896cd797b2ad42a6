"""Why PostgreSQL cannot be reached is told apart: what a person does about each is another thing."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
import trustme
from postgres_service import unprivileged_user
from sqlalchemy import make_url

from monitor.errors import StoreUnavailable
from monitor.store.database import Database

if TYPE_CHECKING:
    from postgres_service import PostgresServer

AUTHORITY = trustme.CA()


def told(url: str, **changed: object) -> str:
    """What is told of the URL, changed; nothing of its password is."""
    address = make_url(url)
    query = {**address.query, **{k: str(v) for k, v in changed.items() if k.startswith("ssl")}}
    address = address.set(**{k: v for k, v in changed.items() if not k.startswith("ssl")}, query=query)
    database = Database(address, patience=timedelta(seconds=5))
    with closing(database), pytest.raises(StoreUnavailable) as caught, database.reading("looking"):
        pass
    assert caught.value.reason == "unreachable"
    assert str(address.password) not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["postgresql", "pooled"])
def test_login(kind: str, request: pytest.FixtureRequest) -> None:
    """A wrong password, a role that is not there and a database that is not there are not a server that is down."""
    url = request.getfixturevalue("postgres_url" if kind == "postgresql" else "pooled_url")
    assert "the login is refused; correct user and password" in told(url, password="wrong-secret")
    assert "the login is refused; correct user and password" in told(url, username="nobody_here")
    if kind == "postgresql":
        assert "there is no such database; create it" in told(url, database="missing")


def test_nobody_answers(postgres_url: str) -> None:
    """A port that nobody listens on, and a name that leads nowhere, are told as such."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert "nobody answers there" in told(postgres_url, port=unused.getsockname()[1])
    assert "no such host" in told(postgres_url, host="nowhere.invalid")


def test_no_connection_left(postgres_url: str) -> None:
    """A server whose connections are all taken says so, with what to do."""
    with closing(psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True)) as other:
        role = psycopg.sql.Identifier("one_at_a_time")
        other.execute(psycopg.sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'one' CONNECTION LIMIT 0").format(role))
        try:
            assert "store.max_connections" in told(postgres_url, username="one_at_a_time", password="one")
        finally:
            other.execute(psycopg.sql.SQL("DROP ROLE {}").format(role))


def test_encryption_is_not_offered(postgres_url: str) -> None:
    """A server without TLS, where the address asks for it, is told as such."""
    assert "sslmode" in told(postgres_url, sslmode="require")


@pytest.fixture
def encrypted(postgres_server: PostgresServer, postgres_url: str) -> Iterator[str]:
    """The URL of a database on the server while it has a certificate of `AUTHORITY` for another host's name."""
    with closing(psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True)) as other:
        folder = Path(other.execute("SHOW data_directory").fetchone()[0])
        certificate = AUTHORITY.issue_cert("db.example.org")
        certificate.private_key_pem.write_to_path(folder / "server.key")
        certificate.cert_chain_pems[0].write_to_path(folder / "server.crt")
        for file in ("server.key", "server.crt"):
            (folder / file).chmod(0o600)
            if (user := unprivileged_user()) is not None:
                shutil.chown(folder / file, user)
        other.execute("ALTER SYSTEM SET ssl = on")
        other.execute("SELECT pg_reload_conf()")
    postgres_server.restart()
    yield postgres_url
    with closing(psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True)) as other:
        other.execute("ALTER SYSTEM RESET ssl")
    postgres_server.restart()


def test_certificate(encrypted: str, tmp_path: Path) -> None:
    """A certificate of an unknown authority or for another name, and no authorities to read, are told apart."""
    trustme.CA().cert_pem.write_to_path(tmp_path / "stranger.pem")
    AUTHORITY.cert_pem.write_to_path(tmp_path / "ours.pem")
    whole = {"sslmode": "verify-full"}
    assert "certificate is not of an authority in sslrootcert" in told(
        encrypted, sslrootcert=tmp_path / "stranger.pem", **whole
    )
    assert "certificate is for another host" in told(encrypted, sslrootcert=tmp_path / "ours.pem", **whole)
    assert "sslrootcert cannot be read" in told(encrypted, sslrootcert=tmp_path / "missing.pem", **whole)
    trusted = {"sslmode": "verify-ca", "sslrootcert": str(tmp_path / "ours.pem")}
    address = make_url(encrypted).update_query_dict(trusted)
    with closing(Database(address, patience=timedelta(seconds=5))) as database, database.reading("looking") as ours:
        assert ours.exec_driver_sql("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").scalar_one()
