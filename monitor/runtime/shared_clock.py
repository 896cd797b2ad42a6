"""The time of all processes that share a database: its clock, read every few seconds, and steady in between.

What a process writes down for others, such as when a job may be tried again, is compared with their time. With the
clock of each host, a host a day ahead would keep work from the others for a day.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta

log = logging.getLogger(__name__)

_JUMP = timedelta(minutes=1)
"""More than any clock drifts between two looks."""


class SharedClock:
    """Tells the database's time; a `Clock` that may be read from any thread."""

    def __init__(self, read: Callable[[], datetime], *, seconds: Callable[[], float] = time.monotonic) -> None:
        """Look at once.

        Args:
            read: what the database says.
            seconds: any steady clock.

        Raises:
            StoreUnavailable: the database cannot serve us.
        """
        self._read = read
        self._seconds = seconds
        self._at = self._look()

    def __call__(self) -> datetime:
        """Return the instant."""
        at, then = self._at
        return at + timedelta(seconds=self._seconds() - then)

    def look(self) -> None:
        """Go on from what the database says now; say so when that is not what was expected.

        Raises:
            StoreUnavailable: the database cannot serve us; time goes on steadily until it can.
        """
        looked = self._look()
        expected = self()
        self._at = looked
        if abs(jump := looked[0] - expected) >= _JUMP:
            log.warning("the clock was set %s by %s", "back" if jump < timedelta(0) else "ahead", abs(jump))

    def _look(self) -> tuple[datetime, float]:
        # By the end of the call it is that late at least, and between two calls time never goes back.
        return self._read(), self._seconds()
