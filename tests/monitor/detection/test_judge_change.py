"""What a change of the judge means for trends."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from monitor.detection.judge_change import JudgeComparison, judge_comparisons
from monitor.model.judgements import Job, JudgeChange, JudgeVersion, SecondOpinion, SecondOpinionKind

NOW = datetime(2026, 3, 5, 4, 0, tzinfo=UTC)
OLD = JudgeVersion(judge="openai:m", model="m", fingerprint="fp_1")
BUILD = JudgeVersion(judge="openai:m", model="m", fingerprint="fp_2")
MODEL = JudgeVersion(judge="openai:m", model="n")


def opinion(number: int, version: JudgeVersion, *, before: bool, after: bool) -> SecondOpinion:
    """Return the new version's verdict on a turn that was judged before."""
    return SecondOpinion(
        job=Job(turn_id=str(number), content_hash="", metric="relevance", rubric_id="r", probability=1.0),
        kind=SecondOpinionKind.ANCHOR,
        version=version,
        score=None,
        defect=after,
        first_score=None,
        first_defect=before,
        judged_at=NOW,
    )


def comparison(version: JudgeVersion, verdicts: list[tuple[bool, bool]]) -> JudgeComparison:
    """Return the comparison of old verdicts with new ones, each True for a defect."""
    opinions = [opinion(n, version, before=before, after=after) for n, (before, after) in enumerate(verdicts)]
    (only,) = judge_comparisons([JudgeChange(version=version, before=OLD, at=NOW)], opinions)["relevance", "r"]
    return only


@pytest.mark.parametrize(
    ("version", "turns", "stricter", "expected"),
    [
        (BUILD, 200, 0, False),
        (BUILD, 200, 5, False),
        (BUILD, 200, 6, True),
        (BUILD, 29, 0, False),
        (MODEL, 29, 0, True),
        (MODEL, 30, 0, False),
    ],
)
def test_when_a_new_trend_begins(version: JudgeVersion, turns: int, stricter: int, *, expected: bool) -> None:
    """Six verdicts that all turned the same way begin a new trend, five do not; so does a model on under 30 turns."""
    verdicts = [(False, number < stricter) for number in range(turns)]
    assert comparison(version, verdicts).begins_new_trend is expected


def test_a_change_in_sentences() -> None:
    """The sentences name both versions and how many verdicts differ, either way."""
    verdicts = [(False, True)] * 2 + [(True, False)] + [(False, False)] * 96 + [(True, True)]
    sentences = comparison(MODEL, verdicts).sentences
    assert sentences.startswith(
        "The model of the judge changed on 5 Mar 2026 04:00 UTC, from m (fp_1) to n. 100 earlier turns were "
        "judged again: 2 are defects only to the new model, 1 only to the old one (agreement 97%, kappa "
    )


def test_a_change_that_nothing_is_known_of() -> None:
    """Second opinions by another version than the new one give no comparison."""
    repeat = opinion(1, BUILD, before=False, after=True)
    assert judge_comparisons([JudgeChange(version=MODEL, before=OLD, at=NOW)], [repeat]) == {}
