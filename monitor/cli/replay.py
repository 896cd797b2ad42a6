"""Recorded telemetry through the whole pipeline, with event time as the clock: `rag-monitor replay`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from monitor.recordings.whole import files, portions
from monitor.runtime.build import Parts
from monitor.runtime.drive import Driven, drive, settled
from monitor.runtime.intake import Intake

_STILL_COMPLAINED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a replay read and made."""

    records: int
    """Spans, log records and imported turns made durable, each delivery counted."""
    bad: Mapping[str, int]
    """Records left out, by reason."""
    complaints: tuple[str, ...]
    """Where and why, the first of them."""
    driven: Driven | None
    """None when there was nothing to drive."""


async def replay(
    path: Path, parts: Parts, *, app: str, now: datetime, progress: Callable[[int, int], None] = lambda _done, _of: None
) -> Replayed:
    """Read `path` into the store and drive every stage to completion.

    Args:
        path: a folder of recorded request bodies or of JSONL files, or one such file.
        parts: what to work with.
        app: the app's name for imported turns that carry none.
        now: the time of records that carry none.
        progress: called with bytes read and bytes in all.

    Raises:
        ConfigError: there is nothing to read at `path`.
        StoreUnavailable: the database cannot be written.
    """
    total = sum(source.stat().st_size for source in files(path))
    done = records = 0
    latest: datetime | None = None
    bad: Counter[str] = Counter()
    complaints: list[str] = []
    async with Intake(parts.store, parts.settings.intake) as intake:
        for portion in portions(path, app=app, started_at=now):
            if portion.fragments:
                await intake.put(portion.fragments)
            records += sum(fragment.count for fragment in portion.fragments)
            bad.update(portion.bad)
            complaints += portion.complaints[: _STILL_COMPLAINED - len(complaints)]
            if portion.latest is not None:
                latest = max(latest, portion.latest) if latest else portion.latest
            done += portion.size
            progress(done, total)
    driven = await drive(parts, now=settled(latest, parts)) if latest else None
    return Replayed(records=records, bad=dict(bad), complaints=tuple(complaints), driven=driven)
