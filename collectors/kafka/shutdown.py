"""Being asked to end, from another thread, with a time by which it must be done."""

from __future__ import annotations

import threading
import time
from datetime import timedelta


class Shutdown:
    """Asked once; `over` when the grace period has passed since."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._deadline = float("inf")

    def ask(self, grace: timedelta) -> None:
        """Ask for the end within `grace`."""
        self._deadline = time.monotonic() + grace.total_seconds()
        self.asked.set()

    def over(self) -> bool:
        """Return whether what is still under way must be given up."""
        return time.monotonic() >= self._deadline
