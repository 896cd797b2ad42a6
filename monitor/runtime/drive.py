"""Drives all stages to completion at a given instant: what the clock does in `run`, at once for `replay` and `demo`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from monitor.errors import Retryable
from monitor.model.spans import EPOCH
from monitor.runtime.pipeline import Pipeline
from monitor.settings.tree import RollupSettings, Settings

_PAUSE = 0.2
"""Seconds between looks for jobs that were given back for later."""
_LONGEST_TROUBLE = 60.0
"""Seconds for which a judge may answer nobody before the drive is given up; what was judged by then is kept."""
_NEVER_TOO_OLD = timedelta(days=36_500)
_LEAP = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """What one drive did, and up to which window detection has looked."""

    traces: int
    samplings: int
    judged: int
    """Jobs that became a verdict."""
    windows: int
    detected_through: datetime | None


async def drive(pipeline: Pipeline, *, now: datetime, detected_through: datetime | None = None) -> Driven:
    """Assemble, sample, score and roll up everything due at `now`, then detect and alert window by window up to it.

    Detection looks at each window at the moment when it closes, so that alerts carry the times at which they would have
    fired live; `detected_through` is where the drive before this one ended, None to begin with the first window stored.
    """
    traces = samplings = judged = 0
    while True:
        assembled, sampled = await pipeline.assemble(now), await pipeline.sample(now)
        judged += await _score(pipeline, now=now)
        traces, samplings = traces + assembled, samplings + sampled
        if not (assembled or sampled):
            break
    windows = await pipeline.rollup(now)
    through = await _detect(pipeline, now=now, after=detected_through)
    return Driven(traces=traces, samplings=samplings, judged=judged, windows=windows, detected_through=through)


async def _score(pipeline: Pipeline, *, now: datetime) -> int:
    """Work off every job and return how many became a verdict.

    No job is too old: whoever drives wants all that was recorded judged. Those that a judge made wait are waited for,
    in a time that runs on from `now` at its usual pace.
    """
    parts = pipeline.parts
    began = time.monotonic()
    leapt = timedelta(0)

    def clock() -> datetime:
        return now + leapt + timedelta(seconds=time.monotonic() - began)

    patient = parts.settings.score.model_copy(update={"max_job_age": _NEVER_TOO_OLD})
    scorer = pipeline.scorer(patient, clock=clock)
    await scorer.drain()
    ours = [rubric.rubric_id for rubric in parts.rubrics]
    # Jobs of another prompt or judge may be left from an earlier run; nobody here can work them off.
    well_at = time.monotonic()
    while waiting := (await asyncio.to_thread(parts.store.backlog, rubric_ids=ours)).jobs:
        trouble = scorer.health()
        if not trouble:
            well_at = time.monotonic()
        elif time.monotonic() - well_at > _LONGEST_TROUBLE:
            raise Retryable(f"{'; '.join(trouble.values())}: {waiting} jobs are left, the next run goes on with them")
        await asyncio.sleep(_PAUSE)
        if parts.judge is None:
            # Only a process that died can have left these leased: computing them again costs nothing.
            leapt = max(_LEAP, 2 * leapt)
        await scorer.drain()
    return sum(
        round(total.value)
        for total in scorer.counters()
        if total.name == "jobs_finished_total" and total.labels["outcome"] == "scored"
    )


async def _detect(pipeline: Pipeline, *, now: datetime, after: datetime | None) -> datetime | None:
    parts = pipeline.parts
    rollup, horizon = parts.settings.rollup, parts.settings.detect.horizon
    since = None if after is None else after - horizon - rollup.lateness - 2 * rollup.window
    starts = {row.start for row in await asyncio.to_thread(parts.store.rollups, since=since)}
    for at in closings(sorted(starts), rollup, horizon=horizon):
        if at <= now and (after is None or at > after):
            await pipeline.detect(at)
            await pipeline.alert(at)
            after = at
    return after


def closings(starts: Iterable[datetime], rollup: RollupSettings, *, horizon: timedelta) -> Iterator[datetime]:
    """Yield when windows close, as long as detection can find anything: past `horizon` without data it cannot.

    `starts` are those of the windows with data, in order. A gap of years costs no more than one of a week.
    """
    at = datetime.min.replace(tzinfo=UTC)
    for start in starts:
        first = start + rollup.window + rollup.lateness
        at = max(at, first)
        while at <= first + horizon + rollup.window:
            yield at
            at += rollup.window


def complete_at(latest: datetime, settings: Settings) -> datetime:
    """Return an instant at which every trace that arrived by `latest` has settled and its windows are closed."""
    length = settings.rollup.window
    quiet = latest + settings.assemble.quiet + timedelta(seconds=1)
    end = EPOCH + ((latest - EPOCH) // length + 1) * length
    return max(quiet, end + settings.rollup.lateness)
