"""For how many names of apps, environments and releases there is room."""

from __future__ import annotations

from pydantic import Field

from monitor.settings.section import Section


class NamePlaces(Section):
    """How many names that senders choose become trends.

    A turn with a further one stands under `other`, flagged `name_limit`. All processes of a store share its places.
    A name that has one keeps it; unseen, for as long as it was in use before, three days at least and thirty at most.
    """

    max_apps: int = Field(default=200, gt=0)
    """Of all senders. All apps together have places for three times as many environments, and ten times as many
    releases."""
    max_environments: int = Field(default=20, gt=0)
    """Of one app."""
    max_releases: int = Field(default=100, gt=0)
    """Of one app in one environment."""
