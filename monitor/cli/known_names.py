"""Names that nothing stored has: a verb that would print nothing says so, and which names there are."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.errors import Rejected
from monitor.settings.nearest import suggestion
from monitor.stores import Store


def check_names(store: Store, *, app: str | None, metrics: Sequence[str]) -> None:
    """Refuse the name of an app or metric that no stored turn has; None and () are taken as they are.

    Raises:
        Rejected: there is none; the message says which there are.
    """
    # An app of which nothing was rolled up yet is known by its turns.
    if app is not None and next(iter(store.turns(app=app, limit=1)), None) is None:
        apps = sorted({row.series.app for row in store.rollups()})
        if app not in apps:
            raise Rejected(f"no turn of app {app!r} is stored{suggestion(app, apps)}", reason="no_such_app")
    if metrics:
        measured = sorted({row.series.metric for row in store.rollups()})
        if unknown := [name for name in metrics if name not in measured]:
            raise Rejected(
                f"no stored turn was measured by {unknown[0]!r}{suggestion(unknown[0], measured)}",
                reason="no_such_metric",
            )
