"""One process of all that may schedule does: who has the lease. And whether anybody does, which every process sees."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from datetime import timedelta

from monitor.ports import Clock
from monitor.stores import LeaseStore
from monitor.telemetry import Gauge

log = logging.getLogger(__name__)

_LEASE = "schedule"
_TTL = timedelta(seconds=10)
"""How long a killed scheduler keeps the others waiting; every tick extends it, the quickest each second."""
_GRACE = timedelta(seconds=30)
"""How long nobody may schedule before it is a problem: longer than a restart takes."""


class Leadership:
    """The lease of schedulers, as one process sees it; may be called from any thread."""

    def __init__(self, store: LeaseStore, holder: str, *, clock: Clock) -> None:
        """Prepare; `holder` names this run of a process, and no other in the world."""
        self._store = store
        self._holder = holder
        self._clock = clock
        self._leads = False
        self._began = time.monotonic()
        self._nobody_for = timedelta(0)

    def lead(self) -> bool:
        """Take or extend the lease, and return whether this process has it.

        Raises:
            StoreUnavailable: the database cannot serve us.
        """
        leads = self._store.take_lease(_LEASE, self._holder, ttl=_TTL)
        if leads != self._leads:
            log.info("scheduler lease %s", "gained" if leads else "lost")
            self._leads = leads
        return leads

    def give_back(self) -> None:
        """Let the next scheduler begin at once.

        Raises:
            StoreUnavailable: the database cannot serve us.
        """
        if self._leads:
            self._store.give_lease_back(_LEASE, self._holder)
            self._leads = False

    def look(self) -> None:
        """See whether anybody schedules.

        Raises:
            StoreUnavailable: the database cannot serve us.
        """
        left = self._store.lease_left(_LEASE)
        if left is not None and timedelta(0) < left <= _TTL:
            self._nobody_for = timedelta(0)
            return
        watched = timedelta(seconds=time.monotonic() - self._began)
        # A lease that ends later than any is given for is one that a clock left which was ahead.
        over = -left if left is not None and left <= timedelta(0) else watched
        if over >= _GRACE > self._nobody_for:
            log.warning("nobody schedules: traces are not assembled, and no alert is sent")
        self._nobody_for = over

    def health(self) -> Mapping[str, str]:
        """Return the problem that nobody schedules; empty when somebody does, or will soon."""
        if self._nobody_for < _GRACE:
            return {}
        since = self._clock() - self._nobody_for
        return {"lease": f"nobody schedules since {since:%Y-%m-%d %H:%M} UTC: a process with the role is missing"}

    def gauges(self) -> tuple[Gauge, ...]:
        """Return for how long nobody has scheduled, as of the last look."""
        return (Gauge(name="unscheduled_seconds", value=self._nobody_for.total_seconds()),)
