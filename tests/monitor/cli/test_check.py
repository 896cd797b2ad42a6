"""`rag-monitor check`: each part is looked at, nothing is changed, nothing secret is told."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from judge_server import JudgeServer, Step, refusal
from sqlalchemy import create_engine, make_url, text

from monitor.cli.check import Checked, check_parts
from monitor.settings.tree import Settings
from monitor.store.sql_store import open_store

NOBODY = "http://127.0.0.1:9"
"""The discard port: nothing listens there."""


async def checked(**tree: object) -> Mapping[str, Checked]:
    """The parts by name."""
    return {part.part: part for part in await check_parts(Settings.model_validate(tree))}


def store(path: Path) -> Mapping[str, str]:
    """The section of a SQLite store."""
    return {"url": f"sqlite:///{path}"}


async def test_parts_are_in_the_order_in_which_data_flows(tmp_path: Path) -> None:
    """Whoever reads from the top finds the first thing that is wrong first."""
    parts = list(await checked(store=store(tmp_path / "shop.db")))
    listeners = ["listener otlp_http", "listener otlp_grpc", "listener web"]
    expected = [
        "installation",
        "collectors",
        *listeners,
        "dialects",
        "store",
        "metrics",
        "judge",
        "channels",
        "grafana",
    ]
    assert expected == parts


async def test_listeners_say_who_may_come_in(tmp_path: Path) -> None:
    """Where each listens, whether it is encrypted and who may come in is told without a secret."""
    (tmp_path / "tokens").write_text("s3cret\n")
    collectors = [
        {"kind": "otlp_http", "host": "::", "auth": {"tokens": ["s3cret"], "tokens_file": str(tmp_path / "tokens")}},
        {"kind": "otlp_grpc", "unix_socket": "/run/otlp.sock"},
        {"kind": "file", "path": str(tmp_path)},
    ]
    parts = await checked(collectors=collectors, web={"host": "0.0.0.0", "open": True})  # noqa: S104 -- never bound
    known = f"1 token, {tmp_path}/tokens"
    assert {
        "listener otlp_http": f"[::]:4318 (not encrypted; for who has a token or password ({known}))",
        "listener otlp_grpc": "/run/otlp.sock (not encrypted; for the socket's owner and group)",
        "listener web": "http://0.0.0.0:8080/metrics (not encrypted; for anybody who reaches it)",
    } == {name: part.message for name, part in parts.items() if name.startswith("listener ")}


async def test_new_store_is_not_made(tmp_path: Path) -> None:
    """A file that is not there yet is well, and is still not there afterwards."""
    path = tmp_path / "shop.db"
    found = (await checked(store=store(path)))["store"]
    assert Checked(part="store", ok=True, message=f"{path} does not exist yet and will be made at start") == found
    assert not path.exists()


async def test_store_answers(tmp_path: Path) -> None:
    """A store with the schema of this version is well."""
    path = tmp_path / "shop.db"
    open_store(f"sqlite:///{path}").close()
    found = (await checked(store=store(path)))["store"]
    assert Checked(part="store", ok=True, message=f"sqlite:///{path} answers, its schema is current") == found


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite:///{folder}/nowhere/shop.db", "store.url: no folder '{folder}/nowhere'"),
        ("sqlite:///{folder}/old.db", "store.url: {folder}/old.db is a database of another program"),
        ("no url", "store.url: not a database URL that is known here; allowed: "),
        ("postgresql://u:s3cr3t@127.0.0.1:9/shop", "127.0.0.1/shop"),
    ],
)
async def test_unusable_store_is_told(tmp_path: Path, url: str, message: str) -> None:
    """A store that cannot be used says why, without its password."""
    with closing(sqlite3.connect(tmp_path / "old.db")) as other:
        other.execute("CREATE TABLE of_another_program (x)")
    found = (await checked(store={"url": url.format(folder=tmp_path)}))["store"]
    assert not found.ok
    assert message.format(folder=tmp_path) in found.message
    assert "s3cr3t" not in found.message


async def test_one_broken_part_keeps_no_other_from_being_looked_at(tmp_path: Path) -> None:
    """Everything that is wrong is told at once."""
    found = await checked(
        store=store(tmp_path / "nowhere" / "x.db"),
        collectors=[{"kind": "otlp_http", "prot": 1}],
        judge={"kind": "openai", "api_key": "s3cr3t", "base_url": f"{NOBODY}/v1", "timeout": "2s"},
        channels=[{"kind": "webhook", "url": f"{NOBODY}/s3cr3t"}],
        grafana={"url": NOBODY, "token": "s3cr3t", "timeout": "2s"},
    )
    expected = {"installation": True, "collectors": False, "dialects": True, "store": False, "metrics": True}
    expected |= {"listener web": True, "judge": False, "channels": False, "grafana": False}
    assert expected == {name: part.ok for name, part in found.items()}
    assert "s3cr3t" not in str(found)


async def test_judge_is_asked_once(tmp_path: Path) -> None:
    """A judge model that answers is well, after one request with a dozen tokens."""
    server = JudgeServer()
    try:
        judge = {"kind": "openai", "api_key": "k", "base_url": server.url, "model": "judge-1"}
        found = (await checked(store=store(tmp_path / "shop.db"), judge=judge))["judge"]
        assert found.ok
        assert "judge-1 answered in " in found.message
        assert 1 == len(server.asked)
    finally:
        server.close()


async def test_judge_that_refuses_is_told(tmp_path: Path) -> None:
    """A wrong key is told as such, and not repeated."""
    server = JudgeServer()
    server.script(*[refusal(401, "Incorrect API key provided: s3cr3t", code="invalid_api_key")] * 3)
    try:
        judge = {"kind": "openai", "api_key": "s3cr3t", "base_url": server.url}
        found = (await checked(store=store(tmp_path / "shop.db"), judge=judge))["judge"]
        assert not found.ok
        assert "401" in found.message
        assert "s3cr3t" not in found.message
    finally:
        server.close()


@pytest.mark.parametrize(
    ("step", "path", "message"),
    [
        (
            refusal(404, "The model `judge-9` does not exist", code="model_not_found"),
            "/v1",
            'HTTP 404, "The model `judge-9` does not exist", model_not_found',
        ),
        (refusal(401, "Bad key s3cr3t,\nsee our page"), "/v1", 'HTTP 401, "Bad key ***, see our page"'),
        (
            Step(status=400, body=[{"error": {"message": "API key not valid."}}]),
            "/v1",
            'HTTP 400, "API key not valid."',
        ),
        (Step(status=403, body="<html>no</html>"), "/v1", 'HTTP 403, "a page of HTML"'),
        (Step(status=404, body="404 page not found"), "", '"404 page not found"; is base_url to end in /v1?'),
        (Step(body="<html>hi</html>"), "", "HTTP 200 without a chat completion; is base_url to end in /v1?"),
        (Step(status=404, body="404 page not found"), "/v1", 'HTTP 404, "404 page not found"'),
    ],
)
async def test_what_a_judge_says(tmp_path: Path, step: Step, path: str, message: str) -> None:
    """What the endpoint says is shown, for it was sent no user text; a key that it repeats is not."""
    with closing(JudgeServer()) as server:
        server.script(step)
        judge = {"kind": "openai", "api_key": "s3cr3t", "base_url": server.url.removesuffix("/v1") + path}
        part = (await checked(store=store(tmp_path / "shop.db"), judge=judge))["judge"]
    assert not part.ok
    assert part.message.endswith(message)
    assert "s3cr3t" not in part.message


async def test_metrics_that_need_a_judge(tmp_path: Path) -> None:
    """Without a judge model only what would ask one is told as not measured; a name that nobody knows fails."""
    names = ["groundedness", "precision_at_5", "f1"]
    found = (await checked(store=store(tmp_path / "shop.db"), metrics=names))["metrics"]
    measured = "groundedness_proxy, precision_at_5, f1"
    message = f"{measured}; without a judge model (judge.kind: openai) not measured: groundedness"
    assert Checked(part="metrics", ok=True, message=message) == found
    assert "f1" == (await checked(store=store(tmp_path / "shop.db"), metrics=["f1"]))["metrics"].message.split(", ")[-1]
    assert not (await checked(store=store(tmp_path / "shop.db"), metrics=["groundednes"]))["metrics"].ok


async def test_fault_is_a_failed_part() -> None:
    """A fault nobody thought of fails its part with its type and place, not its message, and the others are seen."""
    # A NUL that came in by a way around the settings: the file system refuses it with a ValueError.
    found = await checked(store={"url": "sqlite:///s3cr3t\0.db"})
    assert not found["store"].ok
    assert "ValueError at " in found["store"].message
    assert "s3cr3t" not in found["store"].message
    assert found["metrics"].ok


@pytest.mark.postgres
async def test_empty_database(postgres_url: str) -> None:
    """A database without tables is as well as a folder without a file, and is still empty afterwards."""
    shown = make_url(postgres_url).render_as_string(hide_password=True)
    for _ in range(2):
        part = (await checked(store={"url": postgres_url}))["store"]
        assert Checked(part="store", ok=True, message=f"{shown} is empty and will be set up at start") == part


@pytest.mark.postgres
async def test_database_in_use(postgres_url: str) -> None:
    """A database with the schema of this version is well; with tables of others and without ours it is not."""
    open_store(postgres_url).close()
    assert "answers, its schema is current" in (await checked(store={"url": postgres_url}))["store"].message
    engine = create_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE alembic_version"))
    engine.dispose()
    part = (await checked(store={"url": postgres_url}))["store"]
    assert not part.ok
    assert "schema missing" in part.message


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"database": "nowhere"}, "there is no such database; create it"),
        ({"password": "wr0ng"}, "the login is refused; correct user and password"),
        ({"username": "nobody"}, "the login is refused; correct user and password"),
        ({"port": 9}, "nobody answers there; is the server up"),
        ({"host": "nowhere.invalid"}, "no such host is known"),
    ],
)
async def test_why_a_database_is_not_reached(postgres_url: str, changed: dict[str, str | int], message: str) -> None:
    """A missing database, a refused login and an unreachable host are told apart, each with what to do."""
    url = make_url(postgres_url).set(**changed).render_as_string(hide_password=False)
    part = (await checked(store={"url": url}))["store"]
    assert not part.ok
    assert message in part.message
    assert "wr0ng" not in part.message
