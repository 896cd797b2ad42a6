"""How the monitor itself is: what waits, what is wrong, and the numbers it exports about both."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from monitor.access.refusals import Refusals
from monitor.display.undelivered import undelivered_line
from monitor.errors import StoreUnavailable
from monitor.model.stored import Backlog
from monitor.model.trends import Undelivered
from monitor.ports import Clock
from monitor.runtime.collector_metrics import Counting, exported, fields_of, gauges
from monitor.runtime.intake import Intake, IntakeStats
from monitor.runtime.isolation import PluginFailures, Reporting
from monitor.runtime.leadership import Leadership
from monitor.runtime.name_places import NamesLook
from monitor.runtime.overdue_text import OverdueText
from monitor.runtime.shared_clock import SharedClock
from monitor.settings.tree import AlertSettings
from monitor.stages.publish import GAUGES, quality_gauges
from monitor.stages.score import BUDGET_GAUGES, COUNTERS, Scorer
from monitor.stores import Store
from monitor.telemetry import Gauge, Telemetry

log = logging.getLogger(__name__)

_EVERY = 5.0
"""Seconds between looks at the backlog: a scrape must not cost queries."""
_DAY = timedelta(hours=24)


class Vitals(AbstractAsyncContextManager["Vitals"]):
    """Keeps the latest look at the store, and answers scrapes and readiness from it."""

    def __init__(self, store: Store, telemetry: Telemetry, *, clock: Clock) -> None:
        self._store = store
        self._telemetry = telemetry
        self._clock = clock
        self._backlog: Backlog | None = None
        self._trouble: dict[str, str] = {}
        self._sources: dict[str, Callable[[], Mapping[str, str]]] = {}
        self._collectors: dict[str, Counting] = {}
        self._collected: set[str] = set()
        self._channels: Sequence[str] = ()
        self._alert = AlertSettings()
        self._undelivered: Mapping[str, Undelivered] = {}
        self._unannotated_since: Sequence[datetime] = ()
        self._quality: Sequence[Gauge] = ()
        self._looks: list[Callable[[], None]] = []
        self._looking: asyncio.Task[None] | None = None
        telemetry.watch("waiting", self._waiting, description="Rows that wait for the next stage, by what they are")
        telemetry.watch("waiting_seconds", self._ages, description="Age of the oldest waiting row, by what it is")
        telemetry.watch("problem", self._problem_gauges, description="1 for everything that keeps us from our work")
        for name, description in GAUGES.items():
            telemetry.watch(name, self._quality_gauges, description=description)

    async def __aenter__(self) -> Self:
        """Look once, then every few seconds."""
        await self._look()
        self._looking = asyncio.create_task(self._keep_looking(), name="vitals")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop looking."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    def problems(self) -> Mapping[str, str]:
        """Return what is wrong now, part -> reason in words; empty when the monitor can do its work."""
        problems = dict(self._trouble)
        for name, health in self._sources.items():
            for problem, reason in health().items():
                problems[name if problem == name else f"{name}.{problem}"] = reason
        return {part: _in_words(reason) for part, reason in problems.items()}

    def watch_intake(self, intake: Intake) -> None:
        """Export the intake's numbers and count its problems."""
        self._sources["intake"] = intake.health
        intake.report(self._telemetry.committed)
        watch = self._telemetry.watch
        watch(
            "received",
            lambda: [
                Gauge(name="received", value=intake.stats().spans, labels={"signal": "traces"}),
                Gauge(name="received", value=intake.stats().log_records, labels={"signal": "logs"}),
                Gauge(name="received", value=intake.stats().turns, labels={"signal": "turns"}),
            ],
            description="Spans, log records and imported turns made durable, each delivery counted",
            counter=True,
        )
        watch(
            "intake_pending_bytes",
            lambda: [Gauge(name="intake_pending_bytes", value=intake.stats().pending_bytes)],
            description="Payload that waits for its commit",
        )
        watch(
            "intake_fragments",
            lambda: _fragments(intake.stats()),
            description="Fragments (one trace of one request) written: stored, or duplicate of one that was there",
            counter=True,
        )
        watch(
            "intake_refused",
            lambda: [Gauge(name="intake_refused", value=intake.stats().refused)],
            description="Batches refused because too much was waiting",
            counter=True,
        )
        watch(
            "intake_failed",
            lambda: [
                Gauge(name="intake_failed", value=count, labels={"reason": reason})
                for reason, count in intake.stats().failed_batches.items()
            ],
            description="Transactions that failed, by reason",
            counter=True,
        )

    def watch_web(self, refusals: Refusals) -> None:
        """Export how many clients of these pages were refused."""
        self._telemetry.watch(
            "web_clients_refused",
            lambda: [
                Gauge(name="web_clients_refused", value=count, labels={"reason": reason})
                for reason, count in refusals.counts().items()
            ],
            description="Clients of the pages not let in, or sent away, by reason",
            counter=True,
        )

    def watch_plugins(self, failures: PluginFailures) -> None:
        """Export how often plug-ins of other distributions failed."""
        description = "Times that a dialect, channel or collector of another distribution failed, by kind and name"
        self._telemetry.watch("plugin_failed", failures.counters, description=description, counter=True)

    def watch_channels(self, names: Sequence[str], settings: AlertSettings) -> None:
        """Export how many messages these channels have not taken, and count a channel that takes none as a problem."""
        self._channels, self._alert = names, settings
        self._sources["channel"] = self._silent_channels
        watch = self._telemetry.watch
        watch(
            "notifications_undelivered",
            self._undelivered_counts,
            description="Messages about alerts that a channel has not taken: waiting to be sent (again), or given up",
        )
        watch(
            "notifications_undelivered_seconds",
            lambda: [
                Gauge(
                    name="notifications_undelivered_seconds",
                    value=self._seconds_since(u.oldest_at) if (u := self._undelivered.get(name)) else 0.0,
                    labels={"channel": name},
                )
                for name in self._channels
            ],
            description="Time for which the oldest message that a channel has not taken is waiting",
        )

    def watch_publisher(self, publisher: Reporting) -> None:
        """Count what Grafana does not take as problems, and export how many alerts it does not carry."""
        self._sources["grafana"] = publisher.health
        watch = self._telemetry.watch
        watch(
            "annotations_missing",
            lambda: [Gauge(name="annotations_missing", value=len(self._unannotated_since))],
            description="Alerts whose present state Grafana carries no annotation of",
        )
        watch(
            "annotations_missing_seconds",
            lambda: [
                Gauge(
                    name="annotations_missing_seconds",
                    value=self._seconds_since(min(self._unannotated_since)) if self._unannotated_since else 0.0,
                )
            ],
            description="Time for which the oldest of them is missing",
        )

    def watch_collector(self, name: str, collector: Reporting) -> None:
        """Count the collector's problems, and export its numbers where it has any."""
        self._sources[name] = collector.health
        if isinstance(collector, Counting):
            self._collectors[name] = collector
            for metric in map(exported, fields_of(collector.stats())):
                if metric.name not in self._collected:
                    self._collected.add(metric.name)
                    self._telemetry.watch(
                        metric.name, self._counted, description=metric.description, counter=metric.counter
                    )

    def watch_scorer(self, scorer: Scorer, worker: asyncio.Future[None]) -> None:
        """Export the scorer's totals; count its judges' problems, and a worker that has ended by a fault as one."""
        for name, description in COUNTERS.items():
            self._telemetry.watch(name, scorer.counters, description=description, counter=True)
        for name, description in BUDGET_GAUGES.items():
            self._telemetry.watch(name, scorer.gauges, description=description)
        self._sources["score"] = lambda: {**scorer.health(), **_fault(worker)}
        worker.add_done_callback(_report_fault)

    def refresh_quality(self, *, lateness: timedelta, now: datetime) -> None:
        """Read trends and alerts anew for the next scrapes."""
        recent = self._store.rollups(since=now - lateness - _DAY - timedelta(hours=1))
        alerts = self._store.alerts()
        self._quality = quality_gauges(recent, alerts, lateness=lateness, now=now)
        self._unannotated_since = [since for alert in alerts if (since := alert.to_annotate_since)]

    def watch_clock(self, clock: SharedClock) -> None:
        """Keep it at the database's time."""
        self._looks.append(clock.look)

    def watch_leadership(self, leadership: Leadership, *, is_problem: bool) -> None:
        """Export for how long nobody has scheduled; with `is_problem` we cannot do our work then."""
        self._looks.append(leadership.look)
        description = "Time for which no process has assembled, rolled up, detected and alerted"
        self._telemetry.watch("unscheduled_seconds", leadership.gauges, description=description)
        if is_problem:
            self._sources["schedule"] = leadership.health

    def watch_retention(self, overdue: OverdueText) -> None:
        """Export by how much text is older than it is to be kept. No load balancer should turn away for it."""
        self._looks.append(overdue.look)
        description = "Time by which the oldest rows are older than `retention` keeps them, by its key"
        self._telemetry.watch("retention_overdue_seconds", overdue.gauges, description=description)

    def watch_names(self, names: NamesLook) -> None:
        """Export for how many names there is a place. Senders go on as ever, and no load balancer should turn away."""
        self._looks.append(names.look)
        watch = self._telemetry.watch
        watch("names", names.gauges, description="Names of apps, environments and releases that have a place, by kind")
        watch("names_refused", names.gauges, description="1 where a name had no place in the last day, by kind")

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            await self._look()

    async def _look(self) -> None:
        try:
            for look in self._looks:
                await asyncio.to_thread(look)
            self._backlog = await asyncio.to_thread(self._store.backlog)
            if self._channels:
                since = self._clock() - self._alert.retry_for
                undelivered = await asyncio.to_thread(self._store.undelivered, since=since)
                self._undelivered = {u.channel: u for u in undelivered if u.channel in self._channels}
        except StoreUnavailable as error:
            if self._trouble.get("store") != error.reason:
                log.warning("store: %s", _in_words(error.reason))
            self._trouble["store"] = error.reason
        else:
            self._trouble.pop("store", None)

    def _waiting(self) -> list[Gauge]:
        b = self._backlog
        if b is None:
            return []
        counts = {"fragments": b.fragments, "turns": b.turns, "jobs": b.jobs, "windows": b.windows}
        return [Gauge(name="waiting", value=n, labels={"what": what}) for what, n in counts.items()]

    def _ages(self) -> list[Gauge]:
        b = self._backlog
        if b is None:
            return []
        oldest = {"fragments": b.oldest_fragment_at, "jobs": b.oldest_job_at}
        return [
            Gauge(name="waiting_seconds", value=self._seconds_since(at) if at else 0.0, labels={"what": what})
            for what, at in oldest.items()
        ]

    def _undelivered_counts(self) -> list[Gauge]:
        gauges = []
        for name in self._channels:
            u = self._undelivered.get(name)
            for state, count in (("waiting", u.waiting if u else 0), ("given_up", u.given_up if u else 0)):
                labels = {"channel": name, "state": state}
                gauges.append(Gauge(name="notifications_undelivered", value=count, labels=labels))
        return gauges

    def _silent_channels(self) -> Mapping[str, str]:
        return {name: undelivered_line(u) for name, u in self._undelivered.items() if u.is_silent}

    def _seconds_since(self, at: datetime) -> float:
        return max(0.0, (self._clock() - at).total_seconds())

    def _counted(self) -> list[Gauge]:
        return [gauge for name, collector in self._collectors.items() for gauge in gauges(name, collector.stats())]

    def _problem_gauges(self) -> list[Gauge]:
        # The reason is for people and may hold times; as a label it would make a new series each time.
        return [Gauge(name="problem", value=1, labels={"part": part}) for part in self.problems()]

    def _quality_gauges(self) -> Sequence[Gauge]:
        return self._quality


def _fragments(stats: IntakeStats) -> list[Gauge]:
    counts = {"stored": stats.fragments - stats.duplicates, "duplicate": stats.duplicates}
    return [Gauge(name="intake_fragments", value=n, labels={"outcome": outcome}) for outcome, n in counts.items()]


def _in_words(reason: str) -> str:
    meaning = StoreUnavailable.MEANINGS.get(reason)
    return f"{reason}: {meaning}" if meaning else reason


def _fault(worker: asyncio.Future[None]) -> Mapping[str, str]:
    ended = worker.done() and not worker.cancelled() and worker.exception()
    return {"worker": "ended by a fault that the log names; start it again"} if ended else {}


def _report_fault(worker: asyncio.Future[None]) -> None:
    if not worker.cancelled() and (error := worker.exception()):
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        # The message of a foreign error may hold user text; its type and place do not.
        at = traceback.extract_tb(error.__traceback__)[-1]
        log.error("scoring ended: %s at %s:%s", type(error).__name__, at.filename, at.lineno)
