"""What a running collector says of itself: written by the thread that reads Kafka, read by any other."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from collectors.kafka.record import RecordContent
from monitor.errors import Permanent
from monitor.ports import Clock
from monitor.text.timestamps import rfc3339

_log = logging.getLogger(__name__)

_QUIET = timedelta(minutes=1)
"""Between two log lines about records that cannot be read."""
_STUCK = timedelta(minutes=1)
"""Nothing that the thread does takes longer; if it does, it hangs in the client library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaStats:
    """Counts since the collector was built, and its state now. Only what is durable is counted."""

    records: Mapping[str, int]
    """Records by outcome: `accepted`, `empty`, `tombstone`, or why nothing of it could be kept, a `Permanent.reason`
    or `internal`."""
    record_bytes: int
    """Bytes of their values."""
    rejected: Mapping[str, int]
    """Spans left out of accepted records, by reason."""
    ignored: Mapping[str, int]
    """What is accepted and not kept: `log_records` without a trace context."""
    dead_letters: Mapping[str, int]
    """Unreadable records by whether they were `copied` or `not_copied`; empty without a `dead_letter` topic."""
    refusals: int
    """Times that the sink could not take a batch, which then waited."""
    commits: Mapping[str, int]
    """Commits of offsets by outcome: `committed`, or the class of the error."""
    failures: Mapping[str, int]
    """Times the consumer was closed because of an error, by problem, as in `health`."""
    opened: int
    """Times a consumer was opened."""
    partitions: int
    """Assigned now."""
    lag: Mapping[str, int]
    """Records of the assigned partitions that are not durable yet, by topic, when last looked up; topics of which no
    partition is assigned are left out."""
    silent_for: timedelta
    """Since the cluster last answered, or since the collector was built."""


@dataclass(slots=True)
class _Counts:
    records: Counter[str] = field(default_factory=Counter)
    record_bytes: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    dead_letters: Counter[str] = field(default_factory=Counter)
    refusals: int = 0
    commits: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    opened: int = 0
    partitions: int = 0
    lag: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Told:
    """What is logged at most once a minute, with how much there was since."""

    count: int = 0
    logged_at: float = float("-inf")

    def adds(self, count: int, now: float) -> bool:
        """Add to what there was, and return whether to log it."""
        self.count += count
        is_due = now - self.logged_at >= _QUIET.total_seconds()
        if is_due:
            self.logged_at = now
        return is_due

    def taken(self) -> int:
        """Return what there was, and begin anew."""
        count, self.count = self.count, 0
        return count


