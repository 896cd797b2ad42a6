"""A lock that is handed on in order of arrival, so that a busy stage cannot starve intake."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta


class Turnstile:
    """Lets one thread through at a time, first come first served; `threading.Lock` promises no order."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._gates: deque[threading.Lock] = deque()
        self._held = False

    @property
    def waiting(self) -> int:
        """Threads that queue right now."""
        return len(self._gates)

    @contextmanager
    def passing(self, patience: timedelta) -> Iterator[bool]:
        """Enter, and leave at the end; yields False, not entered, when `patience` ran out first."""
        entered = self._enter(patience.total_seconds())
        try:
            yield entered
        finally:
            if entered:
                self._leave()

    def _enter(self, seconds: float) -> bool:
        with self._mutex:
            if not self._held:
                self._held = True
                return True
            gate = threading.Lock()
            gate.acquire()
            self._gates.append(gate)
        if gate.acquire(timeout=seconds):
            return True
        with self._mutex:
            if gate in self._gates:
                self._gates.remove(gate)
                return False
            # The holder left between the timeout and here, and has already handed on.
            return True

    def _leave(self) -> None:
        with self._mutex:
            if self._gates:
                self._gates.popleft().release()
            else:
                self._held = False
