"""What the stages ask of the store, as the sum of small protocols; a stage names only the ones it uses.

The store is synchronous and may be called from any thread; its methods raise `StoreUnavailable` when the database
cannot serve them, and then have changed nothing. Every write may be repeated: the second time it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, Protocol, TypeAlias

from monitor.model.judgements import (
    Job,
    JudgeChange,
    JudgeVersion,
    Outcome,
    Rubric,
    Sampling,
    SecondOpinion,
    SecondOpinionKind,
    Spend,
    Verdict,
)
from monitor.model.names import NameLimits, NamesInUse
from monitor.model.spans import Assembly, Fragment, StoredFragment
from monitor.model.stored import Assembled, Backlog, Erased, Extent, OldestText, ReceivedTrace, TraceSize, Window
from monitor.model.trends import Alert, AlertState, Baseline, Notification, Rollup, Series, Undelivered
from monitor.model.turns import Turn

UnderWayKind: TypeAlias = Literal["trace", "turn", "job"]
DEATHS = 2
"""Processes that may die while something is being read alone before it is set aside."""


class UnderWayStore(Protocol):
    """What is being read; of a trace or turn it is over when what came of it is stored, of a job with `end`."""

    def begin(self, kind: UnderWayKind, subjects: Sequence[str], *, worker: str, alone: bool) -> None:
        """Write that `worker`, one run of a process, reads these next, and nothing else if `alone`."""

    def deaths(self, kind: UnderWayKind, subjects: Sequence[str], *, worker: str) -> Mapping[str, int]:
        """Return those that other workers began and never finished, and how many died while they read it alone."""

    def end(self, kind: UnderWayKind, subjects: Sequence[str]) -> None:
        """Write that nobody reads these now; how many processes died while they did counts on."""


class SpanStore(Protocol):
    """What was received, as received."""

    def append(self, fragments: Sequence[Fragment]) -> int:
        """Make all fragments durable in one transaction; return how many were new."""

    def due(
        self, *, quiet_since: datetime, open_since: datetime, limit: int, ahead: datetime | None = None
    ) -> tuple[str, ...]:
        """Return traces to assemble, longest waiting first.

        A trace is due when it has fragments not yet assembled, and either its newest fragment arrived before
        `quiet_since` or its oldest not yet assembled one before `open_since`. Arrivals at `ahead` or
        later were dated by a clock that was ahead, and count as long past; None for none.
        """

    def fragments(self, trace_ids: Sequence[str]) -> Mapping[str, tuple[StoredFragment, ...]]:
        """Return all fragments of each trace, in order of arrival, assembled or not."""

    def sizes(self, trace_ids: Sequence[str]) -> Mapping[str, TraceSize]:
        """Return how much is stored of each trace, without reading it."""

    def received(self, *, since: datetime | None, after: str, limit: int) -> tuple[ReceivedTrace, ...]:
        """Return traces of which a fragment arrived at `since` or later, by id, the first of them behind `after`."""

    def failed_traces(self, *, rules: str, limit: int) -> tuple[str, ...]:
        """Return traces whose reading ended in a fault under other rules than these, and that wait for nothing."""

    def set_aside(self) -> tuple[str, ...]:
        """Return the traces that ended processes so often that they are not read, by id, until they are reopened."""

    def reopen(self, trace_ids: Sequence[str], *, as_of: datetime) -> int:
        """Have traces assembled again, as if all they have had arrived at `as_of`; return how many will be.

        Traces of which fragments were pruned are left as they are.
        """


class TurnStore(Protocol):
    """Turns, and the text that belongs to them."""

    def replace_turns(self, assemblies: Sequence[Assembly], *, now: datetime, limits: NameLimits | None = None) -> None:
        """Make each trace's turns exactly the given ones, in one transaction, under names for which `limits` has room.

        Its fragments up to `through` count as assembled from then on. Traces that wait for one of these, to which they
        link, are reopened if there is more of it than they have seen.
        A turn with an unchanged content hash keeps its sampling, jobs and outcomes; a changed one loses them and is
        sampled anew; one that is gone is deleted with them. All windows touched are marked for rollup.
        """

    def turn(self, turn_id: str) -> Turn | None:
        """Return the turn with its text, or None."""

    def turns(
        self,
        *,
        app: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        defect_of: Sequence[str] | None = None,
        session_id: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Turn]:
        """Yield turns by start time, oldest first; `since` inclusive, `until` exclusive.

        With `session_id` only those of this session, as the app sent its id, also when that is no longer kept.
        With `defect_of` only those that a verdict of one of these metrics calls a defect, () for whichever metric.
        """

    def extents(
        self, app: str, *, since: datetime, until: datetime, ended_since: datetime, single_calls: bool
    ) -> tuple[Extent, ...]:
        """Return the app's turns that began within [since, until) and ended at `ended_since` or later.

        With `single_calls` only those that are a single model call. Their text is not read, so there may be many.
        """

    def assembled(self, *, since: datetime, limit: int) -> tuple[Assembled, ...]:
        """Return the traces that were assembled at `since` or later, the latest first."""

    def unsampled(self, limit: int) -> tuple[Turn, ...]:
        """Return turns about which no sampling decision was recorded, oldest first."""


class JobStore(Protocol):
    """What is to be judged, and what came of it."""

    def record_samplings(self, samplings: Sequence[Sampling]) -> None:
        """Record decisions, their jobs and unmet needs in one transaction; those about replaced content are dropped."""

    def claim(
        self,
        *,
        now: datetime,
        lease: timedelta,
        limit: int,
        rubric_ids: Sequence[str] | None = None,
        call_of: Mapping[str, str] | None = None,
    ) -> tuple[Job, ...]:
        """Lease jobs that are due and not leased, oldest first, and count the attempt; none is leased twice at once.

        With `rubric_ids` only jobs of these: metrics computed in code never wait behind those that ask a slow judge.
        With `call_of` (rubric id -> call) only jobs of these rubrics, those of one turn and call to one claimer, and
        `limit` counts calls.
        """

    def reclaim(self, *, now: datetime, longest: timedelta) -> int:
        """Make jobs due that would only be so in more than `longest`, by a clock that was ahead; return how many."""

    def finish(self, outcomes: Sequence[Outcome]) -> None:
        """Replace each job by its outcome in one transaction; an outcome about replaced content is dropped."""

    def release(self, jobs: Sequence[Job], *, not_before: datetime) -> None:
        """Give leased jobs back, to be claimed at `not_before` or later; their `failures` are kept with them."""

    def orphans(
        self, rubric_ids: Sequence[str], *, started_before: datetime, now: datetime, limit: int
    ) -> tuple[Job, ...]:
        """Return jobs that are due and of none of these rubrics, on turns begun before an instant; none is leased."""

    def outcomes(self, turn_id: str) -> tuple[Outcome, ...]:
        """Return verdicts and failures of one turn, by metric."""

    def asked_already(self, jobs: Sequence[Job]) -> frozenset[Job]:
        """Return those of the jobs that wait already, or have an outcome other than that nobody could be asked."""

    def request(self, samplings: Sequence[Sampling]) -> int:
        """Add the jobs and unmet needs of these to turns that are decided about, in one transaction.

        A job takes the place of an outcome that says that nobody could be asked: expired, budget, unavailable. Those
        about replaced content, and those that are `asked_already`, are dropped. Return how many jobs are new.
        """

    def outcomes_of(self, turn_ids: Sequence[str]) -> Mapping[str, tuple[Outcome, ...]]:
        """Return verdicts and failures by turn, without what was asked and said; turns with none are left out."""

    def sampling(self, turn_id: str) -> Sampling | None:
        """Return the decision about a turn with the jobs still open; None when none was recorded."""

    def judging_inputs(self, jobs: Sequence[Job]) -> tuple[Mapping[str, Turn], Mapping[Job, Verdict]]:
        """Return the jobs' turns by id, with their text; and for a job the latest verdict that would do for it.

        That is one by its rubric on a turn of equal content, as long as its text is kept.
        """


class SpendStore(Protocol):
    """What judges cost."""

    def record_spend(self, worker: str, *, day: datetime, spend: Spend) -> tuple[float, float]:
        """Set what `worker` has spent on the UTC day that begins at `day`.

        Returns:
            US dollars that all workers spent on that day, and in its month up to that day.
        """

    def spend(self, *, since: datetime, until: datetime) -> Spend:
        """Return what all workers spent on the UTC days from `since`, inclusive, to `until`, exclusive."""


class SecondOpinionStore(Protocol):
    """Second opinions, and which versions of a judge answered."""

    def meet(self, version: JudgeVersion, *, now: datetime) -> JudgeVersion | None:
        """Record that this version of a judge answers; the first time it does, return the one met last before it.

        None when it was met before, by whatever process, or when no other was. So what is news is news once, and an
        endpoint that alternates between two machines is none.
        """

    def changes(self, *, since: datetime) -> tuple[JudgeChange, ...]:
        """Return versions first met at a moment or later that took the place of another one, oldest first."""

    def anchors(self, rubric_ids: Sequence[str], *, before: JudgeVersion, limit: int) -> tuple[Verdict, ...]:
        """Return the latest verdicts by these rubrics that the version gave and whose text is kept, newest first."""

    def record_second_opinions(self, opinions: Sequence[SecondOpinion]) -> None:
        """Write second opinions; one of the same kind and version on the same verdict is kept once."""

    def flagged(self, flag: str, *, limit: int) -> tuple[Verdict, ...]:
        """Return the latest verdicts that carry a flag, newest first."""

    def second_opinions(self, *, since: datetime, kind: SecondOpinionKind | None = None) -> tuple[SecondOpinion, ...]:
        """Return second opinions from a moment on, oldest first; their jobs without content hash and probability.

        `kind` None is all of them; repeats are many.
        """


class SeriesStore(Protocol):
    """Windows."""

    def changed_windows(self, limit: int) -> tuple[Window, ...]:
        """Return windows whose turns or outcomes changed since they were last rolled up, oldest first."""

    def roll_up(self, windows: Sequence[Window], *, rubrics: Sequence[Rubric], length: timedelta) -> int:
        """Recompute these windows of all series from turns and outcomes; return the number of rows written.

        The mark of a window that changed meanwhile stays.
        """

    def rollups(
        self,
        *,
        app: str | None = None,
        metric: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> tuple[Rollup, ...]:
        """Return rows by series, start, release."""

    def baselines(self) -> Mapping[Series, Baseline]:
        """Return the pinned baselines."""

    def pin(self, baseline: Baseline) -> None:
        """Set the baseline of its series."""


class AlertStore(Protocol):
    """Alerts and who was told."""

    def alerts(self, *, states: Sequence[AlertState] | None = None, limit: int | None = None) -> tuple[Alert, ...]:
        """Return alerts, newest first."""

    def save_alerts(self, alerts: Sequence[Alert]) -> None:
        """Write new alerts as they are, and of those on record the regression, as far as it is not over there.

        Whoever writes may have read them a while ago: state, its times and a recovery on record stay.
        """

    def move_alert(self, alert: Alert, *, before: AlertState, notifications: Sequence[Notification]) -> bool:
        """Write an alert's state with its times, and the notifications it causes, in one transaction.

        Returns:
            False when its state on record is not `before`, since another process moved it; then nothing is written.
            A notification that is known is left as it is.
        """

    def mark_annotated(self, alert: Alert) -> bool:
        """Note that Grafana carries the alert in this state; return False when it has moved on, and note nothing."""

    def queue_notifications(self, notifications: Sequence[Notification]) -> None:
        """Write notifications of alerts on record; a known one is left as it is."""

    def firing_messages(self) -> frozenset[tuple[str, str]]:
        """Return alert id and channel of each firing message, sent or not, of alerts that are firing."""

    def notifications(self, *, since: datetime) -> tuple[Notification, ...]:
        """Return those not sent that people still want, oldest first: those given up, too.

        Nobody wants a message given up about an alert that was resolved before `since`, nor the firing message of
        one whose resolved message was sent.
        """

    def undelivered(self, *, since: datetime) -> tuple[Undelivered, ...]:
        """Return what `notifications` are of each channel that has any, by its name."""

    def save_notification(self, notification: Notification) -> None:
        """Record an attempt or a success."""


class LeaseStore(Protocol):
    """Keeps several processes from doing the same work; an optimisation, never a correctness condition."""

    def take_lease(self, name: str, holder: str, *, ttl: timedelta) -> bool:
        """Take or extend the lease by the database's clock; return whether `holder` has it now."""

    def give_lease_back(self, name: str, holder: str) -> None:
        """End the lease now, unless somebody else has it."""

    def lease_left(self, name: str) -> timedelta | None:
        """Return how long the lease lasts yet, negative when it is over; None when nobody ever took it."""


