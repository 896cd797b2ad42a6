"""Recorded telemetry through the installed command, and what the other verbs then print."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from monitor.model.judgements import Unscored
from monitor.store.sql_store import SqlStore, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.conftest import Command, InFolder, Lines

STORE = "sqlite:///shop.db"
TURN = (
    "turn_id", "trace_id", "span_id", "session_id", "user_id", "app", "environment", "release", "sent_names", "query",
    "history", "retrieval_queries", "dialect", "citations", "response", "ground_truth", "relevant_ids", "model",
    "tokens", "error", "streaming", "started_at", "ended_at", "facets", "flags", "outcomes",
)  # fmt: skip
CITATION = ("id", "title", "content", "score", "score_kind", "source", "rank", "used")
TREND = (
    "app", "environment", "metric", "rubric_id", "start", "end", "turns", "scored", "defects", "pending",
    "not_sampled", "not_asked", "unscored", "defect_rate", "lower", "upper", "confidence", "bounds", "mean_score",
    "input_tokens", "output_tokens", "cost_usd",
)  # fmt: skip
ALERT = (
    "version", "alert_id", "fingerprint", "state", "title", "message", "link", "app", "environment", "slice", "metric",
    "rubric_id", "rule", "release", "began_at", "detected_at", "recovered_at", "pending_at", "firing_at", "resolved_at",
    "rate", "rate_lower", "rate_upper", "baseline_rate", "null_rate", "evidence_log10", "threshold_log10", "promise",
    "judge_change",
)  # fmt: skip
EXPLAINED = ("spans", "turn", "sampling", "outcomes", "windows")
SETTINGS = """
store: {url: "sqlite:///shop.db"}
sample: {rate: 0.7}
detect: {reference: 30h, min_reference_windows: 12}
"""


def state(command: Command) -> dict[str, Lines]:
    """Everything that the verbs print."""
    printed = {
        "turns": command.ok("turns", "--store", STORE, "--format", "jsonl").lines,
        "trends": command.ok("trends", "--store", STORE, "--format", "jsonl", "--by", "hour").lines,
        "alerts": command.ok("alerts", "--store", STORE, "--format", "jsonl").lines,
    }
    store = opened(command)
    # Outcomes by the store: `explain` prints one turn at a time.
    printed["outcomes"] = [
        {"key": [o.job.turn_id, o.job.metric, o.job.rubric_id], "finding": str(getattr(o, "finding", "")),
         "reason": str(getattr(o, "reason", "")), "probability": o.job.probability}
        for turn in printed["turns"]
        for o in store.outcomes(turn["turn_id"])
    ]  # fmt: skip
    store.close()
    return printed


def opened(command: Command) -> SqlStore:
    """The store of the command's folder."""
    return open_store(f"sqlite:///{command.folder / 'shop.db'}", migrate=False)


@dataclass(frozen=True)
class Replayed:
    """A command in a folder with a replay of three days, which nobody changes, and all that the verbs print of it."""

    command: Command
    state: dict[str, Lines]
    seconds: float
    """How long the replay took."""


