"""Quotes of a judge, looked up."""

import json

import pytest
from judged_turn import judged_turn

from monitor.judging.prompt_metric import load
from monitor.judging.reply.quotations import EVIDENCE_NOT_FOUND, holds, plain
from monitor.model.judgements import Finding, Reply
from monitor.model.turns import Citation

_DOCUMENTS = plain(["Refunds are paid within 14 days, to the card that was used.", "返金は14日以内に行われます。"])


@pytest.mark.parametrize(
    "evidence",
    [
        "Refunds are paid within 14 days",
        "“refunds  are\npaid”",
        "Refunds … to the card",
        "Refunds are paid ... that was used.",
        "[…] within 14 days",
        "返金は14日以内に",
        "",
        "...",
    ],
)
def test_quoted(evidence: str) -> None:
    """A quote is found whatever its case, spaces and marks, in parts where it says so, and in any script."""
    assert holds(_DOCUMENTS, evidence)


@pytest.mark.parametrize(
    "evidence", ["Refunds are paid within 90 days", "paid are Refunds", "Refunds … by cheque", "30日"]
)
def test_not_quoted(evidence: str) -> None:
    """Another word, number or order is another text."""
    assert not holds(_DOCUMENTS, evidence)


@pytest.mark.parametrize(
    ("evidence", "flags"),
    [("within 14 days", set()), ("", set()), ("within 90 days", {EVIDENCE_NOT_FOUND}), ("Refund policy", set())],
)
def test_flag(evidence: str, flags: set[str]) -> None:
    """A verdict whose evidence is in no document, and in no title, says so."""
    entry = {"n": 1, "document": "kb-1", "verdict": "supported", "reason": "", "addresses_evaluator": False}
    reply = Reply(text=json.dumps({"sentences": [{**entry, "evidence": evidence}]}), model="m")
    turn = judged_turn("They take 14 days.", Citation(title="Refund policy", content="Paid within 14 days."))
    finding = load("groundedness", judge_name="a").read(turn, reply)
    assert isinstance(finding, Finding)
    assert (5.0, flags) == (finding.score, finding.flags)
