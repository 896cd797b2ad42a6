"""What a turn carries decides by what it is measured: the table of docs/metrics.md, for everything that is shipped."""

from dataclasses import replace

import pytest
from judged_turn import judged_turn

from monitor.judging.coded.lex5 import GroundednessProxy
from monitor.judging.coded.registry import coded
from monitor.judging.needs import unmet
from monitor.judging.prompt.file import shipped
from monitor.judging.prompt_metric import load_all
from monitor.model.judgements import Rubric
from monitor.model.turns import Turn

_IN_CODE = (
    "f1",
    "reciprocal_rank",
    "precision_at_5",
    "recall_at_5",
    "ndcg_at_5",
    "false_positives_at_5",
    "refusal_proxy",
)
RUBRICS: dict[str, Rubric] = {
    **{m.rubric.metric: m.rubric for file in shipped() for m in load_all(file, judge_name="openai:judge-1")},
    **{name: metric.rubric for name in _IN_CODE if (metric := coded(name, where=""))},
    "groundedness_proxy": GroundednessProxy.rubric,
}

SAFETY = {"hate_unfairness", "sexual", "violence", "self_harm", "jailbreak"}
TRAITS = {"relevance", "coherence", "fluency", "refusal", "refusal_proxy", "published_coherence", "published_fluency"}
BY_DOCUMENTS = {"groundedness", "groundedness_proxy", "factcheck", "claim_check", "published_groundedness"} | {
    "published_relevance",
    "published_conversation_relevance",
    "spring_relevancy",
    "spring_fact_checking",
}
RETRIEVAL = {"retrieval", "precision_estimate", "reciprocal_rank_estimate", "ndcg_estimate", "published_retrieval"}
BY_REFERENCE = {
    "similarity",
    "relevance_to_reference",
    "f1",
    "published_similarity",
    "published_conversation_relevance_reference",
}
BY_LABELS = {"reciprocal_rank", "precision_at_5", "recall_at_5", "ndcg_at_5", "false_positives_at_5"}

_BARE = replace(judged_turn(), citations=None)
TABLE: dict[str, tuple[Turn, set[str]]] = {
    "question and answer": (_BARE, SAFETY | TRAITS),
    "documents as well": (judged_turn(), SAFETY | TRAITS | BY_DOCUMENTS | RETRIEVAL),
    "a reference answer as well": (
        replace(judged_turn(), ground_truth="In 14 days."),
        SAFETY | TRAITS | BY_DOCUMENTS | RETRIEVAL | BY_REFERENCE,
    ),
    "a reference answer without documents": (
        replace(_BARE, ground_truth="In 14 days."),
        SAFETY | TRAITS | BY_REFERENCE,
    ),
    "ids of relevant documents as well": (
        replace(judged_turn(), relevant_ids=("kb-1",)),
        SAFETY | TRAITS | BY_DOCUMENTS | RETRIEVAL | BY_LABELS,
    ),
    "no answer": (replace(judged_turn(), response=None), RETRIEVAL),
    "no question": (
        replace(judged_turn(), query=None),
        {"groundedness", "groundedness_proxy", "factcheck", "claim_check", "published_groundedness"}
        | {"spring_fact_checking", "refusal_proxy"},
    ),
    "retrieval found nothing": (replace(judged_turn(), citations=()), SAFETY | TRAITS),
}


def test_everything_is_in_the_table() -> None:
    """Each shipped metric is measured on some turn of the table, and the table names no other."""
    assert RUBRICS.keys() == set().union(*(measured for _, measured in TABLE.values()))


@pytest.mark.parametrize(("turn", "measured"), TABLE.values(), ids=TABLE)
def test_measured_by(turn: Turn, measured: set[str]) -> None:
    """A turn is measured by what its fields allow, and by nothing that would have to be made up."""
    assert measured == {name for name, rubric in RUBRICS.items() if unmet(turn, rubric) is None}
