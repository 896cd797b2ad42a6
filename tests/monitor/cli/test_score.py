"""`rag-monitor score`: a metric that was added later."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from click.testing import CliRunner

from monitor.cli.main import commands

Verb: TypeAlias = Callable[..., str]
HOURS = 4


@pytest.fixture
def verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verb:
    """Call a verb in a folder of its own and return what it printed."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> str:
        done = CliRunner().invoke(commands, arguments, standalone_mode=False, catch_exceptions=False)
        return done.output

    return call


def _configure(folder: Path, *metrics: str, sample: str = "{}") -> None:
    text = f"metrics: [{', '.join(metrics)}]\nsample: {sample}\nstore: {{url: 'sqlite:///shop.db'}}\n"
    (folder / "rag-monitor.yaml").write_text(text)


def _record(folder: Path, name: str, *, turns: int, ago: timedelta) -> None:
    at = (datetime.now(UTC) - ago).isoformat()
    line = {
        "question": "Is it so?",
        "context": "It lasts two years.",
        "answer": "It lasts two years.",
        "started_at": at,
    }
    lines = [json.dumps({**line, "turn_id": f"{name}-{number}"}) for number in range(turns)]
    (folder / f"{name}.jsonl").write_text("\n".join(lines))


def _counts(verb: Verb, metric: str) -> dict[str, Any]:
    """The numbers of a metric over all days."""
    names = ("turns", "scored", "pending", "not_sampled", "not_asked")
    rows = [json.loads(line) for line in verb("trends", "--metric", metric, "--format", "jsonl").splitlines()]
    return {name: sum(row[name] for row in rows) for name in names}


def test_old_turns_of_a_new_metric(verb: Verb, tmp_path: Path) -> None:
    """Turns from before a metric was added are not asked, and no part of what sampling left out (phoenix#15555)."""
    _configure(tmp_path, "groundedness_proxy")
    _record(tmp_path, "old", turns=20, ago=timedelta(hours=HOURS))
    verb("replay", "old.jsonl")
    _configure(tmp_path, "groundedness_proxy", "refusal_proxy")
    _record(tmp_path, "new", turns=1, ago=timedelta(hours=HOURS))
    verb("replay", "new.jsonl")
    assert {"turns": 21, "scored": 1, "pending": 0, "not_sampled": 0, "not_asked": 20} == _counts(verb, "refusal_proxy")
    assert 0 == _counts(verb, "groundedness_proxy")["not_asked"]


def test_score(verb: Verb, tmp_path: Path) -> None:
    """What it would do and cost is shown; agreed to, the old turns are judged, and asking twice adds nothing."""
    _configure(tmp_path, "groundedness_proxy")
    _record(tmp_path, "old", turns=20, ago=timedelta(days=20))
    verb("replay", "old.jsonl")
    _configure(tmp_path, "groundedness_proxy", "refusal_proxy")
    asked = ("score", "--metric", "refusal_proxy", "--since", "25d")
    shown = verb(*asked)
    assert "20 of them to judge, 20 verdicts" in shown
    assert "predicted: $0.00" in shown
    assert "nothing was queued" in shown
    assert "20 jobs are queued" in verb(*asked, "--yes")
    assert "0 of them to judge" in verb(*asked, "--yes")
    _record(tmp_path, "new", turns=1, ago=timedelta(hours=HOURS))
    verb("replay", "new.jsonl")
    assert {"turns": 21, "scored": 21, "pending": 0, "not_sampled": 0, "not_asked": 0} == _counts(verb, "refusal_proxy")


def test_score_at_a_rate(verb: Verb, tmp_path: Path) -> None:
    """Of old turns as many are drawn as of new ones, with that probability; the rest is not sampled from then on."""
    _configure(tmp_path, "groundedness_proxy")
    _record(tmp_path, "old", turns=200, ago=timedelta(hours=HOURS))
    verb("replay", "old.jsonl")
    _configure(tmp_path, "groundedness_proxy", "refusal_proxy", sample="{rules: [{metric: refusal_proxy, rate: 0.25}]}")
    verb("score", "--metric", "refusal_proxy", "--since", "7d", "--yes")
    _record(tmp_path, "new", turns=1, ago=timedelta(hours=HOURS))
    verb("replay", "new.jsonl")
    counts = _counts(verb, "refusal_proxy")
    assert 20 < counts["scored"] < 80
    assert (201, 0, 201) == (counts["turns"], counts["not_asked"], counts["scored"] + counts["not_sampled"])
    turns = [json.loads(line)["turn_id"] for line in verb("turns", "--format", "jsonl").splitlines()]
    explained = [json.loads(verb("explain", turn, "--format", "jsonl")) for turn in turns[:20]]
    refusals = [o for e in explained for o in e["outcomes"] if o["job"]["metric"] == "refusal_proxy"]
    assert refusals
    assert {0.25} == {outcome["job"]["probability"] for outcome in refusals}


def test_score_by_a_metric_that_is_not_measured(verb: Verb, tmp_path: Path) -> None:
    """The settings name what is measured; another name is refused with the one that was meant."""
    _configure(tmp_path, "refusal_proxy")
    verb("migrate")
    with pytest.raises(Exception, match="'refusal_prox' is not measured by these settings; did you mean"):
        verb("score", "--metric", "refusal_prox", "--since", "7d")
