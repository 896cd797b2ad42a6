"""`rag-monitor run` with a judge model: what it costs, and what is seen when another one answers behind its name."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from deadline import wait_until
from judge_server import JudgeServer, Step, completion

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.conftest import Command, Start

CALL_USD = 100e-6 + 10 * 4e-6
SETTINGS = """
store: {{url: "sqlite:///monitor.db"}}
collectors: [{{kind: file, path: inbox, every: 200ms, finished_after: 500ms}}]
web: {{port: 0}}
assemble: {{every: 200ms, quiet: 400ms}}
sample: {{every: 200ms}}
rollup: {{every: 300ms}}
metrics: [relevance]
score: {{concurrency: 2}}
judge:
  kind: openai
  base_url: "{url}"
  api_key: k
  model: judge-1
  prices: {{judge-1: {{input: 1.0, output: 4.0}}}}
  second_opinions: {{share: 0}}
"""


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    """The judge."""
    server = JudgeServer()
    yield server
    server.close()


@pytest.fixture
def settings(rag_monitor: Command, server: JudgeServer) -> Path:
    """Settings of a monitor that asks the judge about what is put into `inbox`."""
    (rag_monitor.folder / "inbox").mkdir()
    return rag_monitor.write("judge.yaml", SETTINGS.format(url=server.url))


def put(command: Command, name: str, count: int, *, app: str = "shop") -> None:
    """Let an app answer `count` questions."""
    now = datetime.now(UTC).isoformat()
    lines = (
        {
            "turn_id": f"{name}-{number}",
            "app": app,
            "started_at": now,
            "question": f"What is {name} {number}?",
            "context": "It is a number.",
            "answer": f"{name} {number} is a number.",
        }
        for number in range(count)
    )
    command.write(f"inbox/{name}.jsonl", "".join(json.dumps(line) + "\n" for line in lines))


def grade(score: int, fingerprint: str) -> Step:
    """The reply of one build of the judge."""
    step = completion(json.dumps({"reason": "r", "score": score}))
    step.body["system_fingerprint"] = fingerprint  # type: ignore[index]
    return step


def test_another_build_of_the_judge(rag_monitor: Command, settings: Path, start: Start, server: JudgeServer) -> None:
    """When the fingerprint changes old turns are judged again; log, metrics and second opinions show the difference."""
    server.answer = lambda _: grade(5, "fp_old")
    monitor = start("-c", settings)
    put(rag_monitor, "before", 20)
    wait_until(lambda: monitor.metric("jobs_finished_total", "scored") == 20, "20 verdicts", seconds=60)
    server.answer = lambda _: grade(2, "fp_new")
    put(rag_monitor, "after", 1)
    wait_until(lambda: len(server.asked) == 20 + 1 + 20, "all 20 to be judged again", seconds=60)
    wait_until(lambda: monitor.metric("judge_changes_total") == 1, "the change to be counted", seconds=10)
    said = "the judge openai:judge-1 answers as judge-1 (fp_new), before as judge-1 (fp_old)"
    assert said in monitor.text()

    def groups() -> list[dict[str, object]]:
        return rag_monitor.ok("judge", "second-opinions", "-c", settings, "--format", "jsonl").lines

    # Anchors under way are left when the process ends.
    wait_until(lambda: [group["turns"] for group in groups()] == [20], "all 20 to be recorded", seconds=60)
    assert 0 == monitor.stop()
    (group,) = groups()
    expected = {"kind": "anchor", "metric": "relevance", "judge_model": "judge-1", "fingerprint": "fp_new", "turns": 20}
    assert expected == {name: group[name] for name in expected}
    assert (0.0, 0.0, -3.0) == (group["agreed"], group["kappa"], group["shift"])
    turns = rag_monitor.ok("turns", "-c", settings, "--format", "jsonl").lines
    ids = {}
    for name in ("before 0", "before 1", "after 0"):
        (turn,) = [t for t in turns if t["query"] == f"What is {name}?"]
        (explained,) = rag_monitor.ok("explain", turn["turn_id"], "-c", settings, "--format", "jsonl").lines
        ids[name] = explained["outcomes"][0]["judge_id"]
    assert 12 == len(ids["before 0"])
    assert ids["before 0"] == ids["before 1"] != ids["after 0"]


def test_processes_share_a_budget(rag_monitor: Command, settings: Path, start: Start, server: JudgeServer) -> None:
    """Two judging processes keep one budget, both say what is spent of it, and trends what each app cost."""
    budget = 20 * CALL_USD
    limited = rag_monitor.write("limited.yaml", f"{settings.read_text()}  budget: {{daily_usd: {budget}}}\n")
    start("-c", limited, "--role", "ingest", "--role", "schedule", log="others.log")
    first, second = (start("-c", limited, "--role", "score", log=f"{name}.log") for name in ("first", "second"))
    finished = "jobs_finished_total"
    put(rag_monitor, "left", 8, app="bank")
    wait_until(lambda: first.metric(finished) + second.metric(finished) == 8, "8 jobs to end", seconds=60)
    put(rag_monitor, "right", 52, app="shop")
    wait_until(lambda: first.metric(finished) + second.metric(finished) == 60, "60 jobs to end", seconds=60)
    for process in (first, second):
        assert budget == pytest.approx(process.metric("judge_budget_usd", 'period="day"'))
    put(rag_monitor, "more", 10, app="shop")
    wait_until(lambda: first.metric(finished) + second.metric(finished) == 70, "10 more", seconds=60)
    assert 20 <= len(server.asked) <= 20 + 2 * 2
    spent = pytest.approx(len(server.asked) * CALL_USD)
    for process in (first, second):
        wait_until(lambda: process.metric("judge_budget_spent_usd") == spent, "all to be counted", seconds=30)  # noqa: B023
        assert "the day's budget of" in process.get("/readyz")[1]
    costs = first.metric("judge_cost_usd_total") + second.metric("judge_cost_usd_total")
    assert spent == costs

    def charted() -> dict[str, float]:
        days = rag_monitor.ok("trends", "-c", limited, "--by", "day", "--format", "jsonl").lines
        return {app: sum(day["cost_usd"] for day in days if day["app"] == app) for app in ("shop", "bank")}

    wait_until(lambda: sum(charted().values()) == spent, "all to be rolled up", seconds=30)
    assert all(charted().values())
