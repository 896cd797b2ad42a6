"""What becomes of one export request after its bytes are here, whatever the transport: unpack, split, keep, count."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from monitor.errors import Permanent, Rejected, Retryable
from monitor.payloads.compression import Coding, unpacked, unpacked_estimate
from monitor.payloads.otlp.fragments import Encoding, OtlpSignal, Split, split_otlp
from monitor.ports import Clock, Sink

log = logging.getLogger(__name__)

_LARGE: Mapping[Encoding, int] = {"protobuf": 4 * 1024 * 1024, "json": 256 * 1024}
"""Bytes of body up to which it is split in the event loop, in 6 to 15 ms; in threads all costs a fifth more CPU."""

_REASONS = {
    "trace_id": "a trace id missing, all zero or not 16 bytes",
    "span_id": "a span id missing, all zero or not 8 bytes",
    "unreadable": "content that cannot be read",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceptionStats:
    """Counts since the collector was built."""

    requests: Mapping[str, int]
    """Requests by outcome: `accepted`, `refused` (come again), `slow`, `disconnected`, `fault` (of ours), or a
    `Permanent.reason`."""
    rejected: Mapping[str, int]
    """Spans and log records left out of accepted requests, by reason."""
    ignored: Mapping[str, int]
    """What is accepted and not kept: `log_records` without a trace context, `metrics` requests."""


class Reception:
    """The shared half of the OTLP collectors."""

    def __init__(self, sink: Sink, clock: Clock, *, max_body: int) -> None:
        self._sink, self._clock, self._max_body = sink, clock, max_body
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="otlp")
        self._requests: Counter[str] = Counter()
        self._rejected: Counter[str] = Counter()
        self._ignored: Counter[str] = Counter()

    async def take(self, body: bytes, signal: OtlpSignal, *, encoding: Encoding, coding: Coding) -> Split:
        """Return what is in the request, when all of it that is good is on disk.

        Raises:
            Permanent: the request as a whole cannot be read, or is too large.
            Retryable: nothing of it was kept.
        """
        split = await self._split(body, signal, encoding=encoding, coding=coding)
        del body
        await self._sink.put(split.fragments)
        self._requests["accepted"] += 1
        self._rejected.update(split.reasons)
        if split.ignored:
            self._ignored["log_records"] += split.ignored
        return split

    def ignore_metrics(self) -> None:
        """Count a metrics request: senders must be told "success", or some would repeat it for ever."""
        self._ignored["metrics"] += 1

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count a request that ends in an error, and pass the error on.

        Raises:
            Rejected: something that no request should cause (`fault`); whatever it was is not passed on.
        """
        try:
            yield
        except Permanent as error:
            self._requests[error.reason] += 1
            raise
        except Retryable:
            self._requests["refused"] += 1
            raise
        except ConnectionResetError:
            self._requests["disconnected"] += 1
            raise
        except TimeoutError:
            self._requests["slow"] += 1
            raise
        except Exception as error:  # noqa: BLE001 -- a fault of ours costs one request
            # Without its text and traceback, which may quote what was sent.
            self._requests["fault"] += 1
            at = traceback.extract_tb(error.__traceback__)[-1]
            log.error("an internal error: %s at %s:%s", type(error).__name__, at.filename, at.lineno)  # noqa: TRY400
            raise Rejected("an internal error of the receiver; see its log", reason="fault") from None

    def stats(self) -> ReceptionStats:
        """Return a snapshot."""
        return ReceptionStats(requests=dict(self._requests), rejected=dict(self._rejected), ignored=dict(self._ignored))

    def close(self) -> None:
        """Release the threads; nothing may be under way."""
        self._threads.shutdown()

    async def _split(self, body: bytes, signal: OtlpSignal, *, encoding: Encoding, coding: Coding) -> Split:
        now = self._clock()

        def unpack_and_split() -> Split:
            return split_otlp(unpacked(body, coding, most=self._max_body), signal, received_at=now, encoding=encoding)

        if unpacked_estimate(len(body), coding) < _LARGE[encoding]:
            return unpack_and_split()
        return await asyncio.get_running_loop().run_in_executor(self._threads, unpack_and_split)


def rejection_message(split: Split) -> str:
    """Return the message of a partial success, free of anything a sender wrote; "" when nothing was rejected."""
    if not split.rejected:
        return ""
    why = ", ".join(f"{count} with {_REASONS[reason]}" for reason, count in sorted(split.reasons.items()))
    place = f"; the first at {split.complaint}" if split.complaint else ""
    return f"{split.rejected} of {split.rejected + split.accepted + split.ignored} records rejected: {why}{place}"
