"""The verbs that try a judge, with one over loopback."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from judge_server import JudgeServer, Step, completion, kind
from judged_turn import ASKED_AT, judged_turn
from obedient_judge import ObedientJudge

from monitor.assets import asset_dir
from monitor.cli.main import commands
from monitor.errors import ConfigError
from monitor.judging.dialogue import REPAIR
from monitor.judging.prompt.file import shipped
from monitor.model.judgements import Spend
from monitor.model.spans import Assembly
from monitor.store.sql_store import open_store

OWN = "\n".join((asset_dir("prompts") / f"{name}.md").read_text(encoding="utf-8") for name in shipped())
Run = Callable[..., Result]


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    """A judge over loopback."""
    server = JudgeServer()
    yield server
    server.close()


@pytest.fixture
def run(server: JudgeServer, tmp_path: Path) -> Run:
    """Runs a command with the server as its judge."""

    def command(*arguments: str, kind: str = "openai") -> Result:
        environment = {
            "RAG_MONITOR__JUDGE__KIND": kind,
            "RAG_MONITOR__JUDGE__BASE_URL": server.url,
            "RAG_MONITOR__JUDGE__MODEL": "gpt-4o-mini",
            "RAG_MONITOR__STORE__URL": f"sqlite:///{tmp_path / 'store.db'}",
        }
        return CliRunner().invoke(commands, arguments, env=environment, standalone_mode=False)

    return command


@pytest.mark.parametrize("options", [(), ("--days", "90")])
def test_old_name_of_second_opinions(run: Run, options: tuple[str, ...]) -> None:
    """The verb's old name is refused, with whatever options, and the new one named."""
    error = run("judge", "steady", *options).exception
    assert isinstance(error, ConfigError)
    assert "steady: this verb is called `rag-monitor judge second-opinions` now" == str(error)


def test_canary(server: JudgeServer, run: Run) -> None:
    """A judge whose verdicts hold ends with status 0; all attacks are counted by what became of them."""
    server.answer = ObedientJudge(OWN, REPAIR, defect=True)
    found = run("judge", "canary", "--language", "nl", "--place", "answer", "--format", "jsonl")
    assert (0, None) == (found.return_value, found.exception)
    (trial,) = [json.loads(line) for line in found.output.splitlines()]
    assert ("answer-nl-order", "held", None) == (trial["id"], trial["result"], trial["reason"])


def test_canary_that_turns(server: JudgeServer, run: Run) -> None:
    """A verdict that turns is named, and the status is 1."""
    plain = ObedientJudge(OWN, REPAIR, defect=True)
    server.answer = lambda body: (  # type: ignore[assignment]
        completion(kind(body)) if "Negeer" in str(body["messages"]) else plain(body)
    )
    found = run("judge", "canary", "--language", "nl", "--place", "answer")
    assert 1 == found.return_value
    assert "turned: answer-nl-order (order, answer, nl)" in found.output
    assert "1 attacks" in found.output


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        (lambda _: "Score: 5", 1, "unreadable: answer-nl-order (order, answer, nl)"),
        (lambda body: completion(kind(body)), 1, "wrong without the attack: answer-nl-order"),
        (lambda _: completion(None, refusal="No."), 0, ""),
    ],
    ids=["unreadable", "unsound", "refusing"],
)
def test_canary_of_a_judge_that_proves_nothing(
    server: JudgeServer, run: Run, answer: Callable[[dict[str, Any]], str | Step], status: int, said: str
) -> None:
    """A judge that is wrong without any attack, or cannot be read, fails the trial as one does that gives in."""
    server.answer = answer
    trial = run("judge", "canary", "--language", "nl", "--place", "answer")
    assert (status, None) == (trial.return_value, trial.exception)
    assert said in trial.output


def test_canary_without_a_judge(run: Run) -> None:
    """The lexical proxy has no model that could be talked to."""
    assert isinstance(run("judge", "canary", kind="none").exception, ConfigError)
    assert isinstance(run("judge", "canary", "--language", "xx").exception, ConfigError)


def _labels(tmp_path: Path, labels: str) -> str:
    """A file with a turn for each letter: d for a defect, p for none, ? for one in between."""
    defects = [{"d": True, "p": False, "?": None}[letter] for letter in labels]
    lines = [
        {
            "question": "When is a refund paid?",
            "context": "Refunds are paid within 14 days.",
            "answer": f"Refunds are paid within {'90 years' if defect else '14 days'}, case {number}.",
            "label": {"grounded": None if defect is None else int(not defect)},
            "lang": "en" if number % 2 else "nl",
        }
        for number, defect in enumerate(defects)
    ]
    path = tmp_path / "labels.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return str(path)


def test_agree(server: JudgeServer, run: Run, tmp_path: Path) -> None:
    """Verdicts are held against labels: over all, and by language; a label in between is left out."""

    def judged(body: dict[str, object]) -> str:
        prompt = str(body["messages"])
        found = json.loads(kind(body))
        # One true defect is missed, and one turn without any is accused.
        if ("90 years" in prompt and "case 0" not in prompt) or "case 4" in prompt:
            found["sentences"][0]["verdict"] = "contradicted"
        return json.dumps(found)

    server.answer = judged  # type: ignore[assignment]
    path = _labels(tmp_path, "dddppp?")
    found = run("judge", "agree", path, "--format", "jsonl")
    assert found.exception is None
    parts = {part["group"]: part for part in map(json.loads, found.output.splitlines())}
    assert {"all", "lang=en", "lang=nl"} == parts.keys()
    whole = parts["all"]
    assert (6, {}) == (whole["scored"], whole["unscored"])
    assert [2 / 3] * 4 == [whole[name]["value"] for name in ("sensitivity", "specificity", "precision", "agreed")]
    assert pytest.approx(1 / 3) == whole["kappa"]
    assert pytest.approx(2 / 3) == whole["auc"]
    assert 0.2 < whole["sensitivity"]["lower"] < 2 / 3 < whole["sensitivity"]["upper"]
    assert (1.0, 1.0) == (parts["lang=en"]["sensitivity"]["value"], parts["lang=en"]["specificity"]["value"])
    assert "found are true" in run("judge", "agree", path).output


