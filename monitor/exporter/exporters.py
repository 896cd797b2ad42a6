"""Exporters for a Python app's own OpenTelemetry SDK: straight to a monitor, and never at the app's expense.

`export` returns at once and raises nothing, whether the monitor is there, dead, slow or refusing; what cannot be
delivered is dropped and counted. Any span or log record processor of the SDK will do. See docs/in-process.md.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from sys import getsizeof
from typing import Literal, TypeAlias

from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from monitor.errors import ConfigError
from monitor.exporter.encoding import encoded_logs, encoded_spans
from monitor.exporter.http import HttpSender
from monitor.exporter.notices import ExporterStats, Notices
from monitor.exporter.outbox import Outbox, Sender
from monitor.exporter.queue import Limits
from monitor.payloads.otlp.fragments import OtlpSignal

WhenFull: TypeAlias = Literal["drop_oldest", "drop_newest"]

_log = logging.getLogger("monitor.exporter")
"""The name stays wherever this file goes: apps filter by it."""

_ITEMS, _BYTES = 8192, 32 * 1024 * 1024
_LINGER, _TIMEOUT, _SHUTDOWN = timedelta(seconds=1), timedelta(seconds=5), timedelta(seconds=3)
_BARE = 1024
"""Bytes that a span or log record takes in memory besides the values of its attributes, about."""
_PLAIN = (str, bool, int, float, bytes)
_DEPTH = 8


class RagMonitorSpanExporter(SpanExporter):
    """Hands spans to a monitor."""

    def __init__(
        self,
        *,
        endpoint: str | None = None,
        store: str | None = None,
        headers: Mapping[str, str] | None = None,
        max_items: int = _ITEMS,
        max_bytes: int = _BYTES,
        when_full: WhenFull = "drop_oldest",
        linger: timedelta = _LINGER,
        timeout: timedelta = _TIMEOUT,
        shutdown_timeout: timedelta = _SHUTDOWN,
    ) -> None:
        """Check the arguments; nothing is connected and no thread started before the first span.

        Args:
            endpoint: the monitor's OTLP/HTTP address, such as `http://127.0.0.1:4318`.
            store: or its database, such as `sqlite:////var/lib/rag-monitor/rag-monitor.db`; never migrated from here.
            headers: sent with each request, such as an `Authorization`.
            max_items: spans that may wait, besides the one request that is on its way.
            max_bytes: memory that their attributes may take.
            when_full: which to drop then.
            linger: how long to gather spans for one request.
            timeout: for each step of one attempt.
            shutdown_timeout: how long `shutdown` may take.

        Raises:
            ConfigError: not exactly one of `endpoint` and `store`, or it is no such URL.
        """
        limits = Limits(
            max_items=max_items,
            max_bytes=max_bytes,
            when_full=when_full,
            linger=linger,
            timeout=timeout,
            shutdown_timeout=shutdown_timeout,
        )
        sender = _sender("traces", endpoint, store, headers or {}, limits)
        self._outbox: Outbox[ReadableSpan] = Outbox(
            sender,
            limits,
            encode=encoded_spans,
            measure=_span_size,
            useful=lambda _: True,
            notices=Notices(_log, what="spans", place=sender.place),
        )

    @property
    def dropped(self) -> int:
        """Spans lost so far; `stats` says why."""
        return sum(self.stats().dropped.values())

    def stats(self) -> ExporterStats:
        """Return what became of all spans so far."""
        return self._outbox.stats()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Take the spans and return at once; FAILURE when any of them was dropped."""
        return SpanExportResult.SUCCESS if self._outbox.offer(spans) else SpanExportResult.FAILURE

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait until all spans taken so far are delivered; False when time ran out or any was lost meanwhile."""
        return self._outbox.flush(timeout_millis / 1000)

    def shutdown(self) -> None:
        """Try once more to deliver what waits, and stop, within `shutdown_timeout`; spans that come later are lost."""
        self._outbox.close()


class RagMonitorLogExporter(LogRecordExporter):
    """Hands log records that belong to a trace to a monitor; it has no use for others, so they stay here."""

    def __init__(
        self,
        *,
        endpoint: str | None = None,
        store: str | None = None,
        headers: Mapping[str, str] | None = None,
        max_items: int = _ITEMS,
        max_bytes: int = _BYTES,
        when_full: WhenFull = "drop_oldest",
        linger: timedelta = _LINGER,
        timeout: timedelta = _TIMEOUT,
        shutdown_timeout: timedelta = _SHUTDOWN,
    ) -> None:
        """As `RagMonitorSpanExporter`, for log records.

        Raises:
            ConfigError: not exactly one of `endpoint` and `store`, or it is no such URL.
        """
        limits = Limits(
            max_items=max_items,
            max_bytes=max_bytes,
            when_full=when_full,
            linger=linger,
            timeout=timeout,
            shutdown_timeout=shutdown_timeout,
        )
        sender = _sender("logs", endpoint, store, headers or {}, limits)
        self._outbox: Outbox[ReadableLogRecord] = Outbox(
            sender,
            limits,
            encode=encoded_logs,
            measure=_log_size,
            useful=lambda record: bool(record.log_record.trace_id),
            notices=Notices(_log, what="log records", place=sender.place),
        )

    @property
    def dropped(self) -> int:
        """Log records lost so far; `stats` says why."""
        return sum(self.stats().dropped.values())

    def stats(self) -> ExporterStats:
        """Return what became of all log records so far."""
        return self._outbox.stats()

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        """Take the log records and return at once; FAILURE when any of them was dropped."""
        return LogRecordExportResult.SUCCESS if self._outbox.offer(batch) else LogRecordExportResult.FAILURE

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """As `RagMonitorSpanExporter.force_flush`."""
        return self._outbox.flush(timeout_millis / 1000)

    def shutdown(self) -> None:
        """As `RagMonitorSpanExporter.shutdown`."""
        self._outbox.close()


def _sender(
    signal: OtlpSignal, endpoint: str | None, store: str | None, headers: Mapping[str, str], limits: Limits
) -> Sender:
    if endpoint is not None and store is None:
        return HttpSender(endpoint, signal, headers=headers)
    if store is not None and endpoint is None:
        # SQLAlchemy and alembic are 0.35 s and 42 MiB that an app which sends over HTTP need not carry.
        from monitor.exporter.store import StoreSender  # noqa: PLC0415

        return StoreSender(store, signal, patience=limits.timeout)
    raise ConfigError("give either endpoint or store", where="exporter")


def _span_size(span: ReadableSpan) -> int:
    return _BARE + _values_size(span.attributes) + sum([_values_size(event.attributes) for event in span.events])


def _log_size(record: ReadableLogRecord) -> int:
    return _BARE + _value_size(record.log_record.body) + _values_size(record.log_record.attributes)


def _values_size(attributes: Mapping[str, object] | None) -> int:
    return sum([_value_size(value) for value in attributes.values()]) if attributes else 0


def _value_size(value: object, depth: int = 0) -> int:
    # Asking whether something is a Mapping takes longer than all the rest, so what is mostly there goes first.
    if isinstance(value, _PLAIN) or depth >= _DEPTH:
        return getsizeof(value)
    if isinstance(value, list | tuple):
        return getsizeof(value) + sum([_value_size(item, depth + 1) for item in value])
    if isinstance(value, Mapping):
        return getsizeof(value) + sum([_value_size(item, depth + 1) for item in value.values()])
    return getsizeof(value)
