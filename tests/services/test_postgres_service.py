"""The PostgreSQL fixtures: a real, durable server and a database of its own for each test."""

from collections.abc import Callable

import pytest
from postgres_service import PostgresServer
from sqlalchemy import Engine, NullPool, create_engine, make_url, text
from sqlalchemy.exc import OperationalError


def engine(url: str) -> Engine:
    """An engine that keeps no connection open."""
    return create_engine(url, poolclass=NullPool)


def ask(url: str, question: str) -> object:
    """The one value that `question` answers."""
    with engine(url).connect() as connection:
        return connection.execute(text(question)).scalar_one()


def test_committed_rows_are_read_back(postgres_url: str) -> None:
    """A committed row is seen by another connection."""
    with engine(postgres_url).begin() as connection:
        connection.execute(text("CREATE TABLE kept (number integer)"))
        connection.execute(text("INSERT INTO kept VALUES (7)"))
    assert 7 == ask(postgres_url, "SELECT number FROM kept")


@pytest.mark.parametrize("_", range(2))
def test_database_is_empty(_: int, postgres_url: str) -> None:
    """Each test gets a database without tables, even when the one before it made the same table."""
    assert 0 == ask(postgres_url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
    with engine(postgres_url).begin() as connection:
        connection.execute(text("CREATE TABLE made (number integer)"))


def test_database_is_dropped(postgres_server: PostgresServer, postgres_url: str) -> None:
    """Dropping a database closes what is still connected to it, and nothing of it is left."""
    name = postgres_server.create_database()
    with engine(postgres_server.url(name)).connect() as connection:
        postgres_server.drop_database(name)
        with pytest.raises(OperationalError):
            connection.execute(text("SELECT 1"))
    assert name not in str(ask(postgres_url, "SELECT array_agg(datname) FROM pg_database"))


@pytest.mark.parametrize(
    ("setting", "value"),
    [("fsync", "on"), ("synchronous_commit", "on"), ("server_encoding", "UTF8"), ("timezone", "Asia/Kolkata")],
)
def test_settings(setting: str, value: str, postgres_url: str) -> None:
    """The server is as durable as in production, stores any text, and does not run in UTC."""
    assert value == ask(postgres_url, f"SHOW {setting}")


def test_password_is_needed(postgres_url: str) -> None:
    """The URL works because of its password, as a production URL does."""
    with pytest.raises(OperationalError, match="password authentication failed"):
        ask(make_url(postgres_url).set(password="wrong").render_as_string(hide_password=False), "SELECT 1")


@pytest.mark.parametrize("end", [PostgresServer.stop, PostgresServer.kill])
def test_data_outlives_the_process(
    end: Callable[[PostgresServer], None], postgres_server: PostgresServer, postgres_url: str
) -> None:
    """What was committed is still there, at the same URL, after the server was stopped or crashed."""
    with engine(postgres_url).begin() as connection:
        connection.execute(text("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS number"))
    end(postgres_server)
    with pytest.raises(OperationalError):
        ask(postgres_url, "SELECT 1")
    postgres_server.restart()
    assert 1000 == ask(postgres_url, "SELECT count(*) FROM kept")


def test_healed(postgres_server: PostgresServer, request: pytest.FixtureRequest) -> None:
    """A server that a test leaves down is back before the fixtures of that test are torn down."""

    def runs() -> None:
        assert postgres_server.running

    request.addfinalizer(runs)
    postgres_server.stop()
