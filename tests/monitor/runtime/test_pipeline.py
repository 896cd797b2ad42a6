"""The stages as one process calls them, on a real store."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from monitor.model.spans import Fragment
from monitor.payloads.turn_records.fragments import turn_fragment
from monitor.runtime.build import open_parts
from monitor.runtime.pipeline import Pipeline
from monitor.settings.tree import Settings

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def settings_of(folder: Path) -> Settings:
    """Settings with a SQLite file in the folder."""
    return Settings.model_validate({"store": {"url": f"sqlite:///{folder / 'shop.db'}"}})


def imported(number: int) -> Fragment:
    """An imported turn."""
    record = f'{{"question": "q{number}", "context": "It lasts two years.", "answer": "It lasts two years."}}'
    return turn_fragment(record.encode(), origin=f"t:{number}", app="shop", received_at=NOW)


async def test_stages_hand_on_through_the_store(tmp_path: Path) -> None:
    """What one stage wrote the next one takes, and each does nothing when it is called again."""
    async with open_parts(settings_of(tmp_path)) as parts:
        parts.store.append([imported(0)])
        pipeline = Pipeline(parts=parts)
        rows = []
        for _ in range(2):
            rows += [await pipeline.assemble(LATER), await pipeline.sample(LATER)]
            rows.append(await pipeline.scorer(parts.settings.score, clock=lambda: LATER).drain())
            rows += [await pipeline.rollup(LATER), await pipeline.detect(LATER), await pipeline.alert(LATER)]
            rows.append(await pipeline.publish(LATER))
        assert [1, 1, 1, 1, 0, 0, 0] + [0] * 7 == rows


async def test_prune_goes_on_until_nothing_is_left(tmp_path: Path) -> None:
    """One tick deletes all that is too old, however many transactions that takes."""
    async with open_parts(settings_of(tmp_path)) as parts:
        parts.store.append([imported(number) for number in range(2500)])
        pipeline = Pipeline(parts=parts)
        await pipeline.assemble(LATER)
        too_old = LATER + timedelta(days=365)
        assert await pipeline.prune(too_old) >= 5000
        assert 0 == await pipeline.prune(too_old)
        assert not any(turn.query for turn in parts.store.turns())
