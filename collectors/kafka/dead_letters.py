"""Records of which nothing can be kept, copied to a topic of their own so that somebody can look at them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import timedelta

from collectors.kafka.client_types import Producer, Record, Sent, errors
from collectors.kafka.failures import absence_reason
from collectors.kafka.status import Status
from monitor.errors import Permanent, Retryable

_HEADERS = ("rag-monitor-reason", "rag-monitor-topic", "rag-monitor-partition", "rag-monitor-offset")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record, and why nothing of it can be kept."""

    record: Record
    error: Permanent


class DeadLetters:
    """The topic that unreadable records are copied to, with their key, their headers, and where and why they came."""

    def __init__(
        self,
        topic: str,
        producer: Callable[[], AbstractContextManager[Producer]],
        status: Status,
        *,
        timeout: timedelta,
    ) -> None:
        self.topic = topic
        self.missing = False
        """Whether there was no such topic when last looked for; then nothing is copied."""
        self._open, self._status, self._timeout = producer, status, timeout
        self._producer: Producer | None = None
        self._closing = ExitStack()

    def copy(self, unreadable: Sequence[Unreadable]) -> None:
        """Return when each is copied, or will never be; the first call opens the producer.

        Raises:
            Retryable: the cluster did not answer; copying them again may copy some twice.
        """
        if self.missing:
            for _ in unreadable:
                self._status.count_dead_letter(done=False)
            return
        try:
            if self._producer is None:
                self._producer = self._closing.enter_context(self._open())
            copies = [self._send(self._producer, record) for record in unreadable]
            copied = [copy is not None and self._acknowledged(copy) for copy in copies]
        except errors.RetriableError as error:
            self.close()
            raise Retryable(f"copying to {self.topic}: {type(error).__name__}") from None
        for done in copied:
            self._status.count_dead_letter(done=done)
        if all(copied):
            self._status.clear("dead_letter")

    def check_topic(self, names: Collection[str]) -> None:
        """Note whether the topic is one of `names`, the topics there are."""
        self.missing = self.topic not in names
        if self.missing:
            self._status.report("dead_letter", absence_reason([self.topic]))
        else:
            self._status.clear("dead_letter")

    def close(self) -> None:
        """Close the producer."""
        self._producer = None
        self._closing.close()

    def _send(self, producer: Producer, unreadable: Unreadable) -> Sent | None:
        record = unreadable.record
        origin = (unreadable.error.reason, record.topic, record.partition, record.offset)
        # kafka-python reads headers without a value, but does not write them.
        headers = [(name, value or b"") for name, value in record.headers]
        headers += [(name, str(value).encode()) for name, value in zip(_HEADERS, origin, strict=True)]
        try:
            return producer.send(self.topic, value=record.value, key=record.key, headers=headers)
        except errors.RetriableError:
            raise
        except errors.KafkaError as error:
            self._refused(error)
            return None

    def _acknowledged(self, sent: Sent) -> bool:
        try:
            sent.get(timeout=self._timeout.total_seconds())
        except errors.RetriableError:
            raise
        except errors.KafkaError as error:
            self._refused(error)
            return False
        return True

    def _refused(self, error: Exception) -> None:
        self._status.report("dead_letter", f"a record could not be copied to {self.topic}: {type(error).__name__}")
