"""What senders call their apps, environments and releases, and for how many names there is room."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

NameKind: TypeAlias = Literal["app", "environment", "release"]

OTHER = "other"
"""What stands for a name for which there is no room."""
NAME_LIMIT = "name_limit"
"""Flag of a turn that stands under another name than it was sent with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameLimits:
    """How many names one store has room for."""

    apps: int
    environments: int
    """Of one app; all apps together have room for `ENVIRONMENTS_PER_APP` times as many as there may be apps."""
    releases: int
    """Of one app in one environment; all together likewise, `RELEASES_PER_APP` times."""


ENVIRONMENTS_PER_APP = 3
RELEASES_PER_APP = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesInUse:
    """The names of one kind that a store has given a place."""

    kind: NameKind
    count: int
    refused_at: datetime | None
    """When a name last stood as `other` for want of a place, to the hour; None when none did for long."""
