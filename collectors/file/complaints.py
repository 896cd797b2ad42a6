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
        self._logged = 0
        self._left_out = 0

    def log(self, complaints: Sequence[str], *, at: float) -> None:
        """Log what is allowed now; `at` is in seconds, on a clock that only goes forward."""
        self.close_minute(at=at)
        left = max(_MOST - self._logged, 0)
        for complaint in complaints[:left]:
            self._log.warning("%s", complaint)
        self._logged += len(complaints)
        self._left_out += len(complaints[left:])

    def close_minute(self, *, at: float) -> None:
        """Log how many were not named, once their minute is over."""
        if at - self._began < _MINUTE:
            return
        if self._left_out:
            self._log.warning("%s more problems with files in the last minute", self._left_out)
        self._began, self._logged, self._left_out = at, 0, 0
