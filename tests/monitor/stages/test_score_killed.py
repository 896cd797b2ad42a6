"""Scoring workers that are killed at any moment: nothing is lost, nothing counts twice, little is paid for twice."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from code_under_test import CODE_UNDER_TEST
from deadline import wait_until
from judge_server import JudgeServer, Step, completion, kind
from judged_turn import ASKED_AT, judged_turn

from monitor.judging.prompt_metric import load_all
from monitor.model.judgements import Reason, Unscored, Verdict
from monitor.model.spans import Assembly
from monitor.settings.tree import SampleSettings
from monitor.stages import sample
from monitor.store.sql_store import SqlStore, open_store

pytestmark = pytest.mark.long

METRICS = load_all("answer", judge_name="openai:judge-1")
SCRIPT = Path(__file__).parents[2] / "services" / "score_process.py"
LEASED = 8 + 8 // 4
"""Calls whose jobs a worker holds: as many as it makes at once, and those claimed ahead."""
TURNS, KILLS = 240, 6
CALL_USD = 140e-6


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    """A judge that takes a moment."""
    server = JudgeServer()

    def slow(body: dict[str, object]) -> Step:
        time.sleep(0.03)
        return completion(kind(body))

    server.answer = slow
    yield server
    server.close()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of a store with sampled turns."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    store = open_store(url)
    turns = [judged_turn(name=str(number)) for number in range(TURNS)]
    store.replace_turns([Assembly(trace_id=t.trace_id, through=1, turns=(t,)) for t in turns], now=ASKED_AT)
    sample.tick(store, SampleSettings(), rubrics=[m.rubric for m in METRICS], proxy=None, now=ASKED_AT, worker="1")
    store.close()
    return url


def _start(url: str, server: JudgeServer, hours: int, budget: str = "-") -> subprocess.Popen[bytes]:
    command = [sys.executable, SCRIPT, url, server.url, str(hours), budget]
    return subprocess.Popen(command, env=os.environ | CODE_UNDER_TEST, stderr=subprocess.PIPE)


def _kill_some(url: str, server: JudgeServer, *, budget: str = "-") -> None:
    """Start workers one after the other; kill all but the last one, each in the middle of its work."""
    chance = random.Random(7)  # noqa: S311 -- which moment it is does not matter
    for hours in range(KILLS):
        worker = _start(url, server, hours, budget)
        enough = len(server.asked) + chance.randint(1, 40)
        wait_until(
            lambda worker=worker, enough=enough: len(server.asked) >= enough or worker.poll() is not None,
            "some calls",
            seconds=60,
        )
        worker.send_signal(signal.SIGKILL)
        worker.communicate(timeout=60)
    last = _start(url, server, KILLS, budget)
    _, complaints = last.communicate(timeout=120)
    assert 0 == last.returncode, complaints.decode()


def _outcomes(store: SqlStore) -> Iterator[Verdict | Unscored]:
    for number in range(TURNS):
        yield from store.outcomes(f"turn-{number}")


def test_killed_workers(url: str, server: JudgeServer) -> None:
    """After kills at random each (turn, metric) has one outcome, and each kill cost one lease's worth at most."""
    _kill_some(url, server)
    store = open_store(url)
    outcomes = list(_outcomes(store))
    assert TURNS * len(METRICS) == len(outcomes) == len({(o.job.turn_id, o.job.metric) for o in outcomes})
    assert all(isinstance(outcome, Verdict) for outcome in outcomes)
    assert 0 == store.backlog().jobs
    store.close()
    assert TURNS <= len(server.asked) <= TURNS + KILLS * LEASED
    per_turn = Counter(asked.prompt for asked in server.asked)
    assert TURNS == len(per_turn)


def test_budget_of_killed_workers(url: str, server: JudgeServer) -> None:
    """Kills do not lift the budget: what was under way counts as spent, and only the last worker can exceed it."""
    allowed = TURNS // 2
    _kill_some(url, server, budget=str(allowed * CALL_USD))
    store = open_store(url)
    outcomes = list(_outcomes(store))
    assert TURNS * len(METRICS) == len(outcomes)
    reasons = Counter(outcome.reason for outcome in outcomes if isinstance(outcome, Unscored))
    assert {Reason.BUDGET} == reasons.keys()
    store.close()
    assert allowed - KILLS * LEASED <= len(server.asked) <= allowed + 2 * LEASED
