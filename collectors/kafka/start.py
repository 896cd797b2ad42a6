"""Where a partition begins that the group has never committed an offset of."""

from __future__ import annotations

from datetime import datetime, timedelta

from collectors.kafka.client_types import Consumer, TopicPartition
from monitor.model.spans import EPOCH


def start_offset(consumer: Consumer, partition: TopicPartition, *, since: datetime, patience: timedelta) -> int | None:
    """Return the offset of the first record from `since` on, or the end if there is none; None if the group has begun.

    Raises:
        KafkaTimeoutError: the cluster did not answer within `patience`.
    """
    timeout_ms = patience // timedelta(milliseconds=1)
    if consumer.committed(partition, timeout_ms=timeout_ms) is not None:
        return None
    # The end comes first: what is written between the two questions must not be passed over.
    end = consumer.end_offsets([partition], timeout_ms=timeout_ms)[partition]
    since_ms = (since - EPOCH) // timedelta(milliseconds=1)
    first = consumer.offsets_for_times({partition: since_ms}, timeout_ms=timeout_ms)[partition]
    return end if first is None else first.offset
