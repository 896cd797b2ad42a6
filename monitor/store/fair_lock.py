"""A lock that is handed on in order of arrival, so that a busy stage cannot starve intake."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta


class FairLock:
    """Lets one thread through at a time, first come first served; `threading.Lock` promises no order."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._queue: deque[threading.Lock] = deque()
        self._locked = False

    @contextmanager
    def holding(self, patience: timedelta) -> Iterator[bool]:
        """Enter, and leave at the end; yields False, not entered, when `patience` ran out first."""
        entered = self._enter(patience.total_seconds())
        try:
            yield entered
        finally:
            if entered:
                self._leave()

    def _enter(self, seconds: float) -> bool:
        with self._mutex:
            if not self._locked:
                self._locked = True
                return True
            turn = threading.Lock()
            turn.acquire()
            self._queue.append(turn)
        if turn.acquire(timeout=seconds):
            return True
        with self._mutex:
            if turn in self._queue:
                self._queue.remove(turn)
                return False
            # The holder left between the timeout and here, and has already handed on.
            return True

    def _leave(self) -> None:
        with self._mutex:
            if self._queue:
                self._queue.popleft().release()
            else:
                self._locked = False
