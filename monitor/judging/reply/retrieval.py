"""Retrieval as a judge saw it: intents of the question that documents cover, and a relevance of each document.

Score after Azure AI Studio's "retrieval score": the share of intents with a document that answers them, squared to
punish misses. The measures of ranking are computed from the judge's grades and so are estimates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monitor.errors import UnreadableReply
from monitor.judging.coded import ranking
from monitor.judging.prompt.front_matter import RankingSettings
from monitor.judging.prompt.schema import Json
from monitor.judging.reply.findings import Defect, entries, text
from monitor.model.judgements import Detail, Finding

_MOST_RELEVANT = 10


def read_intents(reply: Mapping[str, Json], ids: Sequence[str], defect: Defect) -> Finding:
    """Return the squared share of intents that one of the documents `ids` covers; details are the intents.

    An id that is none of `ids` covers nothing.

    Raises:
        UnreadableReply: the question has no intent.
    """
    known = set(ids)
    details: list[Detail] = []
    for index, entry in enumerate(entries(reply, "intents"), start=1):
        named = entry.get("document_ids")
        covering = (
            [name for name in named if isinstance(name, str) and name in known] if isinstance(named, list) else []
        )
        details.append(
            Detail(
                index=index,
                verdict="covered" if covering else "not_covered",
                reason=text(entry.get("intent")),
                citation=", ".join(dict.fromkeys(covering)),
            )
        )
    if not details:
        raise UnreadableReply("intents: expected at least one", reason="invalid")
    missed = [detail for detail in details if detail.verdict == "not_covered"]
    score = ((len(details) - len(missed)) / len(details)) ** 2
    return Finding(
        score=score,
        defect=defect(score),
        reason="; ".join(
            [_in_words(details, missed, score), *(f"no document for: {detail.reason}" for detail in missed)]
        ),
        details=tuple(details),
    )


def _in_words(details: Sequence[Detail], missed: Sequence[Detail], score: float) -> str:
    """Return the score in words, on the range that Azure names for it too."""
    return f"{len(details) - len(missed)} of {len(details)} intents covered, {1 + 4 * score:.2f} of 5"


def read_ranking(reply: Mapping[str, Json], ids: Sequence[str], settings: RankingSettings, defect: Defect) -> Finding:
    """Return the measure over the judge's grades of the documents `ids`, which are in rank order.

    Raises:
        UnreadableReply: a document has no grade, or two.
    """
    grades: dict[str, int] = {}
    for entry in entries(reply, "documents"):
        name, grade = entry.get("id"), entry.get("relevance")
        if not isinstance(name, str) or not isinstance(grade, int) or name not in ids:
            continue
        if name in grades:
            raise UnreadableReply("documents: one has two grades", reason="invalid")
        grades[name] = grade
    if missing := [str(place) for place, name in enumerate(ids, start=1) if name not in grades]:
        raise UnreadableReply(f"documents without a grade: number {', '.join(missing)}", reason="invalid")
    ordered = [grades[name] for name in ids]
    relevant = [grade >= settings.relevant_from for grade in ordered]
    score = _measured(ordered, relevant, settings)
    return Finding(
        score=score,
        defect=defect(score),
        reason=f"{sum(relevant)} of {len(relevant)} documents have {settings.relevant_from} or more of 10",
        details=tuple(
            Detail(index=rank, verdict=f"relevance {grade}", citation=name)
            for rank, (name, grade) in enumerate(zip(ids, ordered, strict=True), start=1)
        ),
    )


def _measured(grades: Sequence[int], relevant: Sequence[bool], settings: RankingSettings) -> float:
    match settings.measure:
        case "precision":
            return ranking.precision(relevant, min(settings.k, len(relevant)))
        case "reciprocal_rank":
            return ranking.reciprocal_rank(relevant)
        case "ndcg":
            gains = [(grade - 1) / (_MOST_RELEVANT - 1) for grade in grades]
            return ranking.ndcg(gains, settings.k, ideal=gains)
