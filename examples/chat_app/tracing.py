"""Turns as traces, exported over OTLP/HTTP by the stock SDK; spans that are not accepted stop the app."""

import random
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import openinference
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, Status, StatusCode, Tracer, set_span_in_context
from traffic import Turn

SERVICE = "python-docs-chat"
_ENVIRONMENT = "production"
_QUEUE, _BATCH = 4096, 256
# Flushed long before it is full, the queue never drops a span.
_FLUSH_AT = 1024
_EXPORT_TIMEOUT_SECONDS = 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ExportError(Exception):
    """The endpoint did not accept spans."""


class Telemetry:
    """Writes turns as traces of three spans, or four when the question had to be condensed first."""

    def __init__(self, endpoint: str, ids: random.Random) -> None:
        """Export to ``endpoint``, a full OTLP/HTTP URL for traces; every id is drawn from ``ids``."""
        self._endpoint = endpoint
        self._ids = ids
        self._exporter = _Counted(OTLPSpanExporter(endpoint=endpoint, timeout=_EXPORT_TIMEOUT_SECONDS))
        self._processor = BatchSpanProcessor(self._exporter, max_queue_size=_QUEUE, max_export_batch_size=_BATCH)
        self._tracers: dict[str, Tracer] = {}
        self._ended = 0

    def write(self, turn: Turn) -> tuple[str, str]:
        """Return the trace id and root span id, in hexadecimal, that ``turn`` is queued for export under.

        Raises:
            ExportError: A flush was due, and the endpoint did not accept it.
        """
        tracer = self._tracer(turn.release.version)
        asked, condensed, retrieved, answered = map(_nanoseconds, _in_order(turn))
        root = tracer.start_span("support_chat", start_time=asked, attributes=openinference.chain(turn))
        context = set_span_in_context(root)
        if turn.history:
            attributes = openinference.condensing(turn)
            self._end(
                tracer.start_span("condense_question", context, start_time=asked, attributes=attributes), condensed
            )
        attributes = openinference.retriever(turn)
        self._end(tracer.start_span("retrieve", context, start_time=condensed, attributes=attributes), retrieved)
        attributes = openinference.answering(turn)
        model = tracer.start_span("generate_answer", context, start_time=retrieved, attributes=attributes)
        self._end(model, answered, turn.error)
        self._end(root, answered, turn.error)
        if self._ended - self._exporter.accepted >= _FLUSH_AT:
            self.flush()
        identity = root.get_span_context()
        return f"{identity.trace_id:032x}", f"{identity.span_id:016x}"

    def flush(self) -> int:
        """Return how many spans the endpoint has accepted so far: every one that was written.

        Raises:
            ExportError: It accepted fewer.
        """
        flushed = self._processor.force_flush()
        if not flushed or self._exporter.accepted != self._ended:
            missing = self._ended - self._exporter.accepted
            raise ExportError(
                f"exporting spans to {self._endpoint}: {missing} of {self._ended} were not accepted; "
                "is an OTLP/HTTP receiver listening there?"
            )
        return self._exporter.accepted

    def close(self) -> None:
        """Stop the exporter's thread; what was not flushed gets one more attempt."""
        self._processor.shutdown()  # type: ignore[no-untyped-call]

    def _tracer(self, version: str) -> Tracer:
        if version not in self._tracers:
            resource = Resource.create(
                {
                    "service.name": SERVICE,
                    "service.version": version,
                    "service.instance.id": str(uuid.UUID(int=self._ids.getrandbits(128), version=4)),
                    "deployment.environment": _ENVIRONMENT,
                }
            )
            provider = TracerProvider(
                sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False, id_generator=_SeededIds(self._ids)
            )
            provider.add_span_processor(self._processor)
            self._tracers[version] = provider.get_tracer("docs_chat", version)
        return self._tracers[version]

    def _end(self, span: Span, moment: int, error: Exception | None = None) -> None:
        if error is None:
            span.set_status(Status(StatusCode.OK))
        else:
            span.record_exception(error, timestamp=moment)
            span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
        span.end(moment)
        self._ended += 1


class _Counted(SpanExporter):
    """The stock exporter, and how many spans it got through: the batch processor only logs a failure.

    After a failure it tries no more, for each batch would wait for the whole timeout again.
    """

    def __init__(self, exporter: OTLPSpanExporter) -> None:
        self._exporter = exporter
        self._result = SpanExportResult.SUCCESS
        self.accepted = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._result is SpanExportResult.SUCCESS:
            self._result = self._exporter.export(spans)
        if self._result is SpanExportResult.SUCCESS:
            self.accepted += len(spans)
        return self._result

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


class _SeededIds(IdGenerator):
    """Trace and span ids that repeat with the seed. One bit is always set: an id of zero is invalid."""

    def __init__(self, ids: random.Random) -> None:
        self._ids = ids

    def generate_span_id(self) -> int:
        return self._ids.getrandbits(64) | 1

    def generate_trace_id(self) -> int:
        return self._ids.getrandbits(128) | 1


def _in_order(turn: Turn) -> tuple[datetime, datetime, datetime, datetime]:
    moments = turn.moments
    return moments.asked, moments.condensed, moments.retrieved, moments.answered


def _nanoseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
