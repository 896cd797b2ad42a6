"""Turns become jobs: which turns are judged is a function of their trace ids, and with what probability is recorded.

A need that a turn does not meet is recorded for every turn, sampled or not: coverage is a count and no estimate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from monitor.model import Job, Reason, Rubric, Sampling, Turn, Unscored
from monitor.ports import Proxy
from monitor.settings import SampleSettings
from monitor.stores import JobStore, TurnStore

_NEEDS = (
    ("query", Reason.NO_QUERY),
    ("response", Reason.NO_RESPONSE),
    ("citations", Reason.NO_CONTEXT),
    ("ground_truth", Reason.NO_GROUND_TRUTH),
    ("relevant_ids", Reason.NO_GROUND_TRUTH),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Whether a turn is in the sample, and how likely that was before its hash was known."""

    taken: bool
    probability: float
    """In (0, 1]."""
    stratum: str = ""


class Design(Protocol):
    """A sampling design."""

    def __call__(self, turn: Turn, settings: SampleSettings, proxy: float | None) -> Draw:
        """Return the draw for one turn: the same one wherever and however often it is asked for."""


class SampledStore(TurnStore, JobStore, Protocol):
    """What this stage needs of the store."""


def tick(
    store: SampledStore,
    settings: SampleSettings,
    *,
    rubrics: Sequence[Rubric],
    proxy: Proxy | None,
    now: datetime,
) -> int:
    """Decide about every turn that was not decided about, oldest first; return how many.

    Doing it again does nothing: a recorded decision stays until the turn's content changes.
    """
    decided: set[str] = set()
    while True:
        turns = store.unsampled(settings.batch)
        # A decision about a turn that changes meanwhile is dropped and the turn comes back; the next tick takes it.
        fresh = [turn for turn in turns if turn.turn_id not in decided]
        if not fresh:
            return len(decided)
        store.record_samplings([decide(turn, rubrics, settings=settings, proxy=proxy, now=now) for turn in fresh])
        decided.update(turn.turn_id for turn in fresh)


def unit(trace_id: str, salt: str) -> float:
    """Return the place of a trace in [0, 1): uniform, and unrelated between two salts.

    Turns of one trace are in the sample together.

    >>> unit("4bf92f3577b34da6a3ce929d0e0e4736", "rag-monitor")
    0.1254152142159336
    """
    # blake2b takes a key of up to 64 bytes; a salt may be longer.
    key = hashlib.blake2b(salt.encode(), digest_size=32).digest()
    digest = hashlib.blake2b(trace_id.encode(), key=key, digest_size=8).digest()
    # 53 bits are what a float holds exactly, so 1.0 cannot come of rounding.
    return (int.from_bytes(digest, "big") >> 11) / (1 << 53)


def uniform(turn: Turn, settings: SampleSettings, proxy: float | None) -> Draw:  # noqa: ARG001 -- other designs use it
    """Return a draw that takes every turn with probability `settings.rate`."""
    return Draw(taken=unit(turn.trace_id, settings.salt) < settings.rate, probability=settings.rate)


def decide(
    turn: Turn,
    rubrics: Sequence[Rubric],
    *,
    settings: SampleSettings,
    proxy: Proxy | None,
    now: datetime,
    design: Design = uniform,
) -> Sampling:
    """Return the jobs of `turn`, the metrics whose needs it does not meet, and its cheap score."""
    content_hash = turn.content_hash()
    score = proxy.score(turn) if proxy else None
    draw = design(turn, settings, score)

    def job(rubric: Rubric, probability: float) -> Job:
        return Job(
            turn_id=turn.turn_id,
            content_hash=content_hash,
            metric=rubric.metric,
            rubric_id=rubric.rubric_id,
            probability=probability,
            stratum=draw.stratum,
        )

    jobs: list[Job] = []
    unscored: list[Unscored] = []
    for rubric in rubrics:
        if reason := unmet(turn, rubric):
            unscored.append(Unscored(job=job(rubric, 1.0), reason=reason, judged_at=now))
        elif draw.taken:
            jobs.append(job(rubric, draw.probability))
    return Sampling(
        turn_id=turn.turn_id,
        content_hash=content_hash,
        jobs=tuple(jobs),
        unscored=tuple(unscored),
        proxy=score,
        proxy_version=proxy.version if proxy else "",
        decided_at=now,
    )


def unmet(turn: Turn, rubric: Rubric) -> Reason | None:
    """Return the first of the rubric's needs that `turn` does not meet; None when it meets them all."""
    has = {
        "query": _filled(turn.query),
        "response": _filled(turn.response),
        # Documents of which only ids or scores were captured ground nothing.
        "citations": any(_filled(citation.content) for citation in turn.citations or ()),
        "ground_truth": _filled(turn.ground_truth),
        "relevant_ids": turn.relevant_ids is not None,
    }
    return next((reason for need, reason in _NEEDS if need in rubric.needs and not has[need]), None)


def _filled(text: str | None) -> bool:
    return bool(text and text.strip())
