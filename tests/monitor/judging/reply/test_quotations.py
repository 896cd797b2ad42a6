"""Quotes of a judge, looked up."""

import json
from pathlib import Path

import pytest
from judged_turn import judged_turn

from monitor.errors import UnreadableReply
from monitor.judging.prompt.file import locate
from monitor.judging.prompt_metric import load
from monitor.judging.reply.quotations import EVIDENCE_MISSING, EVIDENCE_NOT_FOUND, holds, plain
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
    [
        ("within 14 days", set()),
        ("", {EVIDENCE_MISSING}),
        (' "…" ', {EVIDENCE_MISSING}),
        ("within 90 days", {EVIDENCE_NOT_FOUND}),
        ("Refund policy", set()),
    ],
)
def test_flag(evidence: str, flags: set[str]) -> None:
    """A verdict whose evidence is missing, or in no document and no title, says so."""
    entry = {"n": 1, "document": "kb-1", "verdict": "supported", "reason": "", "addresses_evaluator": False}
    reply = Reply(text=json.dumps({"sentences": [{**entry, "evidence": evidence}]}), model="m")
    turn = judged_turn("They take 14 days.", Citation(title="Refund policy", content="Paid within 14 days."))
    finding = load("groundedness", judge_name="a").read(turn, reply)
    assert isinstance(finding, Finding)
    assert (5.0, flags) == (finding.score, finding.flags)


def test_evidence_that_is_required(tmp_path: Path) -> None:
    """In a copy of the prompt that requires evidence, a sentence supported by nothing quoted is unreadable."""
    copy = tmp_path / "strict.md"
    text = locate("groundedness").read_text(encoding="utf-8")
    copy.write_text(text.replace("reply: sentences\n", "reply: sentences\nevidence: required\n"), encoding="utf-8")
    metric = load(str(copy), judge_name="a")
    assert load("groundedness", judge_name="a").rubric.rubric_id != metric.rubric.rubric_id
    entry = {"n": 1, "document": "", "evidence": "", "reason": "", "addresses_evaluator": False}
    unproven, unsupported = (
        Reply(text=json.dumps({"sentences": [{**entry, "verdict": verdict}]}), model="m")
        for verdict in ("supported", "unsupported")
    )
    with pytest.raises(UnreadableReply, match="sentences supported without evidence: 1"):
        metric.read(judged_turn(), unproven)
    assert isinstance(metric.read(judged_turn(), unsupported), Finding)