@pytest.fixture(scope="module")
def replayed(recorded: Path, in_folder: InFolder, tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    """The replay that others are held against."""
    command = in_folder(tmp_path_factory.mktemp("whole"))
    command.write("rag-monitor.yaml", SETTINGS)
    began = time.monotonic()
    command.ok("replay", recorded)
    seconds = time.monotonic() - began
    return Replayed(command, state(command), seconds)


@pytest.fixture
def empty(rag_monitor: Command) -> Iterator[Command]:
    """The command in a folder with only its settings; nothing half done is left in its store."""
    rag_monitor.write("rag-monitor.yaml", SETTINGS)
    yield rag_monitor
    store = opened(rag_monitor)
    store.check()
    backlog = store.backlog()
    store.close()
    assert (0, 0, 0, 0) == (backlog.fragments, backlog.turns, backlog.jobs, backlog.windows)


def test_formats(replayed: Replayed) -> None:
    """JSON lines have the documented keys, in the documented order, and times in UTC."""
    found = replayed.state
    expected = {"turns": {TURN}, "trends": {TREND}, "alerts": {ALERT}}
    assert expected == {verb: {tuple(line) for line in found[verb]} for verb in expected}
    citations = [citation for turn in found["turns"] for citation in turn["citations"] or ()]
    assert {CITATION} == {tuple(citation) for citation in citations}
    assert {("input", "output")} == {tuple(turn["tokens"]) for turn in found["turns"]}
    assert all(turn["started_at"].endswith("Z") for turn in found["turns"])
    assert sorted(turn["started_at"] for turn in found["turns"]) == [turn["started_at"] for turn in found["turns"]]
    (explained,) = replayed.command.ok("explain", found["turns"][0]["turn_id"], "--format", "jsonl").lines
    assert tuple(explained) == EXPLAINED
    assert found["turns"][0]["trace_id"] == explained["spans"][0]["trace_id"]


def test_bad_release_is_found(replayed: Replayed) -> None:
    """The recorded app's bad release raises one alert, after it went out."""
    (alert,) = replayed.state["alerts"]
    assert ("firing", "2.0.0", "python-docs-chat") == (alert["state"], alert["release"], alert["app"])
    assert "2026-03-03T12:00:00Z" <= alert["began_at"] < alert["firing_at"] < "2026-03-04T12:00:00Z"


def test_all_turns_are_accounted_for(replayed: Replayed) -> None:
    """A turn is scored, unscored for a reason, pending or not sampled, and the windows add up to what the turns are."""
    found = replayed.state
    store = opened(replayed.command)
    by_turn: Counter[str] = Counter(turns=len(found["turns"]))
    for turn in found["turns"]:
        outcomes, sampling = store.outcomes(turn["turn_id"]), store.sampling(turn["turn_id"])
        assert sampling is not None
        if outcomes:
            (outcome,) = outcomes
            by_turn[outcome.reason if isinstance(outcome, Unscored) else "scored"] += 1
        else:
            by_turn["pending" if sampling.jobs else "not_sampled"] += 1
    store.close()
    by_window: Counter[str] = Counter()
    for row in found["trends"]:
        by_window.update({name: row[name] for name in ("turns", "scored", "pending", "not_sampled")})
        by_window.update(row["unscored"])
    assert +by_window == +by_turn
    assert by_turn["turns"] == sum(by_turn.values()) - by_turn["turns"]
    assert all(by_turn[name] for name in ("scored", "not_sampled", "no_context", "no_response"))


def test_replay_again_changes_nothing(replayed: Replayed, recorded: Path, empty: Command) -> None:
    """The same path read a second time leaves every turn, verdict, window and alert as it was."""
    for file in replayed.command.folder.glob("shop.db*"):
        shutil.copy(file, empty.folder)
    done = empty.ok("replay", recorded)
    assert done.err.endswith("0 turns are new, 0 judged\n")
    assert replayed.state == state(empty)


def test_replay_in_two_halves_is_the_same(replayed: Replayed, recorded: Path, empty: Command) -> None:
    """What arrives later, in another folder and with a copy of what was there, is judged as if it had come at once."""
    bodies = sorted(recorded.iterdir())
    for name, part in (("first", bodies[:5]), ("second", bodies[3:])):
        folder = empty.folder / name
        folder.mkdir()
        for body in part:
            shutil.copy(body, folder)
        empty.ok("replay", name)
    assert without_users(replayed.state) == without_users(state(empty))


def test_printed_turns_are_read_back(replayed: Replayed, empty: Command) -> None:
    """What `turns --format jsonl` prints makes the same turns in another store, of the dialect `import`."""
    empty.write("turns.jsonl", replayed.command.ok("turns", "--store", STORE, "--format", "jsonl").out)
    empty.ok("replay", "turns.jsonl")
    expected = [turn | {"dialect": "import"} for turn in without_users(replayed.state)["turns"]]
    assert expected == without_users(state(empty))["turns"]


def test_bad_among_good(empty: Command, golden: Path) -> None:
    """Of a folder with broken bodies the good ones are kept, the bad are told by name, and no text of theirs."""
    folder = empty.folder / "mixed"
    shutil.copytree(golden, folder)
    (folder / "000.traces.pb").write_bytes(b"\x0a\xff\xff canary of a user")
    (folder / "003.traces.json").write_text('{"resourceSpans": [{"canary": ')
    (folder / "004.traces.pb.gz").write_bytes(b"canary, no gzip")
    (folder / "notes.txt").write_text("not telemetry")
    done = empty.ok("replay", folder, "--store", STORE)
    assert 14 == len(empty.ok("turns", "--store", STORE, "--format", "jsonl").lines)
    lines = done.err.splitlines()
    assert ["000.traces.pb", "003.traces.json", "004.traces.pb.gz"] == [line.split(":")[0] for line in lines[:-1]]
    assert lines[-1].endswith("3 left out; 14 turns are new, 7 judged")
    assert "canary" not in done.err


def test_reader_that_leaves_early(replayed: Replayed) -> None:
    """`turns | head -1` ends well, and silently."""
    for form in ("jsonl", "table"):
        turns = replayed.command.start("turns", "--store", STORE, "--format", form, "--limit", "100000")
        assert turns.stdout is not None
        assert turns.stderr is not None
        assert turns.stdout.readline()
        turns.stdout.close()
        err = turns.stderr.read()
        turns.stderr.close()
        assert (0, "") == (turns.wait(60), err)


def test_hostile_text_stays_text(rag_monitor: Command) -> None:
    """Markup and escape sequences in what users wrote are neither obeyed nor fatal in tables and explanations."""
    hostile = {"question": "[bold]what[/b] \x1b]0;owned\x07 \x1b[31m", "context": "[/red] \u202e c", "answer": "[/]"}
    rag_monitor.write("chats.jsonl", json.dumps(hostile) + "\n")
    rag_monitor.ok("replay", "chats.jsonl", "--store", STORE, "--app", "[/app]")
    table = rag_monitor.ok("turns", "--store", STORE).out
    assert "[bold]what[/b]" in table
    assert "[/app]" in table
    (turn,) = rag_monitor.ok("turns", "--store", STORE, "--format", "jsonl").lines
    printed = table + rag_monitor.ok("explain", turn["turn_id"], "--store", STORE).out
    assert [] == [c for c in printed if c in "\x1b\x07\u202e"]
    assert hostile["question"] == turn["query"]


def test_postgresql_holds_the_same(empty: Command, golden: Path, postgres_url: str) -> None:
    """The same recording makes the same turns, windows and explanations in PostgreSQL as in SQLite."""
    printed = []
    for url in (STORE, postgres_url):
        empty.ok("replay", golden, "--store", url)
        turns = empty.ok("turns", "--store", url, "--format", "jsonl").lines
        trends = empty.ok("trends", "--store", url, "--format", "jsonl").lines
        options = ("--store", url, "--format", "jsonl", "--user-ids")
        (explained,) = empty.ok("explain", turns[-1]["turn_id"], *options).lines
        for turn in (*turns, explained["turn"]):
            del turn["user_id"]
        for outcome in explained["outcomes"]:
            del outcome["judged_at"]
        printed.append((turns, trends, explained))
    assert printed[0] == printed[1]
    assert 14 == len(printed[0][0])


def test_killed_replay_ends_as_if_it_had_not_been(replayed: Replayed, recorded: Path, empty: Command) -> None:
    """A replay that is killed at five moments and then completed has the same turns, verdicts, windows and alerts."""
    chance = random.Random(20260302)  # noqa: S311 -- moments, not secrets
    statuses: list[int] = []
    for moment in sorted(chance.uniform(0.1, 0.5) * replayed.seconds for _ in range(5)):
        with empty.start("replay", recorded) as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(moment)
            process.send_signal(signal.SIGKILL)
            process.communicate()
        statuses.append(process.returncode)
    assert statuses.count(-signal.SIGKILL) >= 3
    empty.ok("replay", recorded)
    assert without_users(replayed.state) == without_users(state(empty))


def without_users(found: dict[str, Lines]) -> dict[str, Lines]:
    """What was printed without users' pseudonyms, which each store makes under a key of its own."""
    turns = [{key: value for key, value in turn.items() if key != "user_id"} for turn in found["turns"]]
    return found | {"turns": turns}