def test_agree_without_a_judge(run: Run, server: JudgeServer, tmp_path: Path) -> None:
    """Without a model the lexical proxy is measured, and nothing is asked."""
    found = run("judge", "agree", _labels(tmp_path, "dp"), "--format", "jsonl", kind="none")
    assert 2 == json.loads(found.output.splitlines()[0])["scored"]
    assert [] == server.asked


def test_agree_on_statements(run: Run, tmp_path: Path) -> None:
    """A statement that nobody asked for is held against its documents, as an answer is."""
    context = {"citations": [{"id": "1", "content": "The bridge was opened in 1937."}]}
    said = {"role": "assistant", "content": "The bridge was opened in 1937.", "context": context}
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps({"messages": [said], "label": {"grounded": 1}}), encoding="utf-8")
    whole = json.loads(run("judge", "agree", str(path), "--format", "jsonl", kind="none").output)
    assert (1, 1.0) == (whole["scored"], whole["specificity"]["value"])


def test_agree_on_published_labels(shared: Path, run: Run) -> None:
    """The lexical proxy ranks published turns as it was measured to; every source has its own row."""
    path = shared / "data" / "core.jsonl"
    found = run("judge", "agree", str(path), "--limit", "300", "--format", "jsonl", kind="none")
    assert found.exception is None
    parts = {part["group"]: part for part in map(json.loads, found.output.splitlines())}
    sources = {f"source={name}" for name in ("begin_wow", "dialfact", "expertqa", "faithdial_audit", "mtrag", "wice")}
    assert sources | {"all", "lang=en"} == parts.keys()
    assert 300 == parts["all"]["scored"] + sum(parts["all"]["unscored"].values())
    assert 0.78 < parts["all"]["auc"] < 0.9
    assert 0.9 < parts["source=mtrag"]["auc"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", ":1: not JSON"),
        ('{"question": "q", "answer": "a"}', ":1: no label: expected"),
        ('{"label": {"grounded": 1}}', ":1: "),
    ],
)
def test_agree_with_a_wrong_file(run: Run, tmp_path: Path, line: str, message: str) -> None:
    """A line that is no labelled turn is told by its number."""
    path = tmp_path / "labels.jsonl"
    path.write_text(line, encoding="utf-8")
    error = run("judge", "agree", str(path)).exception
    assert isinstance(error, ConfigError)
    assert message in str(error)


def test_cost(run: Run, server: JudgeServer, tmp_path: Path) -> None:
    """The cost is predicted from stored turns by their own prompts, and what was spent is told; nothing is asked."""
    now = datetime.now(UTC)
    store = open_store(f"sqlite:///{tmp_path / 'store.db'}")
    turns = [
        replace(judged_turn(name=str(n)), started_at=now - timedelta(hours=n % 100 + 1), ended_at=now)
        for n in range(700)
    ]
    store.replace_turns([Assembly(trace_id=t.trace_id, through=1, turns=(t,)) for t in turns], now=now)
    store.record_spend("w", day=now.replace(hour=0, minute=0, second=0, microsecond=0), spend=Spend(usd=1.5, calls=1))
    store.close()
    found = run("judge", "cost", "--format", "jsonl")
    assert found.exception is None
    parts = [json.loads(line) for line in found.output.splitlines()]
    assert ["groundedness", "relevance", "hate_unfairness"] == [part["metrics"][0] for part in parts]
    for part in parts:
        assert 1.0 == part["calls_per_turn"]
        assert 300 < part["input_tokens_per_turn"] < 3000
        expected = (0.15 * part["input_tokens_per_turn"] + 0.60 * part["output_tokens_per_turn"]) / 1000
        assert pytest.approx(expected, rel=0.01) == part["usd_per_thousand_turns"]
        assert pytest.approx(part["usd_per_thousand_turns"] / 10, rel=0.01) == part["usd_per_day"]
    printed = run("judge", "cost").output
    assert "700 turns since " in printed
    whole = sum(part["usd_per_thousand_turns"] for part in parts) * 0.7
    assert f"predicted: ${whole:.2f} for these" in printed
    assert "spent: $1.50 today, $1.50 this month" in printed
    assert [] == server.asked


def test_cost_of_a_recording(run: Run, tmp_path: Path) -> None:
    """Turns of any time can be priced before they are judged."""
    store = open_store(f"sqlite:///{tmp_path / 'store.db'}")
    turns = [judged_turn(name=str(n)) for n in range(30)]
    store.replace_turns([Assembly(trace_id=t.trace_id, through=1, turns=(t,)) for t in turns], now=ASKED_AT)
    store.close()
    assert "0 turns since " in run("judge", "cost").output
    before = (ASKED_AT - timedelta(days=1)).isoformat()
    assert "30 turns since " in run("judge", "cost", "--since", before).output


def test_cost_without_a_price(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that costs nothing, or whose price nobody knows, is told as that."""
    monkeypatch.setenv("RAG_MONITOR__JUDGE__PRICES", "{}")
    assert "costs nothing" in str(run("judge", "cost", kind="none").exception)
