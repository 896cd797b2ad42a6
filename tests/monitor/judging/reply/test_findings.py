"""Scores out of checked replies."""

import pytest

from monitor.errors import UnreadableReply
from monitor.judging.prompt.schema import Json
from monitor.judging.reply.findings import Scale, addressed, groundedness, read_score, read_sentences
from monitor.model.judgements import Finding, Reason

_WORDS = {"s": "supported", "c": "contradicted", "u": "unsupported", "n": "no_claim"}


def _entry(n: int, verdict: str = "supported", **more: Json) -> dict[str, Json]:
    return {
        "n": n,
        "document": "kb-1",
        "evidence": "e",
        "verdict": verdict,
        "reason": "",
        "addresses_evaluator": False,
        **more,
    }


def _read(*entries: Json, count: int = 2) -> Finding | Reason:
    return read_sentences({"sentences": list(entries)}, count, lambda score: score <= 3, ids=("kb-1",))


@pytest.mark.parametrize(
    ("verdicts", "score"),
    [
        ("", None),
        ("n", None),
        ("nn", None),
        ("s", 5),
        ("snn", 5),
        ("ssss", 5),
        ("u", 1),
        ("c", 1),
        ("nu", 1),
        ("uu", 1),
        ("cs", 1),
        ("ncsss", 1),
        ("su", 3),
        ("us", 3),
        ("sssu", 4),
        ("ssu", 3),
        ("suu", 2),
        ("suuuu", 1),
        ("sc", 2),
        ("sssc", 3),
        ("sssssssssc", 3),
        ("scc", 1),
        ("ssscc", 1),
        ("sssuc", 2),
        ("nsnu", 3),
    ],
)
def test_groundedness(verdicts: str, score: int | None) -> None:
    """5 when all claims hold; 1 when none does or the main one is contradicted; else by share, less contradictions."""
    assert score == groundedness([_WORDS[letter] for letter in verdicts])


def test_sentences() -> None:
    """The finding has the score, the wrong sentences in words, and a detail for each sentence in order."""
    finding = _read(_entry(2, "unsupported", reason="No fee is named."), _entry(1))
    assert isinstance(finding, Finding)
    assert (3.0, True) == (finding.score, finding.defect)
    assert "sentence 2 unsupported: No fee is named." == finding.reason
    assert [(1, "supported", "kb-1", "e"), (2, "unsupported", "kb-1", "e")] == [
        (d.index, d.verdict, d.citation, d.evidence) for d in finding.details
    ]


def test_document_that_is_not_there() -> None:
    """A document that the judge made up is no citation."""
    finding = _read(_entry(1, document="kb-7"), _entry(2))
    assert isinstance(finding, Finding)
    assert ["", "kb-1"] == [detail.citation for detail in finding.details]


def test_no_claims() -> None:
    """An answer without any claim has no score."""
    assert Reason.NO_CLAIMS == _read(_entry(1, "no_claim"), _entry(2, "no_claim"))


def test_extra_sentences_are_dropped() -> None:
    """Verdicts on sentences that the answer does not have change nothing."""
    assert _read(_entry(1), _entry(2)) == _read(
        _entry(0, "contradicted"), _entry(1), _entry(2), _entry(9, "unsupported")
    )


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([_entry(1)], "sentences without a verdict: 2"),
        ([], "sentences without a verdict: 1, 2"),
        ([_entry(1), _entry(2), _entry(2, "unsupported")], "sentence 2 has two verdicts"),
    ],
)
def test_wrong_sentences(entries: list[Json], message: str) -> None:
    """A missing or doubled sentence makes the reply unreadable, and says which it is."""
    with pytest.raises(UnreadableReply, match=message):
        _read(*entries)


def test_sentence_that_addresses_the_judge() -> None:
    """A sentence that speaks to the judge is told, and so is an answer that does."""
    reply: dict[str, Json] = {"sentences": [_entry(1), _entry(2, "unsupported", addresses_evaluator=True)]}
    assert addressed(reply)
    assert addressed({"addresses_evaluator": True})
    assert not addressed({"sentences": [_entry(1)]})


def test_score() -> None:
    """A score is taken with its reason, and is a defect by the metric's own rule."""
    reply: dict[str, Json] = {"reason": "half of it", "score": 2}
    finding = read_score(reply, Scale(low=1, high=5), lambda score: score <= 2)
    assert Finding(score=2.0, defect=True, reason="half of it") == finding


@pytest.mark.parametrize("score", [0, 6, 90, -1, True, "4", None, 5.5, 4.5, float("nan"), float("inf"), 10**400])
def test_score_outside_the_scale(score: Json) -> None:
    """A score outside the scale is unreadable, never clamped."""
    with pytest.raises(UnreadableReply):
        read_score({"score": score, "reason": ""}, Scale(low=1, high=5, whole=True), lambda _: False)
