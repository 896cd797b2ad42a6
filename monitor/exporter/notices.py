"""What an exporter says in the app's log: one warning a minute at most, and one line when delivery works again."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

_MINUTE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterStats:
    """Counts since the exporter was made, or since its process was forked; each item counts in exactly one of them."""

    delivered: int
    """Kept by the monitor."""
    dropped: Mapping[str, int]
    """Lost, by reason: `full`, `too_large`, `unencodable`, `closed` (came after shutdown), `unsent` (still waiting at
    shutdown), `rejected` or another word for what the monitor refused, `internal`."""
    ignored: int
    """Of no use to the monitor: log records outside of any trace."""
    waiting: int
    """Not kept by the monitor yet, what is on its way included."""
    repaired: int = 0
    """Sent with something else in the place of what OTLP cannot hold: half of a surrogate pair is U+FFFD, an integer of
    more than 64 bits a number with a point. They count in one of the others too."""


class Notices:
    """Writes to `log`; never more than one warning a minute."""

    def __init__(self, log: logging.Logger, *, what: str, place: str) -> None:
        self._log, self._what, self._place = log, what, place
        self._warned_at = float("-inf")
        self._warned = False
        self._warned_drops = 0
        self._repairs_told_at = float("-inf")

    def report_failure(self, message: str, stats: ExporterStats) -> None:
        """Warn that nothing is delivered, unless there was a warning within the minute."""
        self._warn(f"the monitor at {self._place} does not accept {self._what}: {message}", stats)

    def report_delivery(self, stats: ExporterStats) -> None:
        """Say that delivery works again after a warning, and warn of what was dropped nevertheless."""
        if self._warned:
            self._warned = False
            self._log.info("the monitor at %s accepts %s again", self._place, self._what)
        if sum(stats.dropped.values()) > self._warned_drops:
            self._warn(f"some {self._what} do not reach the monitor at {self._place}", stats)

    def report_repairs(self, stats: ExporterStats) -> None:
        """Warn that values were replaced, unless that was said within the minute."""
        now = time.monotonic()
        if now - self._repairs_told_at >= _MINUTE:
            self._repairs_told_at = now
            self._log.warning(
                "%s of the %s so far had text, numbers or objects that OTLP cannot hold, such as half of a surrogate "
                "pair or an integer of more than 64 bits; they are sent with others in their place",
                stats.repaired,
                self._what,
            )

    def report_shutdown(self, stats: ExporterStats) -> None:
        """Warn, whenever the last warning was, if something was lost for good at shutdown."""
        if "unsent" in stats.dropped:
            self._warned_at = float("-inf")
            self._warn(f"shut down before the monitor at {self._place} accepted all {self._what}", stats)

    def _warn(self, message: str, stats: ExporterStats) -> None:
        self._warned = True
        now = time.monotonic()
        if now - self._warned_at < _MINUTE:
            return
        self._warned_at = now
        self._warned_drops = sum(stats.dropped.values())
        lost = ", ".join(f"{count} {reason}" for reason, count in sorted(stats.dropped.items()))
        self._log.warning("%s; %s waiting, dropped so far: %s", message, stats.waiting, lost or "none")
