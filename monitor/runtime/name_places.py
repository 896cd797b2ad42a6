"""Whether the names that arrive have a place: `monitor.store.names` gives them, here somebody is told."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from monitor.model.names import ENVIRONMENTS_PER_APP, RELEASES_PER_APP, NameKind, NamesInUse
from monitor.ports import Clock
from monitor.settings.name_places import NamePlaces
from monitor.stores import NameStore
from monitor.telemetry import Gauge

log = logging.getLogger(__name__)


class NamesLook:
    """How many names have a place, and whether some had none lately; as of the last look, from any thread."""

    def __init__(self, store: NameStore, places: NamePlaces, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        apps = places.max_apps
        self._most: dict[NameKind, str] = {
            "app": f"assemble.names.max_apps is {apps}",
            "environment": f"assemble.names.max_environments is {places.max_environments} an app, and all apps "
            f"together have {ENVIRONMENTS_PER_APP * apps}",
            "release": f"assemble.names.max_releases is {places.max_releases} an app and environment, and all together "
            f"have {RELEASES_PER_APP * apps}",
        }
        self._uses: Sequence[NamesInUse] = ()

    def look(self) -> None:
        """Count the names, and say once when some have no place, and once when that is over.

        Raises:
            StoreUnavailable: the database cannot serve us.
        """
        uses = self._store.in_use(now=self._clock())
        before = {use.kind for use in self._uses if use.refused_at}
        for use in uses:
            if use.refused_at and use.kind not in before:
                log.warning("names: turns of new %ss stand under 'other': %s", use.kind, self._most[use.kind])
            elif use.kind in before and not use.refused_at:
                log.info("names: for a day there was a place for every %s", use.kind)
        self._uses = uses

    def gauges(self) -> list[Gauge]:
        """Return how many names of each kind have a place, and 1 where one had none in the last day, else 0."""
        counts = [Gauge(name="names", value=use.count, labels={"kind": use.kind}) for use in self._uses]
        return counts + [
            Gauge(name="names_refused", value=float(use.refused_at is not None), labels={"kind": use.kind})
            for use in self._uses
        ]