class Status:
    """Counts, and the problems that exist now; each is logged when it begins and when it ends.

    Args:
        clock: for the times that people read.
        monotonic: seconds, for durations.
    """

    def __init__(self, clock: Clock, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._monotonic = clock, monotonic
        self._lock = threading.Lock()
        self._counts = _Counts()
        self._problems: dict[str, str] = {}
        self._answered, self._answered_at = monotonic(), clock()
        self._alive: float | None = None
        self._unreadable, self._rejected = _Told(), _Told()
        self._problems["broker"] = "not connected yet"

    def note_alive(self) -> None:
        """Note that the thread is in its own code; it must say so more often than once a minute."""
        self._alive = self._monotonic()

    def note_end(self) -> None:
        """Note that the thread has ended as it should."""
        self._alive = None

    def note_answer(self) -> None:
        """Note that the cluster answered."""
        self._answered, self._answered_at = self._monotonic(), self._clock()
        self.clear("broker")

    def note_silence(self, servers: str, why: str = "") -> timedelta:
        """Note that `servers` did not answer; return for how long now."""
        since = rfc3339(self._answered_at.replace(microsecond=0))
        self.report("broker", f"no answer from {servers} since {since}{': ' if why else ''}{why}")
        return self._silent_for()

    def note_recovery(self) -> None:
        """Note that a consumer has worked for a while: what closed the one before it is solved."""
        for problem in ("access", "codec", "records", "client"):
            self.clear(problem)

    def report(self, problem: str, reason: str) -> None:
        """Have `health` name the problem until `clear`; logged if the reason is a new one."""
        with self._lock:
            news = self._problems.get(problem) != reason
            self._problems[problem] = reason
        if news:
            _log.warning("kafka: %s: %s", problem, reason)

    def clear(self, problem: str) -> None:
        """End `problem`, if it exists."""
        with self._lock:
            reason = self._problems.pop(problem, None)
        if reason is not None:
            _log.info("kafka: %s: solved", problem)

    def count_opening(self) -> None:
        """Count a consumer that was opened."""
        with self._lock:
            self._counts.opened += 1

    def count_failure(self, problem: str) -> None:
        """Count a consumer closed because of an error."""
        with self._lock:
            self._counts.failures[problem] += 1
            self._counts.partitions = 0

    def set_partitions(self, partitions: int) -> None:
        """Note how many partitions are ours."""
        with self._lock:
            self._counts.partitions = partitions

    def set_lag(self, lag: Mapping[str, int]) -> None:
        """Note the lag by topic."""
        with self._lock:
            self._counts.lag = dict(lag)

    def count_record(self, content: RecordContent, where: str, *, size: int) -> None:
        """Count a record that is durable, or of which there is nothing to keep; spans left out are logged as below."""
        with self._lock:
            counts = self._counts
            counts.records[content.outcome] += 1
            counts.record_bytes += size
            counts.rejected.update(content.rejected)
            if content.ignored:
                counts.ignored["log_records"] += content.ignored
            if not content.rejected or not self._rejected.adds(sum(content.rejected.values()), self._monotonic()):
                return
            count = self._rejected.taken()
        reasons = ", ".join(sorted(content.rejected))
        place = f": {content.complaint}" if content.complaint else ""
        _log.warning("kafka: %d spans or log records left out, the last at %s: %s%s", count, where, reasons, place)

    def count_unreadable(self, error: Permanent, where: str, *, size: int) -> None:
        """Count a record of which nothing could be kept, and log it unless that was done within a minute."""
        with self._lock:
            self._counts.records[error.reason] += 1
            self._counts.record_bytes += size
            if not self._unreadable.adds(1, self._monotonic()):
                return
            count = self._unreadable.taken()
        _log.warning("kafka: %d unreadable records skipped, the last at %s: %s (%s)", count, where, error, error.reason)

    def count_dead_letter(self, *, done: bool) -> None:
        """Count a record that was copied to the dead letters, or could not be."""
        with self._lock:
            self._counts.dead_letters["copied" if done else "not_copied"] += 1

    def count_refusal(self) -> None:
        """Count a batch that the sink could not take."""
        with self._lock:
            self._counts.refusals += 1

    def count_commit(self) -> None:
        """Count a commit."""
        with self._lock:
            self._counts.commits["committed"] += 1
        self.clear("commit")

    def count_failed_commit(self, error: Exception) -> None:
        """Count a commit that failed."""
        reason = type(error).__name__
        with self._lock:
            self._counts.commits[reason] += 1
        self.report("commit", f"offsets cannot be committed: {reason}")

    def health(self) -> Mapping[str, str]:
        """Return the problems that exist now, with their reasons."""
        with self._lock:
            problems = dict(self._problems)
        alive = self._alive
        if alive is not None and self._monotonic() - alive > _STUCK.total_seconds():
            problems["client"] = (
                f"the Kafka client library has not returned for {_STUCK.total_seconds():g} s; restart the monitor"
            )
        return problems

    def stats(self) -> KafkaStats:
        """Return a snapshot."""
        with self._lock:
            counts = self._counts
            return KafkaStats(
                records=dict(counts.records),
                record_bytes=counts.record_bytes,
                rejected=dict(counts.rejected),
                ignored=dict(counts.ignored),
                dead_letters=dict(counts.dead_letters),
                refusals=counts.refusals,
                commits=dict(counts.commits),
                failures=dict(counts.failures),
                opened=counts.opened,
                partitions=counts.partitions,
                lag=dict(counts.lag),
                silent_for=self._silent_for(),
            )

    def _silent_for(self) -> timedelta:
        return timedelta(seconds=self._monotonic() - self._answered)


def position_text(topic: str, partition: int, offset: int) -> str:
    """Return where a record lies, for a log line."""
    return f"{topic}, partition {partition}, offset {offset}"
