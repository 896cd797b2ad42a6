"""Which offsets are durable here and not yet committed, partition by partition, through every rebalance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from collectors.kafka.client_types import (
    AsyncConsumerRebalanceListener,
    Consumer,
    OffsetAndMetadata,
    TopicPartition,
    errors,
)
from collectors.kafka.status import Status


class Offsets:
    """Durable offsets. A partition's tenure ends when it is taken away; what was read in an old one counts no more."""

    def __init__(self) -> None:
        self._tenures: Counter[TopicPartition] = Counter()
        self._durable: dict[TopicPartition, OffsetAndMetadata] = {}
        self._dirty: dict[TopicPartition, OffsetAndMetadata] = {}

    def tenure(self, partition: TopicPartition) -> int:
        """Return the number of the present tenure."""
        return self._tenures[partition]

    def advance(self, partition: TopicPartition, *, tenure: int, to: int, leader_epoch: int = -1) -> None:
        """Note that everything before `to` is durable, if `tenure` is the present one."""
        if self._tenures[partition] == tenure:
            self._durable[partition] = self._dirty[partition] = OffsetAndMetadata(to, "", leader_epoch)

    def reach(self, partition: TopicPartition, position: int) -> None:
        """Note that everything before `position` is durable; where the partition begins needs no commit."""
        known = self._durable.get(partition)
        if known is None:
            self._durable[partition] = OffsetAndMetadata(position, "", -1)
        elif position > known.offset:
            self.advance(partition, tenure=self._tenures[partition], to=position, leader_epoch=known.leader_epoch)

    def next(self, partition: TopicPartition) -> int | None:
        """Return the first offset that is not durable; None while that is unknown."""
        durable = self._durable.get(partition)
        return None if durable is None else durable.offset

    def uncommitted(self, of: Collection[TopicPartition] | None = None) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Return what is to be committed, of all partitions or of some."""
        return {partition: at for partition, at in self._dirty.items() if of is None or partition in of}

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Note that `offsets` are committed."""
        for partition, at in offsets.items():
            if self._dirty.get(partition) == at:
                del self._dirty[partition]

    def end(self, partitions: Collection[TopicPartition]) -> None:
        """End the tenure of `partitions`."""
        for partition in partitions:
            self._tenures[partition] += 1
            self._durable.pop(partition, None)
            self._dirty.pop(partition, None)


class Rebalances(AsyncConsumerRebalanceListener):
    """Commits what is durable before partitions go, and keeps those that come paused until they were looked at.

    kafka-python calls this in its own thread, but only while ours waits in `poll` or `close`.
    """

    def __init__(self, consumer: Consumer, offsets: Offsets, status: Status) -> None:
        self._consumer, self._offsets, self._status = consumer, offsets, status
        self.fresh: set[TopicPartition] = set()
        """Assigned, paused and not yet looked at."""

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Commit, then let go: whatever else was read of them, the next owner reads again."""
        offsets = self._offsets.uncommitted(revoked)
        if offsets:
            try:
                await self._consumer.commit_async(offsets)
            except errors.KafkaError as error:
                self._status.count_failed_commit(error)
            else:
                self._offsets.committed(offsets)
                self._status.count_commit()
        await self.on_partitions_lost(revoked)

    async def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Let go of what others may have by now."""
        self._offsets.end(lost)
        self.fresh.difference_update(lost)

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Pause what comes, so that nothing of it is read before it is decided where."""
        self._consumer.pause(*assigned)
        self.fresh.update(assigned)
