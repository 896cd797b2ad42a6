"""Whether an endpoint is worth asking: after failures in a row nobody asks for a while, and then one call tries.

The circuit breaker of M. Nygard, Release It! (2018), section 5.2. Instants are seconds of any one monotonic clock.
"""

from __future__ import annotations

from datetime import timedelta

from monitor.errors import MonitorError, Unusable
from monitor.retry import backoff

_MOST_FAILURES = 5
_LONGEST_BREAK = timedelta(minutes=5)
# A person has to act first.
_LONGER_WHEN_UNUSABLE = 6


class Breaker:
    """Counts what an endpoint does; closed while `trouble` is None."""

    def __init__(self, *, first_break: float = 5.0) -> None:
        """Prepare; `first_break` is in seconds, each further one is twice as long, up to five minutes."""
        self._first_break = first_break
        self.trouble: str | None = None
        """What is wrong with the endpoint, free of user text and secrets; None when it can be asked."""
        self._failed = 0
        self._rejected = 0
        self._breaks = 0
        self._until = 0.0

    def rests(self, now: float) -> float:
        """Return for how many seconds nobody should ask; when they are over and there is trouble, one call may try."""
        return max(self._until - now, 0.0)

    def worked(self) -> None:
        """Take note of an answer about a turn, whatever it says."""
        self.trouble, self._until = None, 0.0
        self._failed = self._rejected = self._breaks = 0

    def failed(self, error: MonitorError, now: float) -> bool:
        """Take note of a call without an answer; return whether that is the endpoint's fault rather than the call's.

        It is when the endpoint says so (`Unusable`), and after five calls in a row.
        """
        self._failed += 1
        if isinstance(error, Unusable):
            self._open(str(error), now, first=self._first_break * _LONGER_WHEN_UNUSABLE)
        elif self._failed >= _MOST_FAILURES or self.trouble:
            self._open(str(error), now, first=self._first_break)
        return self.trouble is not None

    def rejected(self, error: MonitorError, now: float) -> bool:
        """Take note of a request that was refused for good; return whether everything is, since five in a row were."""
        self._failed = 0
        self._rejected += 1
        if self._rejected >= _MOST_FAILURES:
            self._open(str(error), now, first=self._first_break * _LONGER_WHEN_UNUSABLE)
        else:
            self.trouble = None
        return self.trouble is not None

    def _open(self, trouble: str, now: float, *, first: float) -> None:
        self.trouble = trouble
        # Calls sent side by side fail side by side; that is one failure, not many.
        if self.rests(now) == 0:
            self._breaks += 1
            rest = backoff(self._breaks, first=timedelta(seconds=first), longest=_LONGEST_BREAK)
            self._until = now + rest.total_seconds()
