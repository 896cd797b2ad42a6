"""What a metric needs of a turn, and whether a turn has it."""

from __future__ import annotations

from monitor.model.judgements import Reason, Rubric
from monitor.model.turns import Turn

_NEEDS = (
    ("query", Reason.NO_QUERY),
    ("response", Reason.NO_RESPONSE),
    ("citations", Reason.NO_CONTEXT),
    ("ground_truth", Reason.NO_GROUND_TRUTH),
    ("relevant_ids", Reason.NO_GROUND_TRUTH),
)


def unmet(turn: Turn, rubric: Rubric) -> Reason | None:
    """Return the first of the rubric's needs that `turn` does not meet; None when it meets them all."""
    # What an answer is held against must have been seen by the model that gave it; retrieval is judged by all it found.
    about_answer = "response" in rubric.needs
    documents = [citation for citation in turn.citations or () if citation.is_evidence or not about_answer]
    has = {
        "query": _filled(turn.query),
        "response": _filled(turn.response),
        # Documents of which only ids or scores were captured ground nothing.
        "citations": any(_filled(citation.content) for citation in documents),
        "ground_truth": _filled(turn.ground_truth),
        "relevant_ids": turn.relevant_ids is not None,
    }
    return next((reason for need, reason in _NEEDS if need in rubric.needs and not has[need]), None)


def _filled(text: str | None) -> bool:
    return bool(text and text.strip())