class TextStore(Protocol):
    """What users wrote, and how long it is kept."""

    def prune(self, *, text_before: datetime, fragments_before: datetime, limit: int) -> int:
        """Delete user text of turns started before and assembled fragments received before; return rows touched.

        Up to `limit` of each kind. When nothing is left, SQLite's log is emptied of what was deleted, as far as no
        reader keeps it there.
        """

    def oldest(self) -> OldestText:
        """Return since when text is kept."""

    def traces_of(self, *, session_id: str | None, user_id: str | None) -> frozenset[str]:
        """Return traces with a turn of a session or of a user, by the ids that the app sent."""

    def traces_with(self, what: bytes) -> Iterator[str]:
        """Yield traces with these bytes in a fragment; all that is stored is looked into, so it may take minutes."""

    def erase(self, trace_ids: Sequence[str]) -> Erased:
        """Remove the text of traces and whose it was, and refuse what arrives of them as long as text is kept.

        Their turns and scores stay in all counts; a job that waits ends as expired. A trace of which nothing is stored
        is refused likewise.
        """

    def rewrite(self) -> bool:
        """Write the tables of text anew, so that no byte of what was deleted is left in the database's files.

        Writers wait meanwhile, and what is stored needs its room twice. Return False, and do nothing, where the
        database lets only another role do that.
        """


class NameStore(Protocol):
    """The names of apps, environments and releases."""

    def in_use(self, *, now: datetime) -> tuple[NamesInUse, ...]:
        """Return how many names of each kind have a place."""


class Store(
    UnderWayStore,
    SpanStore,
    TurnStore,
    JobStore,
    SpendStore,
    SecondOpinionStore,
    SeriesStore,
    AlertStore,
    LeaseStore,
    Protocol,
):
    """One database."""

    @property
    def kept_text(self) -> TextStore:
        """What users wrote."""

    @property
    def names(self) -> NameStore:
        """The names of apps, environments and releases."""

    def now(self) -> datetime:
        """Return what time it is by the clock that all processes of this database share."""

    def key(self, name: str) -> bytes:
        """Return 32 random bytes that belong to this store for good, made when they are first asked for."""

    def backlog(self, *, rubric_ids: Sequence[str] | None = None) -> Backlog:
        """Return what waits between the stages; with `rubric_ids`, only jobs of these are counted."""

    def check(self) -> None:
        """Raise `StoreUnavailable` unless the database answers and its schema is the one this version expects."""

    def close(self) -> None:
        """Release connections."""
