"""The raw records of one request, gathered by trace and framed into payloads that hold that trace only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from monitor.errors import MalformedPayload
from monitor.payloads.otlp.misfits import shared
from monitor.payloads.otlp.schema import Envelope, Record, Request
from monitor.payloads.otlp.wire import header

MAX_SHARED_BYTES = 64 * 1024 * 1024
"""Bytes of resources and scopes that one request may have copied into the payloads of its traces."""

_TRACE_ID_BYTES, _SPAN_ID_BYTES = 16, 8
_NO_TRACE, _NO_SPAN = bytes(_TRACE_ID_BYTES), bytes(_SPAN_ID_BYTES)


class Groups:
    """What one request holds, by trace. Spans need both ids; log records without a trace id are ignored."""

    def __init__(self, *, spans: bool) -> None:
        self.counts: Counter[bytes] = Counter()
        """Records by trace id, in the order in which the traces first appear."""
        self.reasons: Counter[str] = Counter()
        """Spans left out: `trace_id` or `span_id` missing, all zero or of the wrong length."""
        self.ignored = 0
        """Log records without a trace context."""
        self._spans = spans
        self._pieces: dict[bytes, list[bytes]] = {}
        self._shared_bytes = 0

    def add(self, envelope: Envelope, readable: Request[object, object, Record]) -> None:
        """Gather the records of `envelope`; `readable` is the same request, parsed.

        Raises:
            MalformedPayload: the resources and scopes are too large to be repeated for every trace.
        """
        for raw, read in zip(envelope.resources, readable.resources, strict=True):
            by_trace: dict[bytes, list[bytes]] = {}
            for raw_scope, read_scope in zip(raw.scopes, read.scopes, strict=True):
                in_scope = self._sorted(raw_scope.records, read_scope.records)
                self._wrap(in_scope, shared(raw_scope.scope, raw_scope.schema_url), number=2, into=by_trace)
            self._wrap(by_trace, shared(raw.resource, raw.schema_url), number=1, into=self._pieces)

    def payload(self, trace_id: bytes) -> bytes:
        """Return the `TracesData` or `LogsData` of one trace."""
        return b"".join(self._pieces[trace_id])

    def _sorted(self, raw: Sequence[bytes], read: Sequence[Record]) -> dict[bytes, list[bytes]]:
        by_trace: dict[bytes, list[bytes]] = {}
        spans = self._spans
        for payload, record in zip(raw, read, strict=True):
            trace_id = record.trace_id
            if len(trace_id) != _TRACE_ID_BYTES or trace_id == _NO_TRACE:
                if spans:
                    self.reasons["trace_id"] += 1
                else:
                    self.ignored += 1
            elif spans and (len(span_id := record.span_id) != _SPAN_ID_BYTES or span_id == _NO_SPAN):
                self.reasons["span_id"] += 1
            elif trace_id in by_trace:
                by_trace[trace_id] += (header(2, len(payload)), payload)
            else:
                by_trace[trace_id] = [header(2, len(payload)), payload]
        for trace_id, pieces in by_trace.items():
            self.counts[trace_id] += len(pieces) // 2
        return by_trace

    def _wrap(
        self, by_trace: Mapping[bytes, list[bytes]], shared: bytes, *, number: int, into: dict[bytes, list[bytes]]
    ) -> None:
        self._shared_bytes += len(shared) * len(by_trace)
        if self._shared_bytes > MAX_SHARED_BYTES:
            raise MalformedPayload("resources and scopes too large for so many traces", reason="too_large")
        for trace_id, pieces in by_trace.items():
            size = len(shared) + sum(map(len, pieces))
            into.setdefault(trace_id, []).extend((header(number, size), shared, *pieces))
