"""Bounded group commit: what collectors put is on disk when `put` returns.

While one transaction is written, the next batch gathers, so that a busy monitor pays for one flush per batch and an
idle one waits for nothing. What waits is bounded in bytes; beyond that, senders are asked to come back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import Self

from monitor.errors import Overloaded, StoreUnavailable
from monitor.model.spans import Fragment
from monitor.settings.tree import IntakeSettings
from monitor.stores import SpanStore

_log = logging.getLogger(__name__)

_FORGET_AFTER = timedelta(seconds=30)
"""A problem this long past the last failed write is no longer reported: were we out of rotation because of it, no
write would come that could clear it."""
_SHORTEST_RETRY, _LONGEST_RETRY = timedelta(seconds=1), timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeStats:
    """Counts since the intake was opened, and its state now."""

    spans: int
    """Made durable, counting each delivery."""
    log_records: int
    turns: int
    fragments: int
    duplicates: int
    """Of `fragments`, those that the store had already."""
    batches: int
    """Transactions that succeeded."""
    failed_batches: Mapping[str, int]
    """Transactions that did not, by `StoreUnavailable.reason`."""
    refused: int
    """Calls of `put` refused because too much was waiting."""
    pending_bytes: int
    """Payload that waits for its commit now, the batch being written included."""
    last_commit: timedelta
    """Duration of the latest transaction that succeeded; zero before the first."""


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    fragments: Sequence[Fragment]
    size: int
    stored: asyncio.Future[None]


@dataclass(slots=True)
class _Totals:
    records: Counter[str] = field(default_factory=Counter)
    fragments: int = 0
    duplicates: int = 0
    batches: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    refused: int = 0


class Intake:
    """The `Sink` in front of the store. Entered: it accepts. Exited: everything put is answered."""

    def __init__(self, store: SpanStore, settings: IntakeSettings) -> None:
        self._store = store
        self._settings = settings
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="intake")
        self._waiting: deque[_Waiting] = deque()
        self._pending = 0
        self._wake = asyncio.Event()
        self._open = False
        self._writer: asyncio.Task[None] | None = None
        self._totals = _Totals()
        self._last_commit = timedelta(0)
        self._bytes_per_second = 0.0
        self._problem = ""
        self._problem_at = 0.0
        self._report: Callable[[timedelta], None] = lambda _: None

    async def __aenter__(self) -> Self:
        self._open = True
        self._writer = asyncio.create_task(self._write_batches(), name="intake")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        self._wake.set()
        if self._writer is not None:
            await self._writer
        self._thread.shutdown()

    async def put(self, fragments: Sequence[Fragment]) -> None:
        """Return when all of `fragments` are on disk; otherwise raise and have kept none of them.

        A caller that is cancelled while it waits may find its fragments stored all the same.

        Raises:
            Overloaded: too much is waiting, or the intake is closed.
            StoreUnavailable: the transaction failed.
        """
        if not fragments:
            return
        size = sum([len(fragment.payload) for fragment in fragments])
        if not self._open:
            raise Overloaded("the intake is closed", retry_after=_SHORTEST_RETRY)
        if self._pending and self._pending + size > self._settings.max_pending:
            self._totals.refused += 1
            raise Overloaded(
                f"{self._pending} bytes are waiting to be written; intake.max_pending is {self._settings.max_pending}",
                retry_after=self._drained_in(),
            )
        waiting = _Waiting(fragments, size, asyncio.get_running_loop().create_future())
        self._pending += size
        self._waiting.append(waiting)
        self._wake.set()
        await waiting.stored

    def report(self, committed: Callable[[timedelta], None]) -> None:
        """Call `committed` with the duration of every transaction that succeeds from now on."""
        self._report = committed

    def health(self) -> Mapping[str, str]:
        """Return {"intake": reason} after a failed write, until one succeeds or none was tried for 30 s."""
        recent = time.monotonic() - self._problem_at < _FORGET_AFTER.total_seconds()
        return {"intake": self._problem} if self._problem and recent else {}

    def stats(self) -> IntakeStats:
        """Return a snapshot."""
        totals = self._totals
        return IntakeStats(
            spans=totals.records["traces"],
            log_records=totals.records["logs"],
            turns=totals.records["turns"],
            fragments=totals.fragments,
            duplicates=totals.duplicates,
            batches=totals.batches,
            failed_batches=dict(totals.failed),
            refused=totals.refused,
            pending_bytes=self._pending,
            last_commit=self._last_commit,
        )

    async def _write_batches(self) -> None:
        loop = asyncio.get_running_loop()
        while self._open or self._waiting:
            if not self._waiting:
                self._wake.clear()
                await self._wake.wait()
                continue
            batch = self._take()
            if not batch:
                continue
            fragments = [fragment for waiting in batch for fragment in waiting.fragments]
            began = time.monotonic()
            try:
                new = await loop.run_in_executor(self._thread, self._store.append, fragments)
            except StoreUnavailable as error:
                self._failed(batch, error)
            except Exception as error:  # noqa: BLE001 -- the writer must outlive a fault of the store's
                # Without its text, which may quote what was to be written.
                _log.error("writing a batch: %s", type(error).__name__)
                self._failed(batch, StoreUnavailable(f"writing a batch: {type(error).__name__}"))
            else:
                self._succeeded(batch, fragments, new=new, took=time.monotonic() - began)

    def _take(self) -> list[_Waiting]:
        """Take what waits, up to `max_batch` bytes but at least one; callers that have gone are passed over."""
        batch: list[_Waiting] = []
        size = 0
        while self._waiting and (not batch or size + self._waiting[0].size <= self._settings.max_batch):
            waiting = self._waiting.popleft()
            if waiting.stored.cancelled():
                self._pending -= waiting.size
                continue
            batch.append(waiting)
            size += waiting.size
        return batch

    def _succeeded(self, batch: Sequence[_Waiting], fragments: Sequence[Fragment], *, new: int, took: float) -> None:
        if self._problem:
            _log.info("intake: writing again")
        self._problem = ""
        self._last_commit = timedelta(seconds=took)
        self._report(self._last_commit)
        self._bytes_per_second = sum(waiting.size for waiting in batch) / max(took, 1e-6)
        totals = self._totals
        totals.batches += 1
        totals.fragments += len(fragments)
        totals.duplicates += len(fragments) - new
        for fragment in fragments:
            totals.records[fragment.signal] += fragment.count
        for waiting in batch:
            self._pending -= waiting.size
            if not waiting.stored.done():
                waiting.stored.set_result(None)

    def _failed(self, batch: Sequence[_Waiting], error: StoreUnavailable) -> None:
        if self._problem != error.reason:
            _log.warning("intake: %s", error)
        self._problem, self._problem_at = error.reason, time.monotonic()
        self._totals.failed[error.reason] += 1
        for waiting in batch:
            self._pending -= waiting.size
            if not waiting.stored.done():
                # One exception per waiter: a shared one would collect every waiter's traceback.
                waiting.stored.set_exception(
                    StoreUnavailable(str(error), reason=error.reason, retry_after=error.retry_after or _SHORTEST_RETRY)
                )

    def _drained_in(self) -> timedelta:
        """Return how long writing what waits should take."""
        if not self._bytes_per_second:
            return _SHORTEST_RETRY
        estimate = timedelta(seconds=self._pending / self._bytes_per_second)
        return min(max(estimate, _SHORTEST_RETRY), _LONGEST_RETRY)
