"""Asks the cluster now and then: to `poll`, an idle topic, a dead broker and a lost coordinator are all the same."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta

from collectors.kafka.client import Connection
from collectors.kafka.client_types import MemberState, TopicPartition, errors
from collectors.kafka.failures import ReopenError
from collectors.kafka.offsets import Offsets
from collectors.kafka.settings import Config
from collectors.kafka.status import Status

PATIENCE = timedelta(seconds=2)
"""For one answer, while nothing else is done."""


class Liveness:
    """Looks up lag, membership and topics every `check_every`.

    Args:
        connection: that reads `topics`.
        config: says how often, and with what patience.
        topics: that were there when it was opened.
        absent: that were not.
        offsets: how far they are durable.
        status: learns what comes out.
    """

    def __init__(
        self,
        connection: Connection,
        config: Config,
        *,
        topics: Sequence[str],
        absent: Collection[str],
        offsets: Offsets,
        status: Status,
    ) -> None:
        self._connection, self._config = connection, config
        self._topics, self._absent = topics, frozenset(absent)
        self._offsets, self._status = offsets, status
        self._every = config.check_every.total_seconds()
        self._next = time.monotonic() + self._every
        self._member_at = time.monotonic()
        self.answered = False
        """Whether the cluster has answered since the consumer was opened."""

    def due(self) -> bool:
        """Return whether `check_every` has passed since the last check."""
        return time.monotonic() >= self._next

    def check(self) -> None:
        """Ask the partitions' leaders and the group's coordinator.

        Raises:
            ReopenError: topics came or went, or there was no answer for `reopen_after`.
        """
        consumer = self._connection.consumer
        assigned = sorted(consumer.assignment())
        # Others may hold all partitions; then the first of each topic shows that the cluster is there.
        partitions = assigned or [TopicPartition(topic, 0) for topic in self._topics]
        patience_ms = PATIENCE // timedelta(milliseconds=1)
        try:
            ends = consumer.end_offsets(partitions, timeout_ms=patience_ms)
            consumer.committed(partitions[0], timeout_ms=patience_ms)
            self._compare_topics()
        except errors.RetriableError:
            self._unanswered()
        else:
            self.answered = True
            self._status.note_answer()
            self._status.note_recovery()
            self._status.set_lag(self._lag({partition: ends[partition] for partition in assigned}))
            self._membership(consumer.group_metadata().state)
        finally:
            self._next = time.monotonic() + self._every

    def _lag(self, ends: Mapping[TopicPartition, int]) -> Mapping[str, int]:
        lag: Counter[str] = Counter()
        for partition, end in ends.items():
            known = self._offsets.next(partition)
            if known is not None:
                lag[partition.topic] += end - known
        return lag

    def _compare_topics(self) -> None:
        known = self._connection.client.cluster.partitions_for_topic
        # Lest a large cluster lists all its topics time and again, it does so only where there may be news.
        if self._absent or any(known(topic) is None for topic in self._topics):
            names = self._connection.topics(PATIENCE)
            if self._absent.intersection(names):
                raise ReopenError("a topic that was missing exists now")
            self._raise_if_gone(names)

    def _raise_if_gone(self, names: Collection[str]) -> None:
        if set(self._topics).difference(names):
            raise ReopenError("a topic was deleted")

    def _unanswered(self) -> None:
        """Tell a silent cluster from a topic that was deleted, which is waited for alike."""
        with suppress(errors.RetriableError):
            self._raise_if_gone(self._connection.topics(PATIENCE))
        if self._status.note_silence(", ".join(self._config.bootstrap_servers)) > self._config.reopen_after:
            raise ReopenError("the cluster does not answer")

    def _membership(self, state: str) -> None:
        now = time.monotonic()
        if state == MemberState.STABLE:
            self._member_at = now
            self._status.clear("group")
        elif now - self._member_at > self._config.session_timeout.total_seconds():
            limit = f"{self._config.session_timeout.total_seconds():g} s"
            self._status.report("group", f"not a member of the group {self._config.group_id} for more than {limit}")
