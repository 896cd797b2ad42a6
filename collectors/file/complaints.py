"""Log lines about bad records: a few a minute by name, the others as a number."""

from __future__ import annotations

import logging
from collections.abc import Sequence

_MOST = 10
_MINUTE = 60.0


class Complaints:
    """Writes warnings, none of which holds anything of what a file says."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._began = float("-inf")
        self._told = 0
        self._untold = 0

    def tell(self, complaints: Sequence[str], *, at: float) -> None:
        """Log what is allowed now; `at` is in seconds, on a clock that only goes forward."""
        self.tick(at=at)
        left = max(_MOST - self._told, 0)
        for complaint in complaints[:left]:
            self._log.warning("%s", complaint)
        self._told += len(complaints)
        self._untold += len(complaints[left:])

    def tick(self, *, at: float) -> None:
        """Log how many were not named, once their minute is over."""
        if at - self._began < _MINUTE:
            return
        if self._untold:
            self._log.warning("%s more complaints about files in the last minute", self._untold)
        self._began, self._told, self._untold = at, 0, 0
