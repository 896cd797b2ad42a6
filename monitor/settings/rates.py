"""Rates of sampling for some apps, environments and metrics."""

from __future__ import annotations

from fnmatch import fnmatchcase

from pydantic import Field

from monitor.settings.section import Section


class SampleRule(Section):
    """A rate of its own for what the names match; they may hold `*` and `?`, and one that is left out matches all."""

    app: str = "*"
    """Of `service.name`."""
    environment: str = "*"
    """Of `deployment.environment.name`."""
    metric: str = "*"
    """Of the metrics that are measured; a name that none has is refused."""
    rate: float = Field(ge=0, le=1)
    """Share of turns to judge; 0 for none."""

    def matches(self, app: str, environment: str, metric: str) -> bool:
        """Return whether the rule is about this metric on turns of this app and environment."""
        names = ((app, self.app), (environment, self.environment), (metric, self.metric))
        return all(fnmatchcase(name, pattern) for name, pattern in names)
