"""Which documents an answer is held against: those that its model saw, where the telemetry tells."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from judged_turn import judged_turn

from monitor.errors import UnreadableReply
from monitor.judging.coded.coverage import cover
from monitor.judging.coded.lex5 import GroundednessProxy
from monitor.judging.needs import unmet
from monitor.judging.prompt_metric import PromptMetric, load, load_all
from monitor.model.judgements import Finding, Reason, Reply
from monitor.model.turns import Citation, Turn

_SEEN = "Refunds are paid within 14 days."
_DROPPED = "Zebras graze on the savanna."


def _turn(*, is_seen: bool = True) -> Turn:
    return judged_turn(
        "Zebras graze on the savanna.",
        Citation(content=_SEEN, used=is_seen),
        Citation(content=_DROPPED, title="Animals", used=False),
    )


def _prompt(name: str, turn: Turn) -> str:
    return "\n".join(message.content for message in load_all(name, judge_name="m")[0].messages(turn)[1:])


@pytest.mark.parametrize("name", ["groundedness", "published_groundedness", "published_relevance", "spring_relevancy"])
def test_prompts_about_an_answer(name: str) -> None:
    """The judge is shown the documents that the answering model saw, and no other."""
    prompt = _prompt(name, replace(_turn(), response="Soon."))
    assert (True, False, False) == (_SEEN in prompt, _DROPPED in prompt, "Animals" in prompt)


@pytest.mark.parametrize("name", ["retrieval", "published_retrieval"])
def test_prompts_about_retrieval(name: str) -> None:
    """What a filter dropped was retrieved all the same."""
    prompt = _prompt(name, replace(_turn(), response="Soon."))
    assert (True, True) == (_SEEN in prompt, _DROPPED in prompt)


def test_claims() -> None:
    """A claim is held against passages of documents that were seen."""
    messages = load("factcheck", judge_name="m").messages(_turn())
    assert (True, False) == (_SEEN in messages[-1].content, f"Document: {_DROPPED}" in messages[-1].content)


def test_proxy() -> None:
    """Words of a document that was dropped cover no answer."""
    finding = GroundednessProxy().read(_turn(), None)
    assert isinstance(finding, Finding)
    assert finding.defect
    everything_seen = replace(_turn(), citations=tuple(replace(c, used=True) for c in _turn().citations or ()))
    covered = GroundednessProxy().read(everything_seen, None)
    assert isinstance(covered, Finding)
    assert not covered.defect


def test_nothing_seen() -> None:
    """An answer whose model saw none of the documents has no context; what was retrieved can be judged."""
    turn = _turn(is_seen=False)
    assert Reason.NO_CONTEXT is cover(turn)
    needs = {metric.rubric.metric: unmet(turn, metric.rubric) for metric in load_all("documents", judge_name="m")}
    assert Reason.NO_CONTEXT is needs["groundedness"]
    assert {None} == {reason for metric, reason in needs.items() if metric != "groundedness"}


def test_nothing_known() -> None:
    """Where the telemetry does not tell what the model saw, all that was retrieved counts."""
    turn = replace(_turn(), citations=tuple(replace(c, used=None) for c in _turn().citations or ()))
    assert _DROPPED in _prompt("groundedness", turn)
    assert not isinstance(cover(turn), Reason)


def test_both_in_one_call() -> None:
    """The shipped prompt shows dropped documents apart, where they count for retrieval only."""
    prompt = _prompt("documents", replace(_turn(), response="Soon."))
    seen, dropped = prompt.split("DROPPED DOCUMENTS")
    assert (True, False) == (_SEEN in seen, _DROPPED in seen)
    assert '<document id="kb-2"> Animals\n' + _DROPPED in dropped
    assert "DROPPED" not in _prompt("documents", judged_turn())


def _reply(document: str, evidence: str) -> Reply:
    sentence = {"n": 1, "document": document, "evidence": evidence, "verdict": "supported", "reason": ""}
    answer = {
        "intents": [{"intent": "When?", "document_ids": ["kb-2"]}],
        "documents": [{"id": "kb-1", "relevance": 10}, {"id": "kb-2", "relevance": 1}],
        "sentences": [{**sentence, "addresses_evaluator": False}],
    }
    return Reply(text=json.dumps(answer), model="m")


def _metric(name: str) -> PromptMetric:
    (metric,) = (metric for metric in load_all("documents", judge_name="m") if metric.rubric.metric == name)
    assert isinstance(metric, PromptMetric)
    return metric


def test_a_dropped_document_proves_nothing() -> None:
    """A judge that supports a sentence by one is asked again; a quotation from one is not found."""
    with pytest.raises(UnreadableReply, match="supported by a dropped document, which proves nothing: 1"):
        _metric("groundedness").read(_turn(), _reply("kb-2", _DROPPED))
    finding = _metric("groundedness").read(_turn(), _reply("kb-1", _DROPPED))
    assert isinstance(finding, Finding)
    assert {"evidence_not_found"} == finding.flags


@pytest.mark.parametrize(("name", "score"), [("retrieval", 1.0), ("reciprocal_rank_estimate", 1.0)])
def test_dropped_documents_are_graded(name: str, score: float) -> None:
    """Retrieval is judged by all that was retrieved, in one call with the answer too."""
    finding = _metric(name).read(_turn(), _reply("kb-1", _SEEN))
    assert isinstance(finding, Finding)
    assert score == finding.score
    assert {"kb-1", "kb-2"} & {name for detail in finding.details for name in detail.citation.split(", ")}
