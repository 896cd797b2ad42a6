"""The real `rag-monitor run` in a process of its own, with settings of the test's."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from deadline import wait_until
from http_request import Answer, send
from loopback import free_port
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from monitor.payloads.otlp.fragments import decode_otlp
from monitor.store.sql_store import open_store

if TYPE_CHECKING:
    import subprocess

    from guard import Guard

PROTOBUF = "application/x-protobuf"


class Monitor:
    """One `rag-monitor run`, that may be stopped and started again on its ports and store."""

    def __init__(
        self, guard: Guard, folder: Path, settings: Mapping[str, object], *, http: int, within: Sequence[str]
    ) -> None:
        self._guard, self._folder, self._within = guard, folder, within
        self.http, self.grpc, self.web = http, free_port(), free_port()
        self.log = folder / "monitor.log"
        self._process: subprocess.Popen[bytes] | None = None
        defaults = {
            "collectors": [
                {"kind": "otlp_http", "port": self.http},
                {"kind": "otlp_grpc", "port": self.grpc},
            ],
            "web": {"port": self.web},
        }
        self.settings = {**defaults, **settings}
        self._file = folder / "rag-monitor.yaml"
        self._file.write_text(yaml.safe_dump(self.settings))

    def start(self) -> None:
        """Return when it answers."""
        command = [*self._within, Path(sys.executable).with_name("rag-monitor"), "run", "-c", self._file]
        self._process = self._guard.start(command, folder=self._folder, log=self.log, environment=dict(os.environ))
        wait_until(self._answers, "the monitor to start", seconds=60)

    @property
    def pid(self) -> int:
        """Its process; another one after a restart."""
        assert self._process is not None
        return self._process.pid

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Return its exit status."""
        if self._process is None:
            return 0
        self._guard.stop(self._process, how)
        status, self._process = self._process.returncode, None
        return status

    def ask(
        self, port: int, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Return the reply to one request."""
        return send(("127.0.0.1", port), method, path, body, headers)

    def post(self, body: bytes) -> Answer:
        """Return the reply to an OTLP request."""
        return self.ask(self.http, "POST", "/v1/traces", body, {"Content-Type": PROTOBUF})

    def ready(self) -> tuple[int, Mapping[str, str]]:
        """Return the status and the problems that `/readyz` tells."""
        reply = self.ask(self.web, "GET", "/readyz")
        return reply.status, json.loads(reply.body)["problems"]

    def metrics(self) -> str:
        """Return the metrics page."""
        return self.ask(self.web, "GET", "/metrics").body.decode()

    def _answers(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(f"the monitor ended with\n{self.log.read_text()}")
        try:
            return (
                self.ask(self.http, "GET", "/v1/traces").status == 405
                and self.ask(self.web, "GET", "/healthz").status == 200
            )
        except OSError:
            return False


StartMonitor = Callable[..., Monitor]


@pytest.fixture
def monitor(guard: Guard, tmp_path: Path) -> Iterator[StartMonitor]:
    """Starts monitors; `settings` are laid over two OTLP collectors and a store in a folder of their own.

    Settings of other collectors say where `http` listens; `within` is a command that the monitor is started by.
    """
    with ExitStack() as running:

        def start(
            settings: Mapping[str, object] | None = None, *, http: int | None = None, within: Sequence[str] = ()
        ) -> Monitor:
            folder = tmp_path / f"monitor-{len(list(tmp_path.glob('monitor-*')))}"
            folder.mkdir()
            made = Monitor(guard, folder, settings or {}, http=http or free_port(), within=within)
            running.callback(made.stop, signal.SIGKILL)
            made.start()
            return made

        yield start


def turns(count: int, *, first: int = 1, text: str = "What is the fee?") -> bytes:
    """Return a request of `count` traces of three spans."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "helpdesk"
    scope = resource.scope_spans.add()
    scope.scope.name = "demo.rag"
    now = int(datetime.now(UTC).timestamp() * 1e9)
    for number in range(first, first + count):
        root = (4 * number).to_bytes(8)
        for place, kind in enumerate(("CHAIN", "RETRIEVER", "LLM")):
            span = scope.spans.add(trace_id=number.to_bytes(16), span_id=(4 * number + place).to_bytes(8))
            span.parent_span_id = root if place else b""
            span.name, span.kind = kind.lower(), 1
            span.start_time_unix_nano, span.end_time_unix_nano = now + place, now + 1_000_000 + place
            for key, value in (("openinference.span.kind", kind), ("input.value", text), ("output.value", "12 euros.")):
                span.attributes.add(key=key).value.string_value = value
    return request.SerializeToString()


@pytest.fixture(scope="session")
def make_turns() -> Callable[..., bytes]:
    """Builds requests of `count` traces of three spans, numbered from `first`."""
    return turns


def count_spans(url: str) -> dict[tuple[str, str], int]:
    """Return how often each span is in the store at `url`, whatever became of it since."""
    store = open_store(url, migrate=False)
    try:
        with store._database.reading("counting") as connection:  # noqa: SLF001 -- settled traces are due no more
            traces = connection.exec_driver_sql("SELECT DISTINCT trace_id FROM spans").scalars().all()
        found: dict[tuple[str, str], int] = {}
        for at in range(0, len(traces), 500):
            for fragments in store.fragments(traces[at : at + 500]).values():
                for one in fragments:
                    for span in decode_otlp(one.fragment).spans:
                        key = span.trace_id, span.span_id
                        found[key] = found.get(key, 0) + 1
        return found
    finally:
        store.close()


@pytest.fixture(scope="session")
def stored_spans() -> Callable[[str], dict[tuple[str, str], int]]:
    """Counts the spans of a store by trace and span id."""
    return count_spans
