"""The product from outside: the installed command in a folder of its own, and apps that export to it."""

from __future__ import annotations

import http.client
import http.server
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from code_under_test import clean_environment
from deadline import wait_until
from guard import Guard
from http_request import send

COMMAND = Path(sys.executable).with_name("rag-monitor")
CHAT_APP = Path(__file__).parents[2] / "examples" / "chat_app"
_START_SECONDS = 40

Lines: TypeAlias = list[dict[str, Any]]


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> Lines:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


class Command:
    """`rag-monitor` in a folder of its own, with an environment that holds nothing of the test's but its code."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = clean_environment(folder)

    def start(self, *arguments: str | Path, **environment: str) -> subprocess.Popen[str]:
        """The running process."""
        return subprocess.Popen(
            [COMMAND, *arguments],
            cwd=self.folder,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def __call__(self, *arguments: str | Path, seconds: float = 120, **environment: str) -> Done:
        """What came of it."""
        with self.start(*arguments, **environment) as process:
            try:
                out, err = process.communicate(timeout=seconds)
            except BaseException:
                process.kill()
                raise
        return Done(process.returncode, out, err)

    def ok(self, *arguments: str | Path, **environment: str) -> Done:
        """What came of it, which must be success."""
        done = self(*arguments, **environment)
        assert done.status == 0, done.err
        return done

    def write(self, name: str, text: str) -> Path:
        """A file in the folder."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path


@dataclass
class Monitor:
    """A running `rag-monitor run`; what it wrote to standard error is in `log`."""

    process: subprocess.Popen[bytes]
    log: Path
    guard: Guard
    seen: int = field(default=0)

    def text(self) -> str:
        """What this process has logged."""
        return self.log.read_bytes()[self.seen :].decode()

    def address(self, name: str) -> str:
        """Host and port as announced."""
        found = re.search(rf"^{name}: listening on (\S+)", self.text(), re.MULTILINE)
        assert found, self.text()
        return found[1]

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of one of its pages."""
        address = re.search(r"^health and metrics: http://(\S+):(\d+)/metrics ", self.text(), re.MULTILINE)
        assert address, self.text()
        reply = send((address[1], int(address[2])), "GET", path)
        return reply.status, reply.body.decode()

    def metric(self, name: str, labels: str = "") -> float:
        """The value of the samples of a metric whose labels hold `labels`, added up."""
        sample = re.compile(rf"^rag_monitor_{name}(\{{.*\}})? (\S+)$", re.MULTILINE)
        return sum(float(value) for said, value in sample.findall(self.get("/metrics")[1]) if labels in (said or ""))

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Its exit status."""
        self.process.send_signal(how)
        status = self.process.wait(20)
        self.guard.stop(self.process, signal.SIGKILL)
        return status


Start: TypeAlias = Callable[..., Monitor]


InFolder: TypeAlias = Callable[[Path], Command]


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """Commands can be interrupted even where the tests run in a shell's background, which ignores Ctrl-C for all."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def in_folder() -> InFolder:
    """Makes the installed command that works in a folder."""
    return Command


@pytest.fixture
def rag_monitor(tmp_path: Path) -> Command:
    """The installed command, in an empty folder."""
    return Command(tmp_path)


@pytest.fixture
def quick(rag_monitor: Command) -> Path:
    """Settings of a monitor that listens on free ports and settles traces at once."""
    return rag_monitor.write(
        "quick.yaml",
        """
        store: {url: "sqlite:///monitor.db"}
        collectors: [{kind: otlp_http, port: 0}, {kind: otlp_grpc, port: 0}]
        web: {port: 0}
        assemble: {every: 200ms, quiet: 400ms}
        sample: {every: 200ms}
        rollup: {every: 300ms}
        """,
    )


@pytest.fixture
def start(rag_monitor: Command, guard: Guard) -> Iterator[Start]:
    """Starts `rag-monitor run` and returns when it accepts."""
    started: list[Monitor] = []

    def run(*arguments: str | Path, log: str = "run.log", **environment: str) -> Monitor:
        path = rag_monitor.folder / log
        seen = path.stat().st_size if path.exists() else 0
        process = guard.start(
            [COMMAND, "run", *arguments],
            folder=rag_monitor.folder,
            log=path,
            environment=rag_monitor.environment | environment,
        )
        monitor = Monitor(process, path, guard, seen)
        started.append(monitor)
        wait_until(
            lambda: "health and metrics: http" in monitor.text() or process.poll() is not None,
            "the monitor to start",
            seconds=_START_SECONDS,
        )
        assert process.poll() is None, monitor.text()
        return monitor

    yield run
    for monitor in started:
        guard.stop(monitor.process, signal.SIGKILL)


class _Recorder(http.server.BaseHTTPRequestHandler):
    """Keeps request bodies as files, as a recording proxy would."""

    protocol_version = "HTTP/1.1"
    folder: Path

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        number = sum(1 for _ in self.folder.iterdir()) + 1
        (self.folder / f"{number:03d}.traces.pb").write_bytes(body)
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Stay silent."""


def record(folder: Path, *arguments: str) -> None:
    """Run the chat app and keep what its stock exporter sends."""
    handler = type("Recorder", (_Recorder,), {"folder": folder})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,)).start()
        try:
            subprocess.run(
                [
                    sys.executable,
                    CHAT_APP,
                    "--endpoint",
                    f"http://127.0.0.1:{server.server_port}/v1/traces",
                    *arguments,
                ],
                check=True,
                stdout=subprocess.DEVNULL,
                timeout=120,
            )
        finally:
            server.shutdown()


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days of a chat app with a bad release in the middle, as OTLP request bodies."""
    folder = tmp_path_factory.mktemp("recorded")
    record(folder, "--days", "3", "--turns-per-hour", "8", "--start", "2026-03-02T00:00:00Z", "--stretch-hours", "6")
    return folder


@pytest.fixture(scope="session")
def golden() -> Path:
    """Two recorded request bodies: 14 turns around a release."""
    return Path(__file__).parents[1] / "golden" / "replay"
