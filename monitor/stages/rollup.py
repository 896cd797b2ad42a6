"""Verdicts become windows: every window whose turns or outcomes changed is recomputed, never incremented."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

from monitor.model.judgements import Rubric
from monitor.model.stored import Window
from monitor.ports import GoOn, to_the_end
from monitor.settings.tree import RollupSettings
from monitor.stores import SeriesStore

_BATCH = 24
"""Windows asked for at a time: a day of one app."""
_REST = 9
"""Times as long as it took: recomputing one window takes a tenth of the time at most."""

_Key: TypeAlias = tuple[str, str, datetime]


class Pace:
    """When a window may be recomputed again: one of a million turns takes a minute, and changes all the time.

    It rests no longer than a third of `lateness`, so that it is up to date when it counts as closed.
    """

    def __init__(self, lateness: timedelta, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._longest = lateness.total_seconds() / 3
        self._rests: dict[_Key, float] = {}

    def due(self, window: Window) -> bool:
        """Return whether the window has rested."""
        return self._rests.get(_key(window), 0.0) <= self.clock()

    def rolled_up(self, window: Window, *, took: float) -> None:
        """Let the window rest after work of `took` seconds."""
        now = self.clock()
        self._rests = {key: until for key, until in self._rests.items() if until > now}
        self._rests[_key(window)] = now + min(_REST * took, self._longest)


def tick(
    store: SeriesStore,
    settings: RollupSettings,
    *,
    rubrics: Sequence[Rubric],
    pace: Pace | None = None,
    go_on: GoOn = to_the_end,
) -> int:
    """Recompute all changed windows that have rested, oldest first, and return the number of rows written.

    `go_on` is asked after each window; those that are left keep their marks.

    Doing it again writes nothing. A window that changes meanwhile waits for the next tick, so senders that never pause
    cannot keep this one from returning.
    """
    written = 0
    done: set[_Key] = set()
    while True:
        changed = store.changed_windows(_BATCH + len(done))
        fresh = [window for window in changed if _key(window) not in done]
        if not fresh:
            return written
        for window in fresh if pace is None else filter(pace.due, fresh):
            began = time.monotonic() if pace is None else pace.clock()
            written += store.roll_up([window], rubrics=rubrics, length=settings.window)
            if pace is not None:
                pace.rolled_up(window, took=pace.clock() - began)
            if not go_on():
                return written
        done |= {_key(window) for window in fresh}


def _key(window: Window) -> _Key:
    return window.app, window.environment, window.start
