"""Turns become jobs: which turns are judged is a function of their trace ids, and with what probability is recorded.

What is asked about stored turns later, by a metric that was added, is drawn in the same way.

A need that a turn does not meet is recorded for every turn, sampled or not: coverage is a count and no estimate.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Protocol

from monitor.judging.needs import unmet
from monitor.model.judgements import Job, Reason, Rubric, Sampling, Unscored
from monitor.model.turns import Turn
from monitor.portions import portions
from monitor.ports import GoOn, Proxy, to_the_end
from monitor.settings.tree import SampleSettings
from monitor.statistics.draw import unit
from monitor.stores import DEATHS, JobStore, TurnStore, UnderWayStore

log = logging.getLogger(__name__)


class SampledStore(UnderWayStore, TurnStore, JobStore, Protocol):
    """What this stage needs of the store."""


def tick(
    store: SampledStore,
    settings: SampleSettings,
    *,
    rubrics: Sequence[Rubric],
    proxy: Proxy | None,
    now: datetime,
    worker: str,
    go_on: GoOn = to_the_end,
) -> int:
    """Decide about every turn that was not decided about, oldest first; return how many.

    `go_on` is asked after each portion of them.

    Doing it again does nothing: a recorded decision stays until the turn's content changes. A turn that two processes
    died with is not looked at again: all its metrics are unscored with reason `internal`. `worker` is this run of a
    process.
    """
    decided: set[str] = set()
    while True:
        turns = store.unsampled(settings.batch)
        # A decision about a turn that changes meanwhile is dropped and the turn comes back; the next tick takes it.
        fresh = [turn for turn in turns if turn.turn_id not in decided]
        if not fresh:
            return len(decided)
        by_id = {turn.turn_id: turn for turn in fresh}
        for turn_ids, is_set_aside in portions(store, "turn", tuple(by_id), worker=worker):
            chosen = [by_id[turn_id] for turn_id in turn_ids]
            store.record_samplings(
                [_set_aside(turn, rubrics, now=now) for turn in chosen]
                if is_set_aside
                else [decide(turn, rubrics, settings=settings, proxy=proxy, now=now) for turn in chosen]
            )
            decided.update(turn_ids)
            if not go_on():
                return len(decided)


def decide(
    turn: Turn, rubrics: Sequence[Rubric], *, settings: SampleSettings, proxy: Proxy | None, now: datetime
) -> Sampling:
    """Return the jobs of `turn`, the metrics whose needs it does not meet, and its cheap score.

    A turn is drawn for a metric with the probability that `settings` have for its app, environment and this metric;
    which turns are is a function of their trace ids, so those drawn at a lower rate are among those at a higher one.
    """
    content_hash = turn.content_hash()
    draw = unit(turn.trace_id, settings.salt)

    def job(rubric: Rubric, probability: float) -> Job:
        return Job(
            turn_id=turn.turn_id,
            content_hash=content_hash,
            metric=rubric.metric,
            rubric_id=rubric.rubric_id,
            probability=probability,
        )

    jobs: list[Job] = []
    unscored: list[Unscored] = []
    for rubric in rubrics:
        if reason := unmet(turn, rubric):
            unscored.append(Unscored(job=job(rubric, 1.0), reason=reason, judged_at=now))
        elif draw < (rate := settings.rate_of(turn.app, turn.environment, rubric.metric)):
            jobs.append(job(rubric, rate))
    return Sampling(
        turn_id=turn.turn_id,
        content_hash=content_hash,
        jobs=tuple(jobs),
        unscored=tuple(unscored),
        asked=tuple((rubric.metric, rubric.rubric_id) for rubric in rubrics),
        proxy=proxy.score(turn) if proxy else None,
        proxy_version=proxy.version if proxy else "",
        decided_at=now,
    )


def missing(
    store: SampledStore,
    settings: SampleSettings,
    rubrics: Sequence[Rubric],
    *,
    app: str | None,
    since: datetime,
    now: datetime,
) -> Iterator[tuple[Turn, Sampling]]:
    """Yield the turns begun since then, each with what is to be asked about it by these rubrics; nothing is written.

    Left out are jobs that wait already, and those that have an outcome which asking again would not better.
    """
    turns = store.turns(app=app, since=since)
    while batch := tuple(islice(turns, settings.batch)):
        samplings = [decide(turn, rubrics, settings=settings, proxy=None, now=now) for turn in batch]
        known = store.asked_already([job for sampling in samplings for job in sampling.jobs])
        for turn, sampling in zip(batch, samplings, strict=True):
            jobs = tuple(replace(job, requested_at=now) for job in sampling.jobs if job not in known)
            yield turn, replace(sampling, jobs=jobs)


def queue(store: SampledStore, settings: SampleSettings, samplings: Sequence[Sampling]) -> int:
    """Write what `missing` found, a batch a transaction, and return how many jobs are new; it may be repeated."""
    return sum(
        store.request(samplings[start : start + settings.batch]) for start in range(0, len(samplings), settings.batch)
    )


def _set_aside(turn: Turn, rubrics: Sequence[Rubric], *, now: datetime) -> Sampling:
    """Decide about a turn without looking at its text, which ended processes."""
    log.error("turn %s set aside: %d processes died while looking at it", turn.turn_id, DEATHS)
    content_hash = turn.content_hash()
    jobs = [
        Job(
            turn_id=turn.turn_id,
            content_hash=content_hash,
            metric=rubric.metric,
            rubric_id=rubric.rubric_id,
            probability=1.0,
        )
        for rubric in rubrics
    ]
    return Sampling(
        turn_id=turn.turn_id,
        content_hash=content_hash,
        jobs=(),
        unscored=tuple(Unscored(job=job, reason=Reason.INTERNAL, judged_at=now) for job in jobs),
        asked=tuple((rubric.metric, rubric.rubric_id) for rubric in rubrics),
        proxy=None,
        proxy_version="",
        decided_at=now,
    )
