"""Second opinions summarised, and printed."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from judged_turn import judged_turn

from monitor.cli.main import commands
from monitor.detection.judge_agreement import summarize
from monitor.judging.reply.findings import JUDGE_INJECTION
from monitor.model.judgements import (
    Exchange,
    Finding,
    Job,
    JudgeVersion,
    Sampling,
    SecondOpinion,
    SecondOpinionKind,
    Verdict,
)
from monitor.model.spans import Assembly
from monitor.store.sql_store import open_store

NOW = datetime.now(UTC)


def _opinion(
    number: int, first: float | None, second: float | None, *, kind: SecondOpinionKind = SecondOpinionKind.REPEAT
) -> SecondOpinion:
    return SecondOpinion(
        job=Job(turn_id=str(number), content_hash="", metric="relevance", rubric_id="r", probability=1.0),
        kind=kind,
        version=JudgeVersion(judge="", model="m-2"),
        score=second,
        defect=second is not None and second <= 2,
        first_score=first,
        first_defect=first is not None and first <= 2,
        judged_at=NOW,
    )


def test_added_up() -> None:
    """Agreement is on what is a defect; the shift is the mean difference of scores with a normal interval."""
    scores = [(5, 5), (4, 3), (2, 1), (3, 2)]
    (summary,) = summarize([_opinion(n, float(first), float(second)) for n, (first, second) in enumerate(scores)])
    assert (4, 0.75) == (summary.agreement.turns, summary.agreement.agreed.value if summary.agreement.agreed else None)
    # Differences 0, -1, -1, -1: mean -0.75, standard deviation 0.5, so 1.96 x 0.5 / 2 either way.
    assert summary.shift is not None
    assert summary.shift_lower is not None
    assert (-0.75, pytest.approx(-0.75 - 0.48998, abs=1e-4)) == (summary.shift, summary.shift_lower)


def test_groups() -> None:
    """Repeats and anchors are added up apart, and metrics without scores have no shift."""
    anchor = _opinion(1, 4.0, 4.0, kind=SecondOpinionKind.ANCHOR)
    first, second = summarize([_opinion(0, None, None), anchor])
    assert (SecondOpinionKind.ANCHOR, SecondOpinionKind.REPEAT) == (first.kind, second.kind)
    assert (0.0, -math.inf, None) == (first.shift, first.shift_lower, second.shift)
    assert () == summarize([])


def test_verbs(tmp_path: Path) -> None:
    """Both are printed from the store, as tables and for programs; nobody is asked."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    store = open_store(url)
    turn = judged_turn()
    store.replace_turns([Assembly(trace_id=turn.trace_id, through=1, turns=(turn,))], now=NOW)
    job = Job(
        turn_id=turn.turn_id, content_hash=turn.content_hash(), metric="relevance", rubric_id="r", probability=1.0
    )
    store.record_samplings(
        [Sampling(turn_id=turn.turn_id, content_hash=turn.content_hash(), jobs=(job,), decided_at=NOW)]
    )
    finding = Finding(score=1.0, defect=True, flags=frozenset({JUDGE_INJECTION}))
    store.finish([Verdict(job=job, finding=finding, exchange=Exchange(), judged_at=NOW)])
    store.record_second_opinions([_opinion(n, 4.0, 4.0) for n in range(3)])
    store.close()

    def run(*arguments: str) -> str:
        return CliRunner().invoke(commands, ("judge", *arguments, "--store", url), standalone_mode=False).output

    row = json.loads(run("second-opinions", "--format", "jsonl"))
    assert ("repeat", "relevance", 3, 1.0, 0.0) == tuple(
        row[key] for key in ("kind", "metric", "turns", "agreed", "shift")
    )
    assert "asked again at once" in run("second-opinions")
    assert {"turn_id": "turn-1", "metric": "relevance", "score": 1.0, "defect": True}.items() <= json.loads(
        run("injections", "--format", "jsonl")
    ).items()
    assert "turn-1" in run("injections")
