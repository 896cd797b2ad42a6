"""What a checked reply says: one score with its reason, or a score computed from a verdict on every sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from monitor.errors import UnreadableReply
from monitor.judging.schema import Json
from monitor.model import Detail, Finding, Reason

SUPPORTED, CONTRADICTED, UNSUPPORTED, NO_CLAIM = "supported", "contradicted", "unsupported", "no_claim"
JUDGE_INJECTION = "judge_injection"
"""Flag: the judged text speaks to whoever judges it."""

_BEST, _WORST = 5, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The numbers a metric's score may take."""

    low: float
    high: float


Defect: TypeAlias = Callable[[float], bool]


def read_score(reply: Mapping[str, Json], scale: Scale, defect: Defect) -> Finding:
    """Return the reply's own `score` with its `reason`.

    Raises:
        UnreadableReply: the score is outside the scale; it is never clamped.
    """
    score = reply.get("score")
    if isinstance(score, bool) or not isinstance(score, int | float) or not scale.low <= score <= scale.high:
        raise UnreadableReply(f"score: expected a number from {scale.low:g} to {scale.high:g}", reason="invalid")
    return Finding(
        score=float(score),
        defect=defect(score),
        reason=_text(reply.get("reason")),
        flags=frozenset({JUDGE_INJECTION}) if reply.get("addresses_evaluator") is True else frozenset(),
    )


def read_sentences(reply: Mapping[str, Json], count: int, defect: Defect) -> Finding | Reason:
    """Return the score of the verdicts on sentences 1 to `count`, or NO_CLAIMS when none of them claims anything.

    Entries about other sentences are dropped.

    Raises:
        UnreadableReply: a sentence has no verdict, or two.
    """
    details: dict[int, Detail] = {}
    injected = False
    for entry in _entries(reply):
        number = entry.get("n")
        if not isinstance(number, int) or not 1 <= number <= count:
            continue
        if number in details:
            raise UnreadableReply(f"sentence {number} has two verdicts", reason="invalid")
        injected = injected or entry.get("addresses_evaluator") is True
        details[number] = Detail(
            index=number,
            verdict=_text(entry.get("verdict")),
            reason=_text(entry.get("reason")),
            evidence=_text(entry.get("evidence")),
            citation=_text(entry.get("document")),
        )
    if missing := [str(number) for number in range(1, count + 1) if number not in details]:
        raise UnreadableReply(f"sentences without a verdict: {', '.join(missing)}", reason="invalid")
    ordered = tuple(details[number] for number in sorted(details))
    score = groundedness([detail.verdict for detail in ordered])
    if score is None:
        return Reason.NO_CLAIMS
    wrong = [detail for detail in ordered if detail.verdict in {CONTRADICTED, UNSUPPORTED}]
    return Finding(
        score=float(score),
        defect=defect(score),
        reason="; ".join(f"sentence {d.index} {d.verdict}: {d.reason}" if d.reason else _short(d) for d in wrong),
        details=ordered,
        flags=frozenset({JUDGE_INJECTION}) if injected else frozenset(),
    )


def groundedness(verdicts: list[str]) -> int | None:
    """Return the score from 1 to 5 of an answer whose sentences were judged so, in order; None without any claim.

    5 when no claim is unsupported or contradicted. 1 when nothing is supported, or the main claim, which is the first,
    is contradicted. Else 1 + 4 x supported / claims, less 1 for each contradicted claim, rounded down, at least 1.

    >>> groundedness(["supported", "no_claim"]), groundedness(["supported"] * 3 + ["unsupported"])
    (5, 4)
    """
    claims = [verdict for verdict in verdicts if verdict != NO_CLAIM]
    supported, contradicted = claims.count(SUPPORTED), claims.count(CONTRADICTED)
    if not claims:
        return None
    if supported == len(claims):
        return _BEST
    if supported == 0 or claims[0] == CONTRADICTED:
        return _WORST
    # In whole numbers: 1 + 4 * 3 / 4 must be 4 whatever floats make of it.
    return max(_WORST, _WORST + (_BEST - _WORST) * supported // len(claims) - contradicted)


def _entries(reply: Mapping[str, Json]) -> list[dict[str, Json]]:
    entries = reply.get("sentences")
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _short(detail: Detail) -> str:
    return f"sentence {detail.index} {detail.verdict}"


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
