"""Drives all stages to completion at a given instant: what the clock does in `run`, at once for `replay` and `demo`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from monitor.errors import Retryable
from monitor.model.spans import EPOCH
from monitor.ports import Channel
from monitor.runtime.build import Parts, build_scorer
from monitor.settings.tree import RollupSettings
from monitor.stages import alert, assemble, detect, rollup, sample

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


async def drive(
    parts: Parts,
    *,
    now: datetime,
    detected_through: datetime | None = None,
    channels: Mapping[str, Channel] | None = None,
) -> Driven:
    """Assemble, sample, score and roll up everything due at `now`, then detect and alert window by window up to it.

    Detection looks at each window at the moment when it closes, so that alerts carry the times at which they would have
    fired live; `detected_through` is where the drive before this one ended, None to begin with the first window stored.
    """
    settings = parts.settings
    traces = samplings = judged = 0
    while True:
        assembled = await asyncio.to_thread(
            assemble.tick,
            parts.store,
            settings.assemble,
            now=now,
            decode=parts.decode,
            dialects=parts.dialects,
            hash_user=parts.hash_user,
        )
        sampled = await asyncio.to_thread(
            sample.tick, parts.store, settings.sample, rubrics=parts.rubrics, proxy=parts.proxy, now=now
        )
        judged += await _score(parts, now=now)
        traces, samplings = traces + assembled, samplings + sampled
        if not (assembled or sampled):
            break
    windows = await asyncio.to_thread(rollup.tick, parts.store, settings.rollup, rubrics=parts.rubrics)
    through = await _detect(parts, now=now, after=detected_through, channels=channels or {})
    return Driven(traces=traces, samplings=samplings, judged=judged, windows=windows, detected_through=through)


async def _score(parts: Parts, *, now: datetime) -> int:
    """Work off every job and return how many became a verdict.

    No job is too old: whoever drives wants all that was recorded judged. Those that a judge made wait are waited for,
    in a time that runs on from `now` at its usual pace.
    """
    began = time.monotonic()
    leapt = timedelta(0)

    def clock() -> datetime:
        return now + leapt + timedelta(seconds=time.monotonic() - began)

    patient = parts.settings.score.model_copy(update={"max_job_age": _NEVER_TOO_OLD})
    scorer = build_scorer(parts, clock=clock, settings=patient)
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


async def _detect(
    parts: Parts, *, now: datetime, after: datetime | None, channels: Mapping[str, Channel]
) -> datetime | None:
    rollup, horizon = parts.settings.rollup, parts.settings.detect.horizon
    since = None if after is None else after - horizon - rollup.lateness - 2 * rollup.window
    starts = {row.start for row in await asyncio.to_thread(parts.store.rollups, since=since)}
    for at in closings(sorted(starts), rollup, horizon=horizon):
        if at <= now and (after is None or at > after):
            await _look(parts, now=at, channels=channels)
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


async def _look(parts: Parts, *, now: datetime, channels: Mapping[str, Channel]) -> None:
    settings = parts.settings
    await asyncio.to_thread(detect.tick, parts.store, settings.detect, lateness=settings.rollup.lateness, now=now)
    await asyncio.to_thread(alert.tick, parts.store, settings.alert, channels=tuple(channels), now=now)
    await alert.deliver(parts.store, channels, settings.alert, now=now)


def settled(latest: datetime, parts: Parts) -> datetime:
    """Return an instant at which everything that arrived by `latest` has settled and its windows are closed."""
    settings = parts.settings
    length = settings.rollup.window
    quiet = latest + settings.assemble.quiet + timedelta(seconds=1)
    end = EPOCH + ((latest - EPOCH) // length + 1) * length
    return max(quiet, end + settings.rollup.lateness)
