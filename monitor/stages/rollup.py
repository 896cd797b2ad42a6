"""Verdicts become windows: every window whose turns or outcomes changed is recomputed, never incremented."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.model import Rubric
from monitor.settings import RollupSettings
from monitor.stores import SeriesStore

_BATCH = 24
"""Windows asked for at a time: a day of one app."""


def tick(store: SeriesStore, settings: RollupSettings, *, rubrics: Sequence[Rubric]) -> int:
    """Recompute all changed windows, oldest first, and return the number of rows written.

    Doing it again writes nothing. A window that changes meanwhile waits for the next tick, so senders that never pause
    cannot keep this one from returning.
    """
    written = 0
    done: set[tuple[str, str, object]] = set()
    while True:
        changed = store.changed_windows(_BATCH)
        fresh = [w for w in changed if (w.app, w.environment, w.start) not in done]
        if not fresh:
            return written
        written += store.roll_up(fresh, rubrics=rubrics, length=settings.window)
        done |= {(w.app, w.environment, w.start) for w in fresh}
