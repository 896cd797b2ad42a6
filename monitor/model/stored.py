"""What the store tells about its rows: how much waits, how large traces are, which windows changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window whose numbers changed since it was last rolled up; `mark` tells a later change from this one."""

    app: str
    environment: str
    start: datetime
    mark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """How much waits between the stages."""

    fragments: int
    """Stored and not yet assembled."""
    turns: int
    """Assembled and not yet sampled."""
    jobs: int
    windows: int
    oldest_fragment_at: datetime | None
    oldest_job_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSize:
    """How much of a trace is stored."""

    through: int
    """Its highest position."""
    records: int
    """Spans and log records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedTrace:
    """A trace of which fragments are stored."""

    trace_id: str
    apps: frozenset[str]
    """Of its turns; empty when it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """What became of a trace when it was last assembled."""

    trace_id: str
    assembled_at: datetime
    turns: int
    unread: Mapping[str, int]
    """Spans and log records that belong to no turn, by reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """When a stored turn began and ended, and whether it is a single model call; of those also what was answered."""

    trace_id: str
    started_at: datetime
    ended_at: datetime
    single_call: bool
    response: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OldestText:
    """Since when text is kept; None where nothing is."""

    fragment_at: datetime | None
    """When the first stored fragment was received; None, too, while it waits to be assembled."""
    turn_at: datetime | None
    """When the first turn began whose text, or what a judge was asked about it, is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What erasing traces removed."""

    traces: int = 0
    fragments: int = 0
    """As they were received."""
    turns: int = 0
    """Whose text it was."""
    exchanges: int = 0
    """Prompts and replies of judges."""
    jobs: int = 0
    """That waited for a judge."""

    def __add__(self, other: Erased) -> Erased:
        """Return both together."""
        return Erased(
            traces=self.traces + other.traces,
            fragments=self.fragments + other.fragments,
            turns=self.turns + other.turns,
            exchanges=self.exchanges + other.exchanges,
            jobs=self.jobs + other.jobs,
        )
