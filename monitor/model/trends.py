"""The nouns of trends: series, windows and alerts. Frozen slotted values, no I/O; none of them holds user text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum

NEVER = datetime.max.replace(tzinfo=UTC)
"""`not_before` of a notification that was given up."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Series:
    """What is charted and alerted on; a changed prompt or judge is another `rubric_id` and so another series."""

    app: str
    environment: str
    slice: str
    """"" for the whole app, else `facet=value`."""
    metric: str
    rubric_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Additive statistics of one window; merging is `+` of every field.

    w is the weight 1/probability, x is 1 for a defect else 0, f the proxy score; `s` is the score on the metric's
    scale.
    """

    turns: int = 0
    """All turns of the window, judged or not."""
    sampled: int = 0
    """Turns for which this metric was sampled (scored + failed + pending)."""
    pending: int = 0
    not_asked: int = 0
    """Turns that were decided about when this metric was not measured."""
    n: int = 0
    """Scored turns."""
    k: int = 0
    """Defects among them."""
    sw: float = 0.0
    sw2: float = 0.0
    swx: float = 0.0
    sw2x: float = 0.0
    sws: float = 0.0
    sws2: float = 0.0
    proxied: int = 0
    """All turns that have a proxy score."""
    f: float = 0.0
    f2: float = 0.0
    swf: float = 0.0
    """The proxy-times-judge sums run over scored turns that have a proxy score."""
    swf2: float = 0.0
    swxf: float = 0.0
    sw2f: float = 0.0
    sw2f2: float = 0.0
    sw2xf: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: Sums) -> Sums:
        """Return the sums of both windows together."""
        return Sums(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Sums)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollup:
    """One window of one series and release; recomputed from its turns and verdicts, never incremented."""

    series: Series
    release: str
    start: datetime
    """Inclusive; the window is half-open."""
    length: timedelta
    sums: Sums
    unscored: Mapping[str, int] = field(default_factory=dict)
    """Turns by `Reason`."""
    histogram: Mapping[str, int] = field(default_factory=dict)
    """Scored turns by score, rounded down to the metric's step: the keys are decimal text."""
    weighted_histogram: Mapping[str, float] = field(default_factory=dict)

    @property
    def end(self) -> datetime:
        """Exclusive."""
        return self.start + self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The windows of a series that say what is normal for it."""

    series: Series
    start: datetime
    end: datetime
    pinned_by: str
    """`first_windows`, `release <name>`, or who pinned it by hand."""


class AlertState(StrEnum):
    """The states of an alert, in order."""

    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """One incident of one series, as of one closed window. Rates are shares in [0, 1]."""

    series: Series
    rule: str
    """`continuous` or `release`."""
    began_at: datetime
    """Event time: estimated onset, the start of the window in which the evidence began to grow."""
    detected_at: datetime
    """Event time: when the deciding window was closed, its end plus the allowed lateness."""
    recovered_at: datetime | None
    """Event time, likewise for the recovery; None while the regression goes on."""
    rate: float
    """Defect rate since `began_at`."""
    rate_lower: float
    rate_upper: float
    baseline_rate: float
    null_rate: float
    """The rate up to which nothing is called a regression."""
    evidence_log10: float
    """Evidence of the regression when it was detected, as a power of ten: 3 means 1,000."""
    threshold_log10: float
    """Evidence that an alert needed, likewise."""
    release: str = ""
    """The release that most of the turns since `began_at` ran on."""
    promise: str = ""
    """The false-alarm promise in one sentence, for people."""
    judge_change: str = ""
    """That the judge became another about then, and what is known of the difference, for people; "" when it did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A regression as people are notified of it: one incident of one series and rule."""

    alert_id: str
    """Names the incident."""
    fingerprint: str
    """Names the series and rule: the same for every incident of both."""
    state: AlertState
    regression: Regression
    pending_at: datetime
    """Processing time at which the alert was created; likewise the next two for the later states."""
    firing_at: datetime | None = None
    """None before that, and for an alert that recovered before it could fire."""
    resolved_at: datetime | None = None
    annotated: bool = False
    """Whether Grafana carries its annotation in the current state."""

    @property
    def to_annotate_since(self) -> datetime | None:
        """Since when Grafana is to carry its present state and does not; None when it does, or never is to."""
        if self.annotated or self.firing_at is None:
            return None
        return self.resolved_at or self.firing_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One transition of one alert, sent or to be sent to one channel."""

    alert_id: str
    channel: str
    """The channel's name in the settings."""
    transition: AlertState
    waiting_since: datetime
    """Since when it is to be sent; once it was tried, since when it is tried under the channel's present settings."""
    attempt: int = 0
    sent_at: datetime | None = None
    not_before: datetime | None = None
    """When to try again; None for at once, `NEVER` once it is given up."""
    failure: str = ""
    """Why the last attempt failed, free of user text and secrets; "" before the first."""
    channel_digest: str = ""
    """Stands for the channel's settings at the last attempt; "" before the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """Messages that one channel has not taken."""

    channel: str
    waiting: int
    """Still to be sent, whether they were tried or not."""
    given_up: int
    """Tried for as long as the settings say."""
    oldest_at: datetime
    """Since when the oldest of all is waiting."""
    failure: str
    """Why the oldest that was tried failed; "" when none was."""
    is_silent: bool
    """Whether a message failed and the channel has taken none since it began to wait: not that message is the trouble,
    but the channel."""
