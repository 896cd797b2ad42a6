"""The end of a process, within a time: everybody hears of it at once, and has most of that time to finish."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta

from monitor.ports import GoOn

_FOR_WORK = 0.7
"""Share of the time in which work under way may still be finished; in the rest what is not is given back."""
_TICK = timedelta(seconds=10)
"""How long one tick begins new pieces of its work; what is left waits for the next one."""


class Stopping:
    """Whether the process is to end, for tasks and threads."""

    def __init__(self, within: timedelta) -> None:
        """Prepare; `within` is the time for all of it."""
        self.event = asyncio.Event()
        self._for_work = within * _FOR_WORK
        self._flag = threading.Event()
        self._began: float | None = None

    def begin(self) -> None:
        """Tell everybody; to be called in the loop."""
        self._began = time.monotonic()
        self._flag.set()
        self.event.set()

    def left(self) -> timedelta:
        """Return how long work under way may go on, never less than nothing; all of the time for it before `begin`."""
        if self._began is None:
            return self._for_work
        return max(self._for_work - timedelta(seconds=time.monotonic() - self._began), timedelta(0))

    def tick_limit(self) -> GoOn:
        """Return what tells a tick that begins now whether to go on."""
        until = time.monotonic() + _TICK.total_seconds()
        return lambda: not self._flag.is_set() and time.monotonic() < until
