"""The end of a process: everybody hears of it, and ticks end between two pieces of their work."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

from monitor.model.spans import Fragment
from monitor.payloads.turn_records.fragments import turn_fragment
from monitor.runtime.build import open_parts
from monitor.runtime.pipeline import Pipeline
from monitor.runtime.stopping import Stopping
from monitor.settings.tree import Settings

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
APPS = 60


def imported(number: int) -> Fragment:
    """An imported turn of an app of its own."""
    record = f'{{"question": "q{number}", "context": "It lasts two years.", "answer": "It lasts two years."}}'
    return turn_fragment(record.encode(), origin=f"t:{number}", app=f"app {number}", received_at=NOW)


async def test_everybody_hears_of_it() -> None:
    """Tasks wait for an event, ticks ask, and the time for work under way runs from then on."""
    stopping = Stopping(timedelta(seconds=20))
    go_on = stopping.tick_limit()
    assert (timedelta(seconds=14), True, False) == (stopping.left(), go_on(), stopping.event.is_set())
    stopping.begin()
    assert not go_on()
    assert not stopping.tick_limit()()
    await asyncio.wait_for(stopping.event.wait(), 1)
    assert stopping.left() < timedelta(seconds=14)


async def test_ticks_end_after_a_piece_of_their_work(tmp_path: Path) -> None:
    """Told to end, each does one piece and leaves the rest to the next tick, where nothing is lost or done twice."""
    settings = Settings.model_validate(
        {
            "store": {"url": f"sqlite:///{tmp_path / 'shop.db'}"},
            "assemble": {"batch": 7},
            "sample": {"batch": 7},
            "judge": {"kind": "none"},
            "metrics": ["groundedness_proxy"],
        }
    )
    async with open_parts(settings) as parts:
        pipeline = Pipeline(parts=parts, tick_limit=lambda: lambda: False)
        parts.store.append([imported(number) for number in range(APPS)])
        assembled = [await pipeline.assemble(LATER) for _ in range(APPS // 7 + 1)]
        sampled = [await pipeline.sample(LATER) for _ in range(APPS // 7 + 1)]
        assert ([7] * 8 + [4]) == assembled == sampled
        assert [1, 1] == [await pipeline.rollup(LATER), await pipeline.rollup(LATER)]
        assert APPS - 2 == parts.store.backlog().windows
        assert APPS - 2 == await Pipeline(parts=parts).rollup(LATER)
        assert 0 == parts.store.backlog().windows
