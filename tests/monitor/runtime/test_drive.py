"""All stages at once at a given instant, on a real store and with a judge over loopback."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from judge_server import JudgeServer, refusal

from monitor.model.spans import Fragment
from monitor.payloads.turn_records.fragments import turn_fragment
from monitor.runtime.build import Parts, open_parts
from monitor.runtime.drive import Driven, closings, complete_at, drive
from monitor.runtime.pipeline import Pipeline
from monitor.settings.tree import RollupSettings, Settings

HOUR = timedelta(hours=1)
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
WINDOWS = RollupSettings()
WIZARD = "Ask the wizard in Aachen, who repairs anything on Sundays."


@asynccontextmanager
async def parts(folder: Path, **tree: object) -> AsyncIterator[Parts]:
    """The parts over a SQLite file in the folder."""
    settings = Settings.model_validate({"store": {"url": f"sqlite:///{folder / 'shop.db'}"}, **tree})
    async with open_parts(settings) as opened:
        yield opened


def fragment(number: int, at: datetime, *, answer: str = "It lasts two years.") -> Fragment:
    """An imported turn that began at `at`."""
    record = (
        f'{{"question": "Warranty {number}?", "context": "It lasts two years.", "answer": "{answer}", '
        f'"turn_id": "t{number}", "app": "shop", "started_at": "{at.isoformat()}"}}'
    )
    return turn_fragment(record.encode(), origin="test", app="shop", received_at=at)


async def driven(folder: Path, *at: datetime, **tree: object) -> Driven:
    """Drive turns that began at these instants to the end."""
    async with parts(folder, **tree) as opened:
        opened.store.append([fragment(number, moment) for number, moment in enumerate(at)])
        return await drive(Pipeline(parts=opened), now=complete_at(max(at), opened.settings))


async def test_no_turn_is_too_old(tmp_path: Path) -> None:
    """What was recorded weeks before the end of the recording is judged too, whatever `score.max_job_age` is."""
    done = await driven(tmp_path, NOON - timedelta(days=40), NOON, score={"max_job_age": "1h"})
    assert (2, 2) == (done.samplings, done.judged)


async def test_driving_again_does_nothing(tmp_path: Path) -> None:
    """The same turns once more are neither assembled nor judged again."""
    await driven(tmp_path, NOON)
    done = await driven(tmp_path, NOON)
    assert (0, 0, 0, 0) == (done.traces, done.samplings, done.judged, done.windows)


async def test_jobs_of_a_process_that_died_are_taken_at_once(tmp_path: Path) -> None:
    """Where judging is free nobody waits for the lease of a process that was killed."""
    async with parts(tmp_path) as opened:
        now = complete_at(NOON, opened.settings)
        opened.store.append([fragment(1, NOON)])
        await prepare(opened, now=now)
        (job,) = opened.store.claim(now=now, lease=HOUR, limit=10)
        assert 1 == job.attempt
        assert 1 == (await asyncio.wait_for(drive(Pipeline(parts=opened), now=now), 10)).judged


async def test_judge_that_asks_for_a_pause_is_waited_for(tmp_path: Path) -> None:
    """A job that had to wait is judged before the drive is over."""
    server = JudgeServer()
    server.script(refusal(429, "slow down", retry_after="1"))
    try:
        judge = {"kind": "openai", "api_key": "k", "base_url": server.url}
        done = await driven(tmp_path, NOON, judge=judge, metrics=["groundedness"])
        assert 1 == done.judged
        assert 2 == len(server.asked)
    finally:
        server.close()


async def test_jobs_that_ask_a_judge_outlive_a_drive_without_one(tmp_path: Path) -> None:
    """Driving a store without a judge model leaves the jobs alone that a judge model is asked about; it judges them."""
    server = JudgeServer()
    judge = {"kind": "openai", "api_key": "k", "base_url": server.url}

    try:
        async with parts(tmp_path, judge=judge, metrics=["groundedness"]) as opened:
            opened.store.append([fragment(1, NOON)])
            await prepare(opened, now=complete_at(NOON, opened.settings))
            assert 1 == opened.store.backlog().jobs
        await driven(tmp_path, NOON + HOUR)
        assert 0 == len(server.asked)
        done = await driven(tmp_path, NOON + HOUR, judge=judge, metrics=["groundedness"])
        assert 1 == done.judged
        assert 1 == len(server.asked)
    finally:
        server.close()


def test_complete_is_after_quiet_and_closing() -> None:
    """At that instant the last trace is quiet and its window is closed."""
    instants = {complete_at(at, Settings()) for at in (NOON, NOON + HOUR - timedelta(seconds=1))}
    assert {NOON + HOUR + WINDOWS.lateness} == instants


async def test_alerts_carry_the_times_at_which_they_would_have_fired(tmp_path: Path) -> None:
    """A regression is found when its window closes, though everything is detected at the end."""
    good = [NOON + timedelta(minutes=m) for m in range(0, 3 * 24 * 60, 10)]
    async with parts(tmp_path, detect={"reference": "48h", "min_reference_windows": 24}) as opened:
        opened.store.append([fragment(number, at) for number, at in enumerate(good)])
        worse = [NOON + timedelta(days=3, minutes=m) for m in range(0, 24 * 60, 10)]
        opened.store.append([fragment(10_000 + n, at, answer=WIZARD) for n, at in enumerate(worse)])
        await drive(Pipeline(parts=opened), now=complete_at(worse[-1], opened.settings))
        (alert,) = opened.store.alerts()
        assert alert.firing_at == alert.regression.detected_at
        assert alert.firing_at is not None
        fired = alert.firing_at
    assert timedelta(0) < fired - (NOON + timedelta(days=3)) < timedelta(hours=6)
    assert timedelta(0) == (fired - WINDOWS.lateness - NOON) % HOUR


async def test_a_gap_of_years_is_skipped(tmp_path: Path) -> None:
    """Detection looks at windows with data and at the week after each, not at the years between two."""
    began = time.process_time()
    done = await driven(tmp_path, NOON - timedelta(days=20 * 365), NOON)
    assert NOON + HOUR + WINDOWS.lateness == done.detected_through
    # Twenty years are 175,000 windows.
    assert time.process_time() - began < 20


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=20), st.integers(1, 50))
def test_closings_cover_what_detection_can_see(hours: list[int], horizon: int) -> None:
    """Each window with data has its closing, as has every one until the horizon; they come in order, each once."""
    starts = sorted({NOON + hour * HOUR for hour in hours})
    found = list(closings(starts, WINDOWS, horizon=horizon * HOUR))
    assert all(before < after for before, after in pairwise(found))
    expected = {start + later * HOUR + HOUR + WINDOWS.lateness for start in starts for later in range(horizon + 2)}
    assert expected == set(found)


async def prepare(opened: Parts, *, now: datetime) -> None:
    """Do what a replay does until it judges."""
    pipeline = Pipeline(parts=opened)
    await pipeline.assemble(now)
    await pipeline.sample(now)
