"""What the log says of an endpoint that cannot be asked: once of each that lasts, once when it is over."""

from __future__ import annotations

import logging

_APART = 60.0
"""Seconds between two warnings: an endpoint that comes and goes must not fill the log."""

logger = logging.getLogger(__name__)


class Outage:
    """It hears of every failure and says what is news. Instants are seconds of any one monotonic clock."""

    def __init__(self, where: str) -> None:
        """Prepare; `where` names the endpoint by its key path, such as `judge.fallback`."""
        self._where = where
        self._warned_at: float | None = None
        self._since: float | None = None
        self._is_told = False

    def goes_on(self, trouble: str, rests: float, now: float) -> None:
        """Warn of `trouble`, free of user text and secrets, with the seconds until somebody asks again."""
        if self._since is None:
            self._since, self._is_told = now, False
        if self._is_told or (self._warned_at is not None and now - self._warned_at < _APART):
            return
        self._warned_at, self._is_told = now, True
        logger.warning("%s: %s; turns wait, asked again in %.0f s", self._where, trouble, rests)

    def over(self, now: float) -> None:
        """Say that the endpoint answers again, if it was said that it does not."""
        if self._since is not None and self._is_told:
            logger.warning("%s: answers again, after %.0f s", self._where, now - self._since)
        self._since = None
