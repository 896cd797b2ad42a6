"""The judge that needs no model."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from judged_turn import judged_turn

from monitor.judging.coded.lex5 import THRESHOLD, GroundednessProxy, Lex5
from monitor.model.judgements import Finding, Reason

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
    """Each source scored by coefficients fitted on the others: 93 % of MT-RAG's pairs ranked right, 82 % on average.

    The recipe is the bench itself, which ends with an error when it does not give the coefficients that are shipped.
    """
    bench = Path(__file__).parents[4] / "bench" / "lex5.py"
    environment = {**os.environ, "RAG_MONITOR_SHARED": str(shared)}
    ran = subprocess.run([sys.executable, bench], env=environment, capture_output=True, text=True, check=False)
    assert (0, "") == (ran.returncode, ran.stderr)
    areas = dict(re.findall(r"^(\w+) +AUC (\d\.\d{3})", ran.stdout, re.MULTILINE))
    # Six sources, their mean, and one that was never fitted on.
    assert 8 == len(areas)
    assert float(areas["mtrag"]) >= 0.93
    assert float(areas["mean"]) >= 0.82


def test_remembers_what_it_read() -> None:
    """A turn that comes again is not read again; one that differs in anything that is read, its source too, is."""
    proxy = Lex5()
    turn = judged_turn("Refunds are paid within 14 days [a.md].", _DOCUMENT)
    assert proxy.finding(turn) is proxy.finding(replace(turn, turn_id="another"))
    (citation,) = turn.citations
    assert proxy.finding(turn) is not proxy.finding(replace(turn, citations=(replace(citation, source="a.md"),)))
    assert proxy.finding(turn) != proxy.finding(replace(turn, response="Never."))
