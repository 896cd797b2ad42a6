"""One thread and its queue, between an app that must not wait and a monitor that may be away.

What the app's threads do here is to append under a lock that is never held while anything is encoded, sent or logged.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

# The SDK's own processors and every instrumentation use this private name: there is no public one.
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, detach, set_value

from monitor.errors import ConfigError, Permanent, Retryable
from monitor.exporter.encoding import Encoded
from monitor.exporter.fork import Forking, follow_forks
from monitor.exporter.notices import ExporterStats, Notices
from monitor.exporter.queue import Entry, Limits, Queue
from monitor.retry import backoff

T = TypeVar("T")

_ENCODED_AT_ONCE = 8
_BREATH = 0.0002
"""Seconds. Encoding is Python, which holds the interpreter for up to 5 ms at a time; giving it back after a few spans
keeps the app's threads from waiting for it."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=0.5), timedelta(seconds=30)
_START_AGAIN_AFTER = 1.0


class Sender(Forking, Protocol):
    """Where requests go. Called by one thread at a time."""

    place: str
    """For people, without secrets."""

    def send(self, body: bytes, *, timeout: float) -> int:
        """Return when the monitor has kept the OTLP request: how many of its records it left out.

        Raises:
            Retryable: nothing is known to be kept; the same request may be sent again.
            Permanent: the monitor will never take it.
            ConfigError: the place is not usable as it is.
        """

    def close(self) -> None:
        """Give connections back."""


