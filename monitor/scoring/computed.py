"""Outcomes of jobs whose metrics are computed in code."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from monitor.judging.dialogue import Answer
from monitor.model.judgements import Exchange, Job, Outcome, Reason
from monitor.model.turns import Turn
from monitor.ports import Metric
from monitor.scoring.inputs import read
from monitor.scoring.outcomes import Outcomes
from monitor.stores import JobStore


async def compute(
    store: JobStore, outcomes: Outcomes, metrics: Mapping[str, Metric], jobs: Sequence[Job]
) -> list[Outcome]:
    """Return what becomes of each of the jobs, by the metrics of their rubric ids; computed in a thread.

    Raises:
        StoreUnavailable: the database cannot serve us.
    """
    return await asyncio.to_thread(_outcomes, store, outcomes, metrics, jobs)


def _outcomes(store: JobStore, outcomes: Outcomes, metrics: Mapping[str, Metric], jobs: Sequence[Job]) -> list[Outcome]:
    inputs = read(store, outcomes, jobs)
    return [
        inputs.faults[job]
        if job in inputs.faults
        else _outcome(outcomes, metrics[job.rubric_id], job, inputs.turns.get(job.turn_id))
        for job in jobs
    ]


def _outcome(outcomes: Outcomes, metric: Metric, job: Job, turn: Turn | None) -> Outcome:
    try:
        if (expired := outcomes.expired(job, turn)) or turn is None:
            return expired or outcomes.unscored(job, Reason.EXPIRED)
        result = metric.read(turn, None)
    except Exception as error:  # noqa: BLE001 -- the one around a worker's job; it is counted
        return outcomes.fault(job, error)
    return outcomes.judged(job, Answer(result=result, exchange=Exchange()))
