"""Apache Kafka: OTLP as the OpenTelemetry Collector's `kafka` exporter writes it, and turns as JSON.

A committed offset means on disk. One thread owns the client; it keeps trying whatever the cluster does, and `health`
says what is wrong meanwhile. Records that cannot be read are counted, copied if a topic is named for them, and passed.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from datetime import timedelta
from types import TracebackType
from typing import Self

from collectors.kafka.client import renewed_security
from collectors.kafka.settings import Config
from collectors.kafka.shutdown import Shutdown
from collectors.kafka.status import KafkaStats, Status
from collectors.kafka.worker import Worker
from monitor.model.spans import Fragment
from monitor.ports import Clock, Sink

_log = logging.getLogger(__name__)

_GRACE = timedelta(seconds=10)
"""For what is under way when a shutdown is requested: the batch in hand, its commit, leaving the group."""
_CLOSING = timedelta(seconds=5)


def build(config: Config, sink: Sink, clock: Clock) -> Kafka:
    """Return the collector, not yet connected.

    Raises:
        ConfigError: the files or secrets of `tls` and `sasl` cannot be used.
    """
    return Kafka(config, sink, clock)


class Kafka:
    """Reads topics. Entered: its thread runs, with or without a cluster. Exited: what is durable is committed."""

    def __init__(self, config: Config, sink: Sink, clock: Clock) -> None:
        self._sink = sink
        self._loop: asyncio.AbstractEventLoop | None = None
        self._status = Status(clock)
        self._shutdown = Shutdown()
        self._worker = Worker(
            config, renewed_security(config), put=self._put, status=self._status, shutdown=self._shutdown, clock=clock
        )
        # A daemon, since the client library may hang for good; see `health`.
        self._thread = threading.Thread(target=self._worker.run, name="kafka", daemon=True)

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shutdown.request(_GRACE)
        await asyncio.to_thread(self._thread.join, (_GRACE + _CLOSING).total_seconds())
        if self._thread.is_alive():
            _log.warning("kafka: the client did not end within %s; what it read last is read again", _GRACE + _CLOSING)

    def health(self) -> Mapping[str, str]:
        """Return what stands between us and the records, such as {"broker": "no answer from ... since ..."}."""
        return self._status.health()

    def stats(self) -> KafkaStats:
        """Return counts since the collector was built, and its state now."""
        return self._status.stats()

    def _put(self, fragments: Sequence[Fragment]) -> Future[None]:
        if self._loop is None:
            raise RuntimeError("the collector has not been entered")
        return asyncio.run_coroutine_threadsafe(self._sink.put(fragments), self._loop)
