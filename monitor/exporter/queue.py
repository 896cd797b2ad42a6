"""What waits to be delivered, bounded in number and in memory. Not safe for threads: its owner holds the lock."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, Literal, TypeVar

T = TypeVar("T")

_BATCH_ITEMS = 512
_BATCH_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much may wait and how long anything may take."""

    max_items: int
    max_bytes: int
    when_full: Literal["drop_oldest", "drop_newest"]
    linger: timedelta
    timeout: timedelta
    shutdown_timeout: timedelta


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """One item; `number` grows with every item taken."""

    item: T
    size: int
    number: int


class Queue(Generic[T]):
    """Items in order; one batch of them is on its way and counts for the limits no more."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting: deque[Entry[T]] = deque()
        self._bytes = 0
        self._numbered = 0
        self._on_its_way: Sequence[Entry[T]] = ()
        self._unacknowledged = 0
        self.dropped: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._waiting) + self._unacknowledged

    @property
    def unacknowledged(self) -> int:
        """How many of the batch on its way are neither kept nor lost yet."""
        return self._unacknowledged

    @property
    def last(self) -> int:
        """The number of the item that was taken last."""
        return self._numbered

    @property
    def oldest(self) -> float:
        """The number of the oldest item that is neither kept nor lost yet; infinite when there is none."""
        first = self._on_its_way or self._waiting
        return first[0].number if first else float("inf")

    @property
    def fullness(self) -> Literal["empty", "some", "batch"]:
        """Whether nothing waits to be sent, something, or as much as goes into one request."""
        if not self._waiting:
            return "empty"
        return "batch" if len(self._waiting) >= _BATCH_ITEMS or self._bytes >= _BATCH_BYTES else "some"

    def take(self, item: T, size: int) -> bool:
        """Append the item, whatever must be dropped for it; False when the item itself is dropped."""
        limits = self._limits
        if size > limits.max_bytes:
            self.dropped["too_large"] += 1
            return False
        while len(self._waiting) >= limits.max_items or self._bytes + size > limits.max_bytes:
            self.dropped["full"] += 1
            if limits.when_full == "drop_newest":
                return False
            self._bytes -= self._waiting.popleft().size
        self._numbered += 1
        self._waiting.append(Entry(item, size, self._numbered))
        self._bytes += size
        return True

    def send_off(self) -> Sequence[Entry[T]]:
        """Return the oldest items as a batch, which is on its way from now on; empty when nothing waits."""
        batch: list[Entry[T]] = []
        size = 0
        while self._waiting and len(batch) < _BATCH_ITEMS:
            size += self._waiting[0].size
            if batch and size > _BATCH_BYTES:
                break
            batch.append(self._waiting.popleft())
        self._bytes -= sum([entry.size for entry in batch])
        self._on_its_way, self._unacknowledged = tuple(batch), len(batch)
        return self._on_its_way

    def acknowledge(self, count: int) -> None:
        """Take note that so many of the batch on its way are kept or lost."""
        self._unacknowledged -= count
        if not self._unacknowledged:
            self._on_its_way = ()

    def clear(self) -> int:
        """Forget all items; return how many they were."""
        left = len(self)
        self._waiting.clear()
        self._on_its_way, self._unacknowledged, self._bytes = (), 0, 0
        return left
