"""What a metric needs of a turn."""

from dataclasses import replace

import pytest
from judged_turn import judged_turn

from monitor.judging.needs import unmet
from monitor.model.judgements import Reason, Rubric
from monitor.model.turns import Citation, Turn


def _rubric(metric: str, *needs: str) -> Rubric:
    return Rubric(metric=metric, rubric_id=f"{metric}-1", needs=frozenset(needs), scale_min=1, scale_max=5)


GROUNDEDNESS = _rubric("groundedness", "response", "citations")
RELEVANCE = _rubric("relevance", "query", "response")
SIMILARITY = _rubric("similarity", "query", "response", "ground_truth")
RANKING = _rubric("precision_at_5", "relevant_ids")


@pytest.mark.parametrize(
    ("turn", "rubric", "reason"),
    [
        (judged_turn(query=None), RELEVANCE, Reason.NO_QUERY),
        (judged_turn(query=" \n"), RELEVANCE, Reason.NO_QUERY),
        (judged_turn(query=None), GROUNDEDNESS, None),
        (judged_turn(None), RELEVANCE, Reason.NO_RESPONSE),
        (judged_turn("  "), GROUNDEDNESS, Reason.NO_RESPONSE),
        (replace(judged_turn(), citations=None), GROUNDEDNESS, Reason.NO_CONTEXT),
        (replace(judged_turn(), citations=()), GROUNDEDNESS, Reason.NO_CONTEXT),
        (replace(judged_turn(), citations=(Citation(id="kb-1", score=0.9),)), GROUNDEDNESS, Reason.NO_CONTEXT),
        (replace(judged_turn(), citations=(Citation(), Citation(content="text"))), GROUNDEDNESS, None),
        (replace(judged_turn(), citations=()), RELEVANCE, None),
        (judged_turn(), SIMILARITY, Reason.NO_GROUND_TRUTH),
        (replace(judged_turn(), ground_truth="14 days"), SIMILARITY, None),
        (judged_turn(), RANKING, Reason.NO_GROUND_TRUTH),
        (replace(judged_turn(), relevant_ids=()), RANKING, None),
    ],
)
def test_needs(turn: Turn, rubric: Rubric, reason: Reason | None) -> None:
    """The first need that a turn does not meet is the reason; other metrics still run."""
    assert reason == unmet(turn, rubric)
