"""A shutdown that another thread requests, with a time by which it must be done."""

from __future__ import annotations

import threading
import time
from datetime import timedelta


class Shutdown:
    """Requested once; `over` when the grace period has passed since."""

    def __init__(self) -> None:
        self.requested = threading.Event()
        self._deadline = float("inf")

    def request(self, grace: timedelta) -> None:
        """Request the end within `grace`."""
        self._deadline = time.monotonic() + grace.total_seconds()
        self.requested.set()

    def over(self) -> bool:
        """Return whether what is still under way must be given up."""
        return time.monotonic() >= self._deadline
