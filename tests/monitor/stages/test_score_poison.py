"""A turn that ends the process which scores it costs no other turn its scores, and is set aside."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from code_under_test import CODE_UNDER_TEST
from deadly_score_process import RUBRIC
from judge_server import JudgeServer
from judged_turn import ASKED_AT, judged_turn

from monitor.model.judgements import Reason, Unscored, Verdict
from monitor.model.spans import Assembly
from monitor.settings.tree import SampleSettings
from monitor.stages import sample
from monitor.store.sql_store import SqlStore, open_store

pytestmark = [pytest.mark.long, pytest.mark.parametrize("kind", ["code", "prompt", "reply", "row"])]

SCRIPT = Path(__file__).parents[2] / "services" / "deadly_score_process.py"
TURNS = [f"turn-{number}" for number in range(5)]


class Bench:
    """A store with sampled turns, and a judge."""

    def __init__(self, folder: Path) -> None:
        self._url = f"sqlite:///{folder / 'store.db'}"
        self.server = JudgeServer()
        self.store: SqlStore = open_store(self._url)
        turns = [judged_turn(name=turn_id.removeprefix("turn-")) for turn_id in TURNS]
        self.store.replace_turns([Assembly(trace_id=t.trace_id, through=1, turns=(t,)) for t in turns], now=ASKED_AT)
        sample.tick(self.store, SampleSettings(), rubrics=[RUBRIC], proxy=None, now=ASKED_AT, worker="1")

    def score(self, run: int, kind: str, turn_id: str) -> tuple[int, str]:
        """Return how a process ended that dies of a turn, and what it logged."""
        command = [sys.executable, str(SCRIPT), self._url, self.server.url, str(run), kind, turn_id]
        ended = subprocess.run(command, check=False, env=os.environ | CODE_UNDER_TEST, capture_output=True, text=True)
        return ended.returncode, ended.stderr


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A bench."""
    bench = Bench(tmp_path)
    yield bench
    bench.store.close()
    bench.server.close()


def test_deadly_turn(bench: Bench, kind: str) -> None:
    """A turn that ended a batch and then two processes alone is internal, and said so; all others are scored."""
    runs = [bench.score(run, kind, "turn-2") for run in range(4)]
    assert [-9, -9, -9, 0] == [code for code, _ in runs]
    assert "deadly of turn turn-2 set aside: 2 processes died while computing it\n" == runs[-1][1]
    outcomes = {turn_id: outcome for turn_id in TURNS for outcome in bench.store.outcomes(turn_id)}
    deadly = outcomes.pop("turn-2")
    assert isinstance(deadly, Unscored)
    assert (Reason.INTERNAL, "process_died") == (deadly.reason, deadly.detail)
    assert [Verdict] * (len(TURNS) - 1) == [type(outcome) for outcome in outcomes.values()]
    assert 0 == bench.store.backlog().jobs
    subjects = [outcome.job.subject for outcome in (deadly, *outcomes.values())]
    assert {} == bench.store.deaths("job", subjects, worker="another")


def test_deaths_of_different_turns(bench: Bench, kind: str) -> None:
    """Processes that die of another turn each time set none aside: each is scored in the end."""
    assert [-9] * len(TURNS) == [bench.score(run, kind, turn_id)[0] for run, turn_id in enumerate(TURNS)]
    assert (0, "") == bench.score(len(TURNS), kind, "none")
    assert [Verdict] * len(TURNS) == [type(outcome) for turn_id in TURNS for outcome in bench.store.outcomes(turn_id)]
