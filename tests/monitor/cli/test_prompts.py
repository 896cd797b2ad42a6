"""The verbs that show prompt files."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from judged_turn import judged_turn

from monitor.assets import asset_dir
from monitor.cli.main import commands
from monitor.errors import ConfigError, Rejected
from monitor.judging.prompt.file import locate, read, shipped
from monitor.model.spans import Assembly
from monitor.store.sql_store import open_store


def _run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(commands, ("prompts", *arguments), env=environment, standalone_mode=False)


def test_list() -> None:
    """All shipped metrics are listed, as a table and for programs."""
    rows = [json.loads(line) for line in _run("list", "--format", "jsonl").output.splitlines()]
    assert set(shipped()) == {row["file"] for row in rows}
    assert {"file": "groundedness", "metric": "groundedness", "scale": "1 to 5", "defect": "<= 3"}.items() <= next(
        row for row in rows if row["file"] == "groundedness"
    ).items()
    table = _run("list").output
    assert all(row["metric"] in table for row in rows)


def test_show() -> None:
    """A file is shown as it is, and so is its schema."""
    folder = asset_dir("prompts")
    assert (folder / "relevance.md").read_text(encoding="utf-8") == _run("show", "relevance").output
    assert (folder / "relevance.schema.json").read_text(encoding="utf-8") == _run(
        "show", "relevance", "--schema"
    ).output
    assert isinstance(_run("show", "factcheck", "--schema").exception, ConfigError)


@pytest.mark.parametrize("name", shipped())
def test_check_of_a_copy(tmp_path: Path, name: str) -> None:
    """What `show` prints, kept anywhere under any name, is a sound prompt file; a schema beside it goes first."""
    copy = tmp_path / "mine.md"
    copy.write_text(_run("show", name).output, encoding="utf-8")
    assert 0 == _run("check", str(copy)).return_value
    (tmp_path / f"{name}.schema.json").write_text("{", encoding="utf-8")
    has_schema = read(locate(name)).front.schema_file is not None
    assert has_schema == bool(_run("check", str(copy)).return_value)


def test_check(tmp_path: Path) -> None:
    """Sound files pass; a wrong one fails the check with file, line and mistake."""
    assert 0 == _run("check").return_value
    wrong = tmp_path / "tone.md"
    wrong.write_text("---\nid: tone\n---\n[system]\nx\n[user]\n{{fence}} {{respons}}\n", encoding="utf-8")
    found = _run("check", "groundedness", str(wrong))
    assert 1 == found.return_value
    assert "ok      groundedness: groundedness; reply is JSON by groundedness.schema.json" in found.output
    assert f"FAILED  {wrong}:1: version: Field required" in found.output


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    """The URL of a store with one turn."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    store = open_store(url)
    turn = judged_turn("Refunds take 14 days. They are free.")
    store.replace_turns([Assembly(trace_id=turn.trace_id, through=1, turns=(turn,))], now=turn.ended_at)
    store.close()
    return url


def test_render(store_url: str) -> None:
    """What a judge is asked about a stored turn is printed, once a call."""
    found = _run("render", "turn-", "--prompt", "documents", "--prompt", "factcheck", "--store", store_url)
    assert found.exception is None
    assert 1 == found.output.count("(1) Refunds take 14 days.\n(2) They are free.")
    assert (
        "=== factcheck\n[user]\nDocument: Refunds are paid within 14 days.\nClaim: Refunds take 14 days.\n"
        in found.output
    )
    assert 2 == found.output.count("=== factcheck")


def test_render_an_unknown_turn(store_url: str) -> None:
    """A turn that is not there is told as such."""
    assert isinstance(_run("render", "none", "--prompt", "answer", "--store", store_url).exception, Rejected)


def test_render_by_settings(store_url: str) -> None:
    """Without a name the metrics of the settings are rendered; without a judge model there is nothing to ask."""
    asked = _run("render", "turn-", "--store", store_url, RAG_MONITOR__JUDGE__KIND="openai", OPENAI_API_KEY="k")
    assert ["groundedness", "relevance", "hate_unfairness, sexual, violence, self_harm, jailbreak"] == [
        line.removeprefix("=== ") for line in asked.output.splitlines() if line.startswith("===")
    ]
    refused = _run("render", "turn-", "--store", store_url).exception
    assert isinstance(refused, ConfigError)
    assert "metrics: none of those configured asks a judge model" in str(refused)
