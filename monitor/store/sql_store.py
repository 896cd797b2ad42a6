"""The store: every protocol of `monitor.stores`, over SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import URL

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
from monitor.model.names import NameLimits
from monitor.model.spans import Assembly, Fragment, StoredFragment
from monitor.model.stored import Assembled, Backlog, Extent, ReceivedTrace, TraceSize, Window
from monitor.model.trends import Alert, AlertState, Baseline, Notification, Rollup, Series, Undelivered
from monitor.model.turns import Turn
from monitor.store import alerts as alert_rows
from monitor.store import changed_windows, housekeeping, judged_turns, leases, migration, rollup, series, spans, turns
from monitor.store import jobs as job_rows
from monitor.store import notifications as notification_rows
from monitor.store import second_opinions as second_opinion_rows
from monitor.store import spend as spending
from monitor.store import under_way as under_way_rows
from monitor.store.database import MAX_CONNECTIONS, Database, Renewed
from monitor.store.kept_text import KeptText
from monitor.store.names import Names
from monitor.store.pseudonyms import key as key_of
from monitor.stores import UnderWayKind


def open_store(
    url: str | URL | Renewed,
    *,
    migrate: bool = True,
    window: timedelta = timedelta(hours=1),
    patience: timedelta = timedelta(seconds=10),
    max_connections: int = MAX_CONNECTIONS,
) -> SqlStore:
    """Return the store at a SQLAlchemy URL.

    Args:
        url: `sqlite:///path` or `postgresql+psycopg://user:password@host/database`; or one whose password may change.
        migrate: bring the schema up to date first, and rollups to windows of the given length.
        window: the length of the windows of trends.
        patience: how long to wait for another writer's lock, or for a free connection.
        max_connections: of this process to the database.

    Raises:
        ConfigError: the URL is wrong, or the database was made by a newer version of this program.
        StoreUnavailable: the database cannot be reached or written.
    """
    database = Database(url, patience=patience, max_connections=max_connections)
    if migrate:
        migration.make_current(database, window)
    return SqlStore(database, window=window)


class SqlStore:
    """One database. Each method is one transaction, and says in `monitor.stores` what it promises."""

    def __init__(self, database: Database, *, window: timedelta) -> None:
        self._database = database
        self._window = window
        self.names = Names(database)
        self.kept_text = KeptText(database, window=window)

    def append(self, fragments: Sequence[Fragment]) -> int:
        """As `SpanStore.append`."""
        with self._database.writing("storing fragments") as connection:
            return spans.append(connection, fragments)

    def begin(self, kind: UnderWayKind, subjects: Sequence[str], *, worker: str, alone: bool) -> None:
        """As `UnderWayStore.begin`."""
        with self._database.writing("noting what is under way") as connection:
            under_way_rows.begin(connection, kind, subjects, worker=worker, alone=alone)

    def deaths(self, kind: UnderWayKind, subjects: Sequence[str], *, worker: str) -> Mapping[str, int]:
        """As `UnderWayStore.deaths`."""
        with self._database.reading("looking for what was under way") as connection:
            return under_way_rows.deaths(connection, kind, subjects, worker=worker)

    def end(self, kind: UnderWayKind, subjects: Sequence[str]) -> None:
        """As `UnderWayStore.end`."""
        with self._database.writing("noting what has ended") as connection:
            under_way_rows.pause(connection, kind, subjects)

    def set_aside(self) -> tuple[str, ...]:
        """As `SpanStore.set_aside`."""
        with self._database.reading("looking for traces set aside") as connection:
            return under_way_rows.set_aside(connection, "trace")

    def due(
        self, *, quiet_since: datetime, open_since: datetime, limit: int, ahead: datetime | None = None
    ) -> tuple[str, ...]:
        """As `SpanStore.due`."""
        with self._database.reading("finding due traces") as connection:
            return spans.due(connection, quiet_since=quiet_since, open_since=open_since, limit=limit, ahead=ahead)

    def fragments(self, trace_ids: Sequence[str]) -> Mapping[str, tuple[StoredFragment, ...]]:
        """As `SpanStore.fragments`."""
        return spans.read(self._database, trace_ids)

    def sizes(self, trace_ids: Sequence[str]) -> Mapping[str, TraceSize]:
        """As `SpanStore.sizes`."""
        with self._database.reading("counting fragments") as connection:
            return spans.sizes(connection, trace_ids)

    def received(self, *, since: datetime | None, after: str, limit: int) -> tuple[ReceivedTrace, ...]:
        """As `SpanStore.received`."""
        with self._database.reading("looking for traces") as connection:
            return spans.received(connection, since=since, after=after, limit=limit)

    def failed_traces(self, *, rules: str, limit: int) -> tuple[str, ...]:
        """As `SpanStore.failed_traces`."""
        with self._database.reading("looking for traces that failed") as connection:
            return spans.failed_traces(connection, rules=rules, limit=limit)

    def reopen(self, trace_ids: Sequence[str], *, as_of: datetime) -> int:
        """As `SpanStore.reopen`."""
        with self._database.writing("reopening traces") as connection:
            return spans.reopen(connection, trace_ids, as_of=as_of)

    def replace_turns(self, assemblies: Sequence[Assembly], *, now: datetime, limits: NameLimits | None = None) -> None:
        """As `TurnStore.replace_turns`."""
        with self._database.writing("replacing turns") as connection:
            turns.replace(connection, assemblies, now=now, length=self._window, limits=limits)

    def turn(self, turn_id: str) -> Turn | None:
        """As `TurnStore.turn`."""
        with self._database.reading("reading a turn") as connection:
            return turns.turn(connection, turn_id)

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
        """As `TurnStore.turns`; read page by page, so a slow reader holds nothing open."""
        return turns.paged(
            self._database, app=app, since=since, until=until, defect_of=defect_of, session_id=session_id, limit=limit
        )

    def extents(
        self, app: str, *, since: datetime, until: datetime, ended_since: datetime, single_calls: bool
    ) -> tuple[Extent, ...]:
        """As `TurnStore.extents`."""
        with self._database.reading("reading when turns were") as connection:
            return turns.extents(
                connection, app, since=since, until=until, ended_since=ended_since, single_calls=single_calls
            )

    def assembled(self, *, since: datetime, limit: int) -> tuple[Assembled, ...]:
        """As `TurnStore.assembled`."""
        with self._database.reading("reading what was assembled") as connection:
            return turns.assembled(connection, since=since, limit=limit)

    def unsampled(self, limit: int) -> tuple[Turn, ...]:
        """As `TurnStore.unsampled`."""
        with self._database.reading("reading turns to sample") as connection:
            return turns.unsampled(connection, limit)

    def record_samplings(self, samplings: Sequence[Sampling]) -> None:
        """As `JobStore.record_samplings`; the first decision about a content stays."""
        with self._database.writing("recording samplings") as connection:
            job_rows.record(connection, samplings, length=self._window)

    def asked_already(self, jobs: Sequence[Job]) -> frozenset[Job]:
        """As `JobStore.asked_already`."""
        with self._database.reading("looking for jobs") as connection:
            return job_rows.asked_already(connection, jobs)

    def request(self, samplings: Sequence[Sampling]) -> int:
        """As `JobStore.request`."""
        with self._database.writing("requesting jobs") as connection:
            return job_rows.request(connection, samplings, length=self._window)

    def claim(
        self,
        *,
        now: datetime,
        lease: timedelta,
        limit: int,
        rubric_ids: Sequence[str] | None = None,
        call_of: Mapping[str, str] | None = None,
    ) -> tuple[Job, ...]:
        """As `JobStore.claim`."""
        with self._database.writing("claiming jobs") as connection:
            return job_rows.claim(connection, now=now, lease=lease, limit=limit, rubric_ids=rubric_ids, call_of=call_of)

    def reclaim(self, *, now: datetime, longest: timedelta) -> int:
        """As `JobStore.reclaim`."""
        with self._database.writing("reclaiming jobs") as connection:
            return job_rows.reclaim(connection, now=now, longest=longest)

    def finish(self, outcomes: Sequence[Outcome]) -> None:
        """As `JobStore.finish`; the first outcome stays, but a verdict takes the place of a failure."""
        with self._database.writing("finishing jobs") as connection:
            job_rows.finish(connection, outcomes, length=self._window)

    def release(self, jobs: Sequence[Job], *, not_before: datetime) -> None:
        """As `JobStore.release`; a job that was leased again meanwhile is left alone."""
        with self._database.writing("releasing jobs") as connection:
            job_rows.release(connection, jobs, not_before=not_before)

    def orphans(
        self, rubric_ids: Sequence[str], *, started_before: datetime, now: datetime, limit: int
    ) -> tuple[Job, ...]:
        """As `JobStore.orphans`."""
        with self._database.reading("finding orphaned jobs") as connection:
            return job_rows.orphans(connection, rubric_ids, started_before=started_before, now=now, limit=limit)

    def outcomes(self, turn_id: str) -> tuple[Outcome, ...]:
        """As `JobStore.outcomes`."""
        with self._database.reading("reading outcomes") as connection:
            return judged_turns.of_turn(connection, turn_id)

    def outcomes_of(self, turn_ids: Sequence[str]) -> Mapping[str, tuple[Outcome, ...]]:
        """As `JobStore.outcomes_of`."""
        with self._database.reading("reading outcomes of turns") as connection:
            return judged_turns.by_turn(connection, turn_ids)

    def sampling(self, turn_id: str) -> Sampling | None:
        """As `JobStore.sampling`."""
        with self._database.reading("reading a sampling") as connection:
            return judged_turns.sampling_of(connection, turn_id)

    def judging_inputs(self, jobs: Sequence[Job]) -> tuple[Mapping[str, Turn], Mapping[Job, Verdict]]:
        """As `JobStore.judging_inputs`."""
        with self._database.reading("reading turns to judge") as connection:
            by_id = turns.of_ids(connection, [job.turn_id for job in jobs])
            return by_id, judged_turns.verdicts_on_equal_content(connection, jobs)

    def record_spend(self, worker: str, *, day: datetime, spend: Spend) -> tuple[float, float]:
        """As `SpendStore.record_spend`."""
        with self._database.writing("recording what was spent") as connection:
            return spending.record(connection, worker, day=day, spend=spend)

    def spend(self, *, since: datetime, until: datetime) -> Spend:
        """As `SpendStore.spend`."""
        with self._database.reading("reading what was spent") as connection:
            return spending.between(connection, since, until)

    def meet(self, version: JudgeVersion, *, now: datetime) -> JudgeVersion | None:
        """As `SecondOpinionStore.meet`."""
        with self._database.writing("meeting a judge") as connection:
            return second_opinion_rows.meet(connection, version, now=now)

    def changes(self, *, since: datetime) -> tuple[JudgeChange, ...]:
        """As `SecondOpinionStore.changes`."""
        with self._database.reading("reading changes of the judge") as connection:
            return second_opinion_rows.changes(connection, since=since)

    def anchors(self, rubric_ids: Sequence[str], *, before: JudgeVersion, limit: int) -> tuple[Verdict, ...]:
        """As `SecondOpinionStore.anchors`."""
        with self._database.reading("choosing anchors") as connection:
            return second_opinion_rows.anchors(connection, rubric_ids, before=before, limit=limit)

    def record_second_opinions(self, opinions: Sequence[SecondOpinion]) -> None:
        """As `SecondOpinionStore.record_second_opinions`."""
        with self._database.writing("recording second opinions") as connection:
            second_opinion_rows.record(connection, opinions)

    def flagged(self, flag: str, *, limit: int) -> tuple[Verdict, ...]:
        """As `SecondOpinionStore.flagged`."""
        with self._database.reading("finding flagged verdicts") as connection:
            return second_opinion_rows.flagged(connection, flag, limit=limit)

    def second_opinions(self, *, since: datetime, kind: SecondOpinionKind | None = None) -> tuple[SecondOpinion, ...]:
        """As `SecondOpinionStore.second_opinions`."""
        with self._database.reading("reading second opinions") as connection:
            return second_opinion_rows.since(connection, since, kind=kind)

    def changed_windows(self, limit: int) -> tuple[Window, ...]:
        """As `SeriesStore.changed_windows`."""
        with self._database.reading("finding changed windows") as connection:
            return changed_windows.changed(connection, limit)

    def roll_up(self, windows: Sequence[Window], *, rubrics: Sequence[Rubric], length: timedelta) -> int:
        """As `SeriesStore.roll_up`; one transaction per window."""
        return rollup.roll_up(self._database, windows, rubrics=rubrics, length=length, kept=self._window)

    def rollups(
        self,
        *,
        app: str | None = None,
        metric: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> tuple[Rollup, ...]:
        """As `SeriesStore.rollups`; `since` inclusive, `until` exclusive, by the windows' starts."""
        with self._database.reading("reading rollups") as connection:
            return series.rolled_up(connection, app=app, metric=metric, since=since, until=until)

    def baselines(self) -> Mapping[Series, Baseline]:
        """As `SeriesStore.baselines`."""
        with self._database.reading("reading baselines") as connection:
            return series.pinned(connection)

    def pin(self, baseline: Baseline) -> None:
        """As `SeriesStore.pin`."""
        with self._database.writing("pinning a baseline") as connection:
            series.pin(connection, baseline)

    def alerts(self, *, states: Sequence[AlertState] | None = None, limit: int | None = None) -> tuple[Alert, ...]:
        """As `AlertStore.alerts`."""
        with self._database.reading("reading alerts") as connection:
            return alert_rows.newest(connection, states=states, limit=limit)

    def save_alerts(self, alerts: Sequence[Alert]) -> None:
        """As `AlertStore.save_alerts`."""
        with self._database.writing("saving alerts") as connection:
            alert_rows.save(connection, alerts)

    def move_alert(self, alert: Alert, *, before: AlertState, notifications: Sequence[Notification]) -> bool:
        """As `AlertStore.move_alert`."""
        with self._database.writing("moving an alert") as connection:
            return alert_rows.move(connection, alert, before=before, caused=notifications)

    def mark_annotated(self, alert: Alert) -> bool:
        """As `AlertStore.mark_annotated`."""
        with self._database.writing("marking an alert as annotated") as connection:
            return alert_rows.mark_annotated(connection, alert)

    def queue_notifications(self, notifications: Sequence[Notification]) -> None:
        """As `AlertStore.queue_notifications`."""
        with self._database.writing("queueing notifications") as connection:
            notification_rows.queue(connection, notifications)

    def firing_messages(self) -> frozenset[tuple[str, str]]:
        """As `AlertStore.firing_messages`."""
        with self._database.reading("reading firing messages") as connection:
            return notification_rows.firing_messages(connection)

    def notifications(self, *, since: datetime) -> tuple[Notification, ...]:
        """As `AlertStore.notifications`."""
        with self._database.reading("reading notifications") as connection:
            return notification_rows.unsent(connection, since=since)

    def undelivered(self, *, since: datetime) -> tuple[Undelivered, ...]:
        """As `AlertStore.undelivered`."""
        with self._database.reading("counting undelivered notifications") as connection:
            return notification_rows.undelivered(connection, since=since)

    def save_notification(self, notification: Notification) -> None:
        """As `AlertStore.save_notification`; what was sent stays sent."""
        with self._database.writing("saving a notification") as connection:
            notification_rows.save(connection, notification)

    def take_lease(self, name: str, holder: str, *, ttl: timedelta) -> bool:
        """As `LeaseStore.take_lease`."""
        with self._database.writing("holding a lease") as connection:
            return leases.take(connection, name, holder, ttl=ttl)

    def give_lease_back(self, name: str, holder: str) -> None:
        """As `LeaseStore.give_lease_back`."""
        with self._database.writing("giving a lease back") as connection:
            leases.give_back(connection, name, holder)

    def lease_left(self, name: str) -> timedelta | None:
        """As `LeaseStore.lease_left`."""
        with self._database.reading("looking at a lease") as connection:
            return leases.left(connection, name)

    def now(self) -> datetime:
        """As `Store.now`."""
        with self._database.following("reading the clock") as connection:
            return leases.now(connection)

    def key(self, name: str) -> bytes:
        """As `Store.key`."""
        with self._database.writing("reading a key") as connection:
            return key_of(connection, name)

    def backlog(self, *, rubric_ids: Sequence[str] | None = None) -> Backlog:
        """As `Store.backlog`."""
        with self._database.reading("counting the backlog") as connection:
            return housekeeping.backlog(connection, rubric_ids=rubric_ids)

    def check(self) -> None:
        """As `Store.check`."""
        migration.check(self._database)

    def close(self) -> None:
        """As `Store.close`."""
        self._database.close()
