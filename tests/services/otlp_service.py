"""A running pair of OTLP collectors in front of a real SQLite store, and requests to send to it."""

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from http_request import Answer, send
from loop_thread import LoopThread
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.otlp_grpc import collector as otlp_grpc
from collectors.otlp_http import collector as otlp_http
from monitor.errors import StoreUnavailable
from monitor.model.spans import Fragment, LogRecord, Span
from monitor.payloads.otlp.fragments import Decoded, decode_otlp
from monitor.runtime.intake import Intake
from monitor.settings.tree import IntakeSettings
from monitor.store.sql_store import SqlStore
from monitor.stores import SpanStore

GOLDEN = Path(__file__).parents[1] / "golden" / "otlp"


class Running:
    """Both collectors in an event loop of their own thread; the test speaks to them through sockets only."""

    def __init__(
        self,
        store: SqlStore,
        *,
        http: otlp_http.Config,
        grpc: otlp_grpc.Config,
        intake: IntakeSettings,
        through: SpanStore,
    ) -> None:
        self.store = store
        self._configs = http, grpc, intake, through
        self._thread = LoopThread(self._serving)
        self.start, self.stop = self._thread.start, self._thread.stop

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        http_config, grpc_config, settings, through = self._configs
        async with AsyncExitStack() as running:
            self.intake = await running.enter_async_context(Intake(through, settings))
            self.http = await running.enter_async_context(
                otlp_http.build(http_config, self.intake, lambda: datetime.now(UTC))
            )
            self.grpc = await running.enter_async_context(
                otlp_grpc.build(grpc_config, self.intake, lambda: datetime.now(UTC))
            )
            yield

    def post(
        self,
        body: bytes | Iterator[bytes],
        *,
        path: str = "/v1/traces",
        content_type: str = "application/x-protobuf",
        headers: Mapping[str, str] | None = None,
        method: str = "POST",
    ) -> Answer:
        """Return the reply to one request."""
        return send(self.http.address, method, path, body, {"Content-Type": content_type, **(headers or {})})

    def decoded(self) -> list[Decoded]:
        """Return all fragments in the store, read."""
        future = datetime(2100, 1, 1, tzinfo=UTC)
        traces = self.store.due(quiet_since=future, open_since=future, limit=1_000_000)
        stored = self.store.fragments(traces)
        return [decode_otlp(row.fragment) for trace in traces for row in stored[trace]]

    def spans(self) -> list[Span]:
        """Return all spans in the store; one that was stored twice shows twice."""
        return [span for decoded in self.decoded() for span in decoded.spans]

    def logs(self) -> list[LogRecord]:
        """Return all log records in the store."""
        return [log for decoded in self.decoded() for log in decoded.logs]


class Switch:
    """Stands before the real store, and can be told to refuse or to wait as a full disk or a lock would."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.due, self.fragments = store.due, store.fragments
        self.reason = ""
        self.place = "/srv/monitor/private.db of db.internal:5432/prod"
        """Where it keeps things, says its error, as the store's own do."""
        self.gate = threading.Event()
        """Cleared, writes wait."""
        self.gate.set()

    def append(self, fragments: Sequence[Fragment]) -> int:
        """Store, or refuse with `reason`."""
        self.gate.wait(30)
        if self.reason:
            raise StoreUnavailable(f"storing fragments in {self.place}", reason=self.reason)
        return self._store.append(fragments)


Serve = Callable[..., Running]
MakeRequest = Callable[..., ExportTraceServiceRequest]


@pytest.fixture
def switch(store: SqlStore) -> Iterator[Switch]:
    """The store behind a switch."""
    switch = Switch(store)
    yield switch
    switch.gate.set()


@pytest.fixture
def serve(store: SqlStore) -> Iterator[Serve]:
    """Starts both collectors; `http`, `grpc` and `intake` are their settings, `through` stands before the store."""
    with ExitStack() as running:

        def start(
            *,
            http: Mapping[str, object] | None = None,
            grpc: Mapping[str, object] | None = None,
            intake: Mapping[str, object] | None = None,
            through: SpanStore | None = None,
        ) -> Running:
            server = Running(
                store,
                http=otlp_http.Config.model_validate({"port": 0, **(http or {})}),
                grpc=otlp_grpc.Config.model_validate({"port": 0, **(grpc or {})}),
                intake=IntakeSettings.model_validate(intake or {}),
                through=through or store,
            )
            running.callback(server.stop)
            server.start()
            return server

        yield start


@pytest.fixture
def running(serve: Serve) -> Running:
    """Both collectors with default settings."""
    return serve()


@pytest.fixture(scope="session")
def turn_json() -> bytes:
    """One turn of three spans as OTLP/JSON, ids in upper case."""
    return (GOLDEN / "turn.json").read_bytes()


@pytest.fixture(scope="session")
def turn_pb() -> bytes:
    """The same turn as protobuf."""
    return (GOLDEN / "turn.pb").read_bytes()


@pytest.fixture(scope="session")
def make_request() -> MakeRequest:
    """Builds requests of `traces` traces of three spans, `text` in each; trace ids start at `first`."""

    def make(traces: int = 1, *, first: int = 1, text: str = "What is the fee?") -> ExportTraceServiceRequest:
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add(schema_url="https://opentelemetry.io/schemas/1.30.0")
        resource.resource.attributes.add(key="service.name").value.string_value = "helpdesk"
        scope = resource.scope_spans.add()
        scope.scope.name, scope.scope.version = "demo.rag", "1.0"
        for number in range(first, first + traces):
            for place, name in enumerate(("retrieve", "chat", "rag"), 1):
                span = scope.spans.add(trace_id=number.to_bytes(16), span_id=(3 * number + place).to_bytes(8))
                span.name, span.kind = name, 1
                span.start_time_unix_nano = 1_777_888_800_000_000_000 + place
                span.end_time_unix_nano = 1_777_888_801_000_000_000 + place
                span.attributes.add(key="input.value").value.string_value = text
        return request

    return make
