"""The time of all processes that share a database: its clock, read every few seconds, and steady in between.

What a process writes down for others, such as when a job may be tried again, is compared with their time. With the
clock of each host, a host a day ahead would keep work from the others for a day.

A clock that is set far off while we run is not followed until it has stayed so for a while: what is older than the
settings keep would be deleted, jobs would expire and incidents end, and a clock that is set right again undoes none.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

log = logging.getLogger(__name__)

_JUMP = timedelta(minutes=1)
"""More than any clock drifts between two looks."""
_DOUBT = timedelta(minutes=10)
"""How long a clock that was set must have stayed so before it is followed."""


def steady_seconds() -> float:
    """Return the seconds of a clock that nobody sets; where the system can tell, it runs while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class _Doubted:
    """How far a clock was set, and when that was seen."""

    jump: timedelta
    since: float


class SharedClock:
    """Tells the database's time; a `Clock` that may be read from any thread."""

    def __init__(self, read: Callable[[], datetime], *, seconds: Callable[[], float] = steady_seconds) -> None:
        """Look at once.

        Args:
            read: what the database says.
            seconds: any steady clock.

        Raises:
            StoreUnavailable: the database cannot serve us.
        """
        self._read = read
        self._seconds = seconds
        self._at = (read(), seconds())
        self._doubted: _Doubted | None = None

    def __call__(self) -> datetime:
        """Return the instant."""
        at, then = self._at
        return at + timedelta(seconds=self._seconds() - then)

    def look(self) -> None:
        """Go on from what the database says now; if it is far from what was expected, only once it stays so.

        Raises:
            StoreUnavailable: the database cannot serve us; time goes on steadily until it can.
        """
        read, seconds = self._read(), self._seconds()
        jump, doubted = read - self(), self._doubted
        if abs(jump) < _JUMP:
            if doubted:
                log.warning("the clock is right again")
            self._at, self._doubted = (read, seconds), None
        elif doubted is None or abs(jump - doubted.jump) >= _JUMP:
            self._doubted = _Doubted(jump, seconds)
            log.warning(
                "the clock was set %s: time goes on without that until it stays so for %s", _words(jump), _DOUBT
            )
        elif seconds - doubted.since >= _DOUBT.total_seconds():
            self._at, self._doubted = (read, seconds), None
            log.warning("the clock stays %s: it is followed from now on", _words(jump))


def _words(jump: timedelta) -> str:
    minutes = round(abs(jump) / timedelta(minutes=1))
    return f"{timedelta(minutes=minutes)} {'back' if jump < timedelta(0) else 'ahead'}"
