"""The judge that needs no model."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from judged_turn import judged_turn

from monitor.judging.offline import THRESHOLD, GroundednessProxy, Lex5
from monitor.model import Finding, Reason

_DOCUMENT = (
    "Refunds are paid within 14 days to the card that was used for the order. Shipping costs are not refunded. "
    "A refund of more than 500 euro needs the approval of a manager."
)


def _finding(response: str) -> Finding:
    finding = GroundednessProxy().read(judged_turn(response, _DOCUMENT), None)
    assert isinstance(finding, Finding)
    return finding


def test_extractive_answer_passes() -> None:
    """An answer in the documents' words, with citation marks and an opener, is no defect."""
    finding = _finding("According to the documentation, refunds are paid within 14 days to the card used [kb-1].")
    assert not finding.defect
    assert finding.score is not None
    assert finding.score > 0.8


def test_made_up_answer_is_a_defect() -> None:
    """An answer that leaves its documents is a defect, and its worst sentence says which words are foreign."""
    finding = _finding("Refunds are paid within 14 days. Gold members of Klarna get a 25 percent bonus from Oslo.")
    assert finding.defect
    assert finding.score is not None
    assert finding.score < THRESHOLD
    assert "sentence 2" in finding.reason
    first, second = finding.details
    assert ("covered", "") == (first.verdict, first.evidence)
    assert {"25", "Klarna", "bonus", "Oslo"} <= set(second.evidence.split())


def test_the_proxy_asks_nobody() -> None:
    """The metric is computed in code and says that it is a stand-in."""
    metric = GroundednessProxy()
    assert () == metric.messages(judged_turn())
    assert 0 == metric.max_output_tokens
    assert metric.rubric.proxy
    assert "groundedness_proxy" == metric.rubric.metric


def test_score_and_metric_agree() -> None:
    """The cheap score of a turn is the metric's score, and None where the metric abstains."""
    turn = judged_turn("Refunds are paid within 14 days.", _DOCUMENT)
    assert _finding("Refunds are paid within 14 days.").score == Lex5().score(turn)
    refusal = judged_turn("The documents do not say.", _DOCUMENT)
    assert Lex5().score(refusal) is None
    assert Reason.NO_CLAIMS == GroundednessProxy().read(refusal, None)


@pytest.mark.shared
def test_agrees_with_people(shared: Path) -> None:
    """On multi-turn RAG answers with human labels the score ranks 93 % of pairs right, and 82 % over all sources."""
    proxy = Lex5()
    scores: dict[str, tuple[list[float], list[float]]] = {}
    for line in (shared / "data" / "core.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        label = row["label"]["grounded"]
        documents = [c["content"] for c in row["messages"][-1]["context"]["citations"]]
        score = proxy.score(judged_turn(row["answer"], *documents, query=row["question"])) if documents else None
        if label is not None and score is not None:
            scores.setdefault(row["source"], ([], []))[label].append(score)
    areas = {source: _area(grounded, other) for source, (other, grounded) in scores.items()}
    assert areas["mtrag"] > 0.93
    assert sum(areas.values()) / len(areas) > 0.82


def _area(above: list[float], below: list[float]) -> float:
    return sum((a > b) + (a == b) / 2 for a in above for b in below) / (len(above) * len(below))


def test_remembers_what_it_read() -> None:
    """A turn that comes again is not read again; one that differs in anything that is read, its source too, is."""
    proxy = Lex5()
    turn = judged_turn("Refunds are paid within 14 days [a.md].", _DOCUMENT)
    assert proxy.finding(turn) is proxy.finding(replace(turn, turn_id="another"))
    (citation,) = turn.citations
    assert proxy.finding(turn) is not proxy.finding(replace(turn, citations=(replace(citation, source="a.md"),)))
    assert proxy.finding(turn) != proxy.finding(replace(turn, response="Never."))
