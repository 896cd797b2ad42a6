"""By how much text is older than it is to be kept: whether retention keeps pace with what arrives."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from monitor.ports import Clock
from monitor.settings.tree import RetentionSettings
from monitor.stores import TextStore
from monitor.telemetry import Gauge

log = logging.getLogger(__name__)

_TICKS = 10
"""How many ticks of retention text may be overdue before somebody should look."""
_PATIENCE = 2
"""How many ticks that may go on: a turn that arrives dated years ago is overdue until the next one."""


class OverdueText:
    """How much longer than allowed text is kept, as of the last look; may be called from any thread."""

    def __init__(self, store: TextStore, settings: RetentionSettings, *, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._overdue = {"spans": timedelta(0), "text": timedelta(0)}
        self._late_since: datetime | None = None
        self._behind = False

    def look(self) -> None:
        """See how old the oldest text is, and say once when deleting it falls behind, and once when it is over.

        Raises:
            StoreUnavailable: the database cannot serve us.
        """
        oldest, kept, now = self._store.oldest(), self._settings, self._clock()
        since = {"spans": (oldest.fragment_at, kept.spans), "text": (oldest.turn_at, kept.text)}
        self._overdue = {
            what: max(timedelta(0), now - at - allowed) if at else timedelta(0) for what, (at, allowed) in since.items()
        }
        what, longest = max(self._overdue.items(), key=lambda item: item[1])
        late = longest > _TICKS * kept.every
        self._late_since = (self._late_since or now) if late else None
        behind = self._late_since is not None and now - self._late_since >= _PATIENCE * kept.every
        if behind and not self._behind:
            minutes = longest // timedelta(minutes=1)
            log.warning("retention is behind: rows are %d minutes older than retention.%s keeps them", minutes, what)
        elif self._behind and not behind:
            log.info("retention keeps pace again")
        self._behind = behind

    def gauges(self) -> list[Gauge]:
        """Return by how many seconds the oldest row is overdue, by the setting that says how long it is kept."""
        return [
            Gauge(name="retention_overdue_seconds", value=overdue.total_seconds(), labels={"what": what})
            for what, overdue in self._overdue.items()
        ]
