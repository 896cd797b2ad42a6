"""What we use of kafka-python, typed: it ships no type information."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafka import errors

if TYPE_CHECKING:

    class TopicPartition(NamedTuple):
        """A partition."""

        topic: str
        partition: int

    class OffsetAndMetadata(NamedTuple):
        """What is committed: the offset of the next record to read."""

        offset: int
        metadata: str
        leader_epoch: int

    class AsyncConsumerRebalanceListener:
        """Learns of every change of the assignment, in kafka-python's own event loop, while `poll` or `close` waits."""

    class MemberState:
        """Where a member of a group can stand."""

        REBALANCING: str
        STABLE: str

else:
    from kafka import AsyncConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
    from kafka.structs import MemberState

__all__ = (
    "AsyncConsumerRebalanceListener",
    "Client",
    "Cluster",
    "Consumer",
    "MemberState",
    "OffsetAndMetadata",
    "Producer",
    "Record",
    "Sent",
    "TopicPartition",
    "errors",
)


class Record(Protocol):
    """One record, as consumed."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    timestamp: int
    """Unix time in milliseconds; -1 when the record has none."""
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class OffsetAtTime(Protocol):
    """The first record at or after a time."""

    offset: int


class GroupMetadata(Protocol):
    """Where the client stands in its group."""

    state: str
    """One of `MemberState`'s."""


class Consumer(Protocol):
    """`KafkaConsumer`; no method may be called from two threads at once."""

    def subscribe(self, topics: Sequence[str], *, listener: AsyncConsumerRebalanceListener) -> None:
        """Set the topics."""

    def poll(self, *, timeout_ms: int, max_records: int) -> Mapping[TopicPartition, Sequence[Record]]:
        """Return records by partition, or nothing, also when no broker answers."""

    def assignment(self) -> Collection[TopicPartition]:
        """Return the partitions that are ours."""

    def paused(self) -> Collection[TopicPartition]:
        """Return those of them that `poll` leaves out."""

    def pause(self, *partitions: TopicPartition) -> None:
        """Have `poll` leave them out."""

    def resume(self, *partitions: TopicPartition) -> None:
        """Have `poll` read them again."""

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on at `offset`."""

    def position(self, partition: TopicPartition, *, timeout_ms: int) -> int | None:
        """Return the offset that is read next."""

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, timeout_ms: int) -> None:
        """Commit, trying again until `timeout_ms` is over; without it, for ever."""

    def commit_async(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Awaitable[None]:
        """Commit, once; to be awaited in kafka-python's own event loop."""

    def committed(self, partition: TopicPartition, *, timeout_ms: int) -> int | None:
        """Ask the group's coordinator for the offset committed; None when there is none."""

    def end_offsets(self, partitions: Sequence[TopicPartition], *, timeout_ms: int) -> Mapping[TopicPartition, int]:
        """Ask the partitions' leaders for the offsets that their next records will have."""

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, timeout_ms: int
    ) -> Mapping[TopicPartition, OffsetAtTime | None]:
        """Ask for the first record of each partition at or after a Unix time in milliseconds."""

    def group_metadata(self) -> GroupMetadata:
        """Return where we stand in the group, as far as we know."""

    def close(self, *, autocommit: bool, timeout_ms: int) -> None:
        """Leave the group and end all threads."""


class Answer(Protocol):
    """What a broker will answer."""

    def add_both(self, called: Callable[[object], None], /) -> None:
        """Call when the answer is there, or will not come."""

    def succeeded(self) -> bool:
        """Return whether it is there."""


class Cluster(Protocol):
    """What a client knows of its cluster."""

    config: dict[str, object]
    need_all_topic_metadata: bool

    def topics(self) -> Collection[str]:
        """Return the names of the topics last heard of."""

    def partitions_for_topic(self, topic: str) -> Collection[int] | None:
        """Return the topic's partitions last heard of; None when it is not known."""

    def request_update(self) -> Answer:
        """Have all of it looked up again."""


class Client(Protocol):
    """The connections below a consumer or producer."""

    cluster: Cluster

    def close(self) -> None:
        """Close the connections and end their thread."""


class Sent(Protocol):
    """A record on its way."""

    def get(self, *, timeout: float) -> object:
        """Return when the record is acknowledged, else raise why not."""


class Producer(Protocol):
    """`KafkaProducer`."""

    def send(
        self, topic: str, *, value: bytes | None, key: bytes | None, headers: Sequence[tuple[str, bytes | None]]
    ) -> Sent:
        """Put a record on its way; blocks while the topic is being looked up."""

    def close(self, *, timeout: float) -> None:
        """End after up to `timeout` seconds."""
