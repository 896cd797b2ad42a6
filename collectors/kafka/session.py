"""One consumer's life: poll, make durable, commit, see whether the cluster is there.

Nothing is committed that is not durable, and nothing is skipped: what the sink cannot take waits, with all partitions
paused, while polling keeps our place in the group.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime, timedelta

from collectors.kafka.client import Connection
from collectors.kafka.client_types import Record, TopicPartition, errors
from collectors.kafka.dead_letters import DeadLetters, Unreadable
from collectors.kafka.failures import ReopenError
from collectors.kafka.liveness import PATIENCE, Liveness
from collectors.kafka.offsets import Offsets, Rebalances
from collectors.kafka.record import RecordContent, content_of
from collectors.kafka.settings import Config
from collectors.kafka.shutdown import Shutdown
from collectors.kafka.start import start_offset
from collectors.kafka.status import Status, position_text
from monitor.errors import MalformedPayload, Permanent, Retryable
from monitor.model.spans import Fragment
from monitor.ports import Clock
from monitor.retry import backoff

_log = logging.getLogger(__name__)

_POLL, _PAUSED_POLL = timedelta(milliseconds=250), timedelta(milliseconds=100)
_UNPOLLED, _PAUSED_POLL_EVERY = timedelta(seconds=1), timedelta(milliseconds=200)
"""A batch that is not durable after this long has us poll beside it, this often, so that no rebalance is held up."""
_REBALANCE_AT_MOST = timedelta(seconds=10)
"""Or three sessions. Our members hold none up for so long; if others do, joining once more does no harm."""
_COMMIT_EVERY, _COMMIT_AGAIN = timedelta(seconds=1), timedelta(seconds=2)
_SHORTEST_RETRY, _LONGEST_RETRY = timedelta(seconds=1), timedelta(seconds=10)

Put = Callable[[Sequence[Fragment]], "Future[None]"]


class Session:
    """Reads `topics` through one consumer until the shutdown is requested, or something raises.

    What the group has never read is read from `since` on; from the beginning if that is None.
    """

    def __init__(
        self,
        connection: Connection,
        config: Config,
        *,
        topics: Sequence[str],
        absent: Collection[str],
        put: Put,
        dead_letters: DeadLetters | None,
        status: Status,
        shutdown: Shutdown,
        clock: Clock,
        since: datetime | None,
    ) -> None:
        self._connection, self._consumer = connection, connection.consumer
        self._config, self._topics = config, topics
        self._put, self._dead_letters = put, dead_letters
        self._status, self._shutdown, self._clock, self._since = status, shutdown, clock, since
        self._offsets = Offsets()
        self._rebalances = Rebalances(self._consumer, self._offsets, status)
        self.liveness = Liveness(connection, config, topics=topics, absent=absent, offsets=self._offsets, status=status)
        self._polled_at = self._stable_at = time.monotonic()
        self._rebalance_at_most = min(_REBALANCE_AT_MOST, 3 * config.session_timeout)
        self._commit_at = 0.0
        self._paused = False

    def run(self) -> None:
        """Return when the shutdown is requested.

        Raises:
            ReopenError, KafkaError: another consumer is needed.
        """
        self._connection.subscribe(self._topics, self._rebalances, timeout=PATIENCE)
        try:
            while not self._shutdown.requested.is_set():
                polled = self._poll(_POLL, max_records=self._config.max_records)
                if polled:
                    self._status.note_answer()
                    self._deliver_all(polled)
                self._start_fresh()
                self._commit()
                if self.liveness.due() and not self._shutdown.requested.is_set():
                    self._reach_positions()
                    self.liveness.check()
        finally:
            self._commit_at = 0.0
            self._commit()
            # With nothing left to commit, closing waits for no broker that is gone.
            self._offsets.end(self._consumer.assignment())
            self._status.set_partitions(0)

    def _poll(self, timeout: timedelta, *, max_records: int) -> Mapping[TopicPartition, Sequence[Record]]:
        polled = self._consumer.poll(timeout_ms=timeout // timedelta(milliseconds=1), max_records=max_records)
        self._polled_at = time.monotonic()
        self._status.note_alive()
        if not self._connection.rebalancing():
            self._stable_at = self._polled_at
        elif polled or self._polled_at - self._stable_at > self._rebalance_at_most.total_seconds():
            raise ReopenError("the client library has stopped in the middle of a rebalance")
        self._status.set_partitions(len(self._consumer.assignment()))
        return polled

    def _deliver_all(self, polled: Mapping[TopicPartition, Sequence[Record]]) -> None:
        tenures = {partition: self._offsets.tenure(partition) for partition in polled}
        try:
            for records in _slices(polled, most=self._config.max_batch):
                if not self._shutdown.requested.is_set():
                    self._deliver([r for r in records if self._ours(r, tenures)], tenures)
                    self._status.note_alive()
        finally:
            self._resume()

    def _ours(self, record: Record, tenures: Mapping[TopicPartition, int]) -> bool:
        partition = TopicPartition(record.topic, record.partition)
        return self._offsets.tenure(partition) == tenures[partition]

    def _deliver(self, records: Sequence[Record], tenures: Mapping[TopicPartition, int]) -> None:
        """Make `records` durable, unless the shutdown is requested, or all are taken away before that can be done."""
        contents = [(record, self._read(record)) for record in records]
        fragments = [f for _, content in contents if isinstance(content, RecordContent) for f in content.fragments]
        unreadable = [Unreadable(record, error) for record, error in contents if isinstance(error, Permanent)]
        dead_letters = self._dead_letters

        def wanted() -> bool:
            return any(self._ours(record, tenures) for record in records)

        if fragments and not self._retry(lambda: self._keep(fragments), wanted):
            return
        if unreadable and dead_letters and not self._retry(lambda: self._copy(unreadable, dead_letters), wanted):
            return
        for record, content in contents:
            size = len(record.value or b"")
            where = position_text(record.topic, record.partition, record.offset)
            if isinstance(content, RecordContent):
                self._status.count_record(content, where, size=size)
            else:
                self._status.count_unreadable(content, where, size=size)
            partition = TopicPartition(record.topic, record.partition)
            self._offsets.advance(
                partition, tenure=tenures[partition], to=record.offset + 1, leader_epoch=record.leader_epoch
            )

    def _read(self, record: Record) -> RecordContent | Permanent:
        try:
            topic = self._config.topics[record.topic]
            return content_of(record, topic, max_record=self._config.max_record, now=self._clock())
        except Permanent as error:
            return error
        except Exception as error:  # noqa: BLE001 -- one record must not stop its partition for ever
            # Without its text, which may quote the record.
            where = position_text(record.topic, record.partition, record.offset)
            _log.error(
                "kafka: the record at %s cannot be read because of an internal error: %s", where, type(error).__name__
            )
            return MalformedPayload(f"an internal error: {type(error).__name__}", reason="internal")

    def _retry(self, attempt: Callable[[], None], wanted: Callable[[], bool]) -> bool:
        """Return whether `attempt` succeeded, at last; a shutdown ends the attempts, and so does `wanted`."""
        failures = 0
        while True:
            try:
                attempt()
            except Retryable as error:
                self._status.count_refusal()
                failures += 1
                pause = backoff(failures, first=_SHORTEST_RETRY, longest=_LONGEST_RETRY, at_least=error.retry_after)
                self._wait(self._shutdown.requested, pause)
            else:
                return True
            if self._shutdown.requested.is_set() or not wanted():
                return False

    def _keep(self, fragments: Sequence[Fragment]) -> None:
        ready = threading.Event()
        stored = self._put(fragments)
        stored.add_done_callback(lambda _: ready.set())
        while not ready.is_set() and not self._shutdown.over():
            self._wait(ready, _UNPOLLED)
        if not stored.done():
            stored.cancel()
            raise Retryable("the sink did not answer in time")
        stored.result()

    def _copy(self, unreadable: Sequence[Unreadable], dead_letters: DeadLetters) -> None:
        try:
            dead_letters.copy(unreadable)
        except Retryable:
            # Sending to a topic that was deleted fails as sending to a silent broker does.
            with suppress(errors.RetriableError):
                dead_letters.check_topic(self._connection.topics(PATIENCE))
            raise

    def _wait(self, ready: threading.Event, patience: timedelta) -> None:
        """Wait for `ready`, and poll meanwhile if that takes long."""
        end = time.monotonic() + patience.total_seconds()
        while not ready.is_set() and (now := time.monotonic()) < end:
            poll_at = self._polled_at + (_PAUSED_POLL_EVERY if self._paused else _UNPOLLED).total_seconds()
            if now >= poll_at and not self._shutdown.requested.is_set():
                self._poll_paused()
            else:
                ready.wait(min(end, poll_at) - now if poll_at > now else end - now)

    def _poll_paused(self) -> None:
        if not self._paused:
            # kafka-python 3.0.12 keeps an error for the next poll and forgets it if the partition is paused by then;
            # resumed, it would look for records in the broken batch for ever. So let it raise before the pause.
            for partition, records in self._poll(timedelta(0), max_records=1).items():
                self._consumer.seek(partition, records[0].offset)
            self._paused = True
        self._consumer.pause(*self._consumer.assignment())
        self._poll(_PAUSED_POLL, max_records=1)
        if self.liveness.due():
            self.liveness.check()

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            self._consumer.resume(*set(self._consumer.paused()).difference(self._rebalances.fresh))

    def _start_fresh(self) -> None:
        """Decide where new partitions are read from; those for which the cluster does not say stay paused."""
        for partition in sorted(self._rebalances.fresh):
            if self._since is not None:
                try:
                    at = start_offset(self._consumer, partition, since=self._since, patience=PATIENCE)
                except errors.RetriableError:
                    return
                if at is not None:
                    self._consumer.seek(partition, at)
                    # Committed at once, so that it holds for the next start as well.
                    self._offsets.advance(partition, tenure=self._offsets.tenure(partition), to=at)
            self._rebalances.fresh.discard(partition)
            self._consumer.resume(partition)

    def _commit(self) -> None:
        offsets = self._offsets.uncommitted()
        if not offsets:
            self._status.clear("commit")
            return
        if time.monotonic() < self._commit_at:
            return
        try:
            self._consumer.commit(offsets, timeout_ms=PATIENCE // timedelta(milliseconds=1))
        except errors.KafkaError as error:
            self._status.count_failed_commit(error)
            again = _COMMIT_AGAIN
        else:
            self._offsets.committed(offsets)
            self._status.count_commit()
            self._status.note_answer()
            again = _COMMIT_EVERY
        self._commit_at = time.monotonic() + again.total_seconds()

    def _reach_positions(self) -> None:
        """Take in what holds no record for us, such as the ends of transactions; nothing may be in our hands."""
        for partition in set(self._consumer.assignment()).difference(self._rebalances.fresh):
            position = self._consumer.position(partition, timeout_ms=0)
            if position is not None:
                self._offsets.reach(partition, position)


def _slices(polled: Mapping[TopicPartition, Sequence[Record]], *, most: int) -> Iterator[list[Record]]:
    """Yield the records in order, in lists of up to `most` bytes of values, or of one record."""
    part: list[Record] = []
    size = 0
    for records in polled.values():
        for record in records:
            more = len(record.value or b"")
            if part and size + more > most:
                yield part
                part, size = [], 0
            part.append(record)
            size += more
    if part:
        yield part