class Outbox(Generic[T]):
    """Takes items at once and delivers them later, each once as far as the monitor says what it kept."""

    def __init__(
        self,
        sender: Sender,
        limits: Limits,
        *,
        encode: Callable[[Sequence[T]], Encoded],
        measure: Callable[[T], int],
        useful: Callable[[T], bool],
        notices: Notices,
    ) -> None:
        self._sender, self._limits, self._notices = sender, limits, notices
        self._encode, self._measure, self._useful = encode, measure, useful
        self._random = random.SystemRandom()
        self._closed = False
        self._begin()
        follow_forks(self)

    def _begin(self) -> None:
        # Reentrant: a finalizer that runs in the middle of an append may end a span.
        self._lock = threading.RLock()
        self._work, self._acknowledged = threading.Condition(self._lock), threading.Condition(self._lock)
        self._queue: Queue[T] = Queue(self._limits)
        self._delivered = self._ignored = self._repaired = 0
        self._worker: threading.Thread | None = None
        self._start_at = 0.0
        self._urgent = 0
        self._flushes = 0
        self._abandoned = False

    # The app's side

    def offer(self, items: Sequence[T]) -> bool:
        """Take the useful ones of the items and return at once; False when any of them had to be dropped."""
        try:
            return self._offer([(item, self._measure(item)) for item in items if self._useful(item)], len(items))
        except Exception:  # noqa: BLE001 -- an app must not fail because it is watched; it is counted
            with self._lock:
                self._queue.dropped["internal"] += len(items)
            return False

    def _offer(self, sized: Sequence[tuple[T, int]], offered: int) -> bool:
        with self._lock:
            self._ignored += offered - len(sized)
            if self._closed:
                self._queue.dropped["closed"] += len(sized)
                return not sized
            before = self._queue.fullness
            taken = [self._queue.take(item, size) for item, size in sized]
            if self._queue.fullness != before:
                self._work.notify()
            if self._worker is None and sized:
                self._start()
        return all(taken)

    def flush(self, timeout: float) -> bool:
        """Wait until all that was taken before is kept or lost; False when time ran out or something was lost."""
        deadline = time.monotonic() + timeout
        with self._lock:
            self._urgent = last = self._queue.last
            lost = self._queue.dropped.total()
            self._flushes += 1
            self._work.notify()
            while self._queue.oldest <= last:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._acknowledged.wait(left)
            return self._queue.dropped.total() == lost

    def close(self) -> None:
        """Try once more to deliver what waits, and stop; returns within the limit for shutting down."""
        deadline = time.monotonic() + self._limits.shutdown_timeout.total_seconds()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._work.notify()
            worker = self._worker
        if worker is not None:
            worker.join(max(deadline - time.monotonic(), 0))
        else:
            # While the interpreter shuts down no thread can be started any more.
            self._drain(deadline)
        with self._lock:
            self._abandoned = True
            self._queue.dropped["unsent"] += self._queue.clear()
            self._acknowledged.notify_all()
        self._notices.report_shutdown(self.stats())

    def stats(self) -> ExporterStats:
        """Return a snapshot."""
        with self._lock:
            return ExporterStats(
                delivered=self._delivered,
                dropped=dict(+self._queue.dropped),
                ignored=self._ignored,
                waiting=len(self._queue),
                repaired=self._repaired,
            )

    def _start(self) -> None:
        now = time.monotonic()
        if now < self._start_at:
            return
        self._start_at = now + _START_AGAIN_AFTER
        worker = threading.Thread(target=self._drain, args=(None,), name="rag-monitor-exporter", daemon=True)
        try:
            worker.start()
        except RuntimeError:
            # The process has no thread left, now or for good; `close` delivers without one.
            return
        self._worker = worker

    # The thread's side

    def _drain(self, deadline: float | None) -> None:
        """Deliver batch after batch until closed and empty, a last attempt failed, or `deadline`."""
        token = attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, value=True))
        has_time = True
        while has_time and (deadline is None or time.monotonic() < deadline) and (batch := self._next()):
            try:
                has_time = self._deliver(batch, deadline)
            except Exception as error:  # noqa: BLE001 -- nothing of ours may end the thread; it is counted
                # Without its text, which may quote a span.
                self._lose(self._queue.unacknowledged, "internal", type(error).__name__)
        self._sender.close()
        detach(token)

    def _next(self) -> Sequence[Entry[T]]:
        """Wait for a batch and return it; empty when closed and nothing is left."""
        with self._lock:
            while self._queue.fullness == "empty":
                if self._closed:
                    return ()
                self._work.wait()
            deadline = time.monotonic() + self._limits.linger.total_seconds()
            while self._queue.fullness == "some" and not self._closed and self._queue.oldest > self._urgent:
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self._work.wait(left)
            return self._queue.send_off()

    def _deliver(self, batch: Sequence[Entry[T]], deadline: float | None) -> bool:
        """Return when the batch is kept or lost; False when it was lost because there is no time left to try again."""
        body, count = self._encoded([entry.item for entry in batch])
        attempt = 1
        while count:
            with self._lock:
                closing, flushes = self._closed, self._flushes
            try:
                left_out = self._sender.send(body, timeout=self._timeout(deadline))
            except Permanent as error:
                self._lose(count, error.reason, str(error))
                self._pause(attempt, flushes=flushes)
                break
            except (Retryable, ConfigError) as error:
                if closing:
                    self._lose(count, "unsent", str(error))
                    return False
                self._notices.report_failure(str(error), self.stats())
                retry_after = error.retry_after if isinstance(error, Retryable) else None
                self._pause(attempt, retry_after, flushes=flushes)
                attempt += 1
            else:
                self._kept(count, left_out)
                break
        return True

    def _timeout(self, deadline: float | None) -> float:
        seconds = self._limits.timeout.total_seconds()
        return seconds if deadline is None else min(seconds, max(deadline - time.monotonic(), 0.001))

    def _encoded(self, items: Sequence[T]) -> tuple[bytes, int]:
        """Return one OTLP request, and how many of the items are in it."""
        parts: list[bytes] = []
        count = 0
        for first in range(0, len(items), _ENCODED_AT_ONCE):
            group = items[first : first + _ENCODED_AT_ONCE]
            whole = self._encoded_or_none(group)
            encoded = [self._encoded_or_none((item,)) for item in group] if whole is None else [whole]
            readable = [part for part in encoded if part is not None]
            lost = len(encoded) - len(readable)
            self._note_repairs(sum(part.repaired for part in readable))
            # Requests put one behind the other are one request: all their fields are repeated ones.
            parts += [part.body for part in readable]
            count += len(group) - lost
            if lost:
                self._lose(lost, "unencodable", "some cannot be encoded")
            time.sleep(_BREATH)
        return b"".join(parts), count

    def _note_repairs(self, count: int) -> None:
        if count:
            with self._lock:
                self._repaired += count
            self._notices.report_repairs(self.stats())

    def _encoded_or_none(self, items: Sequence[T]) -> Encoded | None:
        try:
            return self._encode(items)
        except Exception:  # noqa: BLE001 -- whatever an app puts into a span; its neighbours are not to suffer
            return None

    def _pause(self, attempt: int, retry_after: timedelta | None = None, *, flushes: int) -> None:
        """Wait before the next attempt; shorter when somebody flushes or closes."""
        pause = backoff(
            attempt, first=_SHORTEST_PAUSE, longest=_LONGEST_PAUSE, at_least=retry_after, random=self._random.random
        )
        deadline = time.monotonic() + pause.total_seconds()
        with self._lock:
            while not self._closed and flushes == self._flushes:
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                self._work.wait(left)

    def _lose(self, count: int, reason: str, message: str) -> None:
        with self._lock:
            if self._abandoned:
                return
            self._queue.dropped[reason] += count
            self._queue.acknowledge(count)
            self._acknowledged.notify_all()
        self._notices.report_failure(message, self.stats())

    def _kept(self, count: int, left_out: int) -> None:
        with self._lock:
            if self._abandoned:
                return
            self._delivered += count - left_out
            self._queue.dropped["rejected"] += left_out
            self._queue.acknowledge(count)
            self._acknowledged.notify_all()
        self._notices.report_delivery(self.stats())

    # Forks

    def before_fork(self) -> None:
        """As `Forking`."""
        self._sender.before_fork()

    def after_fork_in_parent(self) -> None:
        """As `Forking`."""
        self._sender.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        """As `Forking`; what waits is the parent's to deliver."""
        self._sender.after_fork_in_child()
        self._begin()
