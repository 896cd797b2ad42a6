"""Collectors of others that stand in front of the monitor: rotel, and the OpenTelemetry Collector in Go."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from deadline import wait_until
from guard import Guard, ServerEndedError
from loopback import accepts, free_port
from requirement import require_or_skip

_OTELCOL = Path(__file__).parents[2] / ".cache" / "otelcol" / "otelcol"
_SEEN = pytest.StashKey[set[str]]()


class Front:
    """A running collector that takes OTLP over gRPC at `port` and passes it on."""

    def __init__(self, guard: Guard, command: list[str | Path], folder: Path, *, port: int) -> None:
        self._guard, self.port = guard, port
        self._log = folder / "front.log"
        self._process = guard.start(command, folder=folder, log=self._log, environment=dict(os.environ))
        wait_until(self._accepts, "the collector in front to accept", seconds=30)

    def stop(self) -> None:
        """Let it send what it holds, and end it."""
        self._guard.stop(self._process, signal.SIGTERM)

    def _accepts(self) -> bool:
        if self._process.poll() is not None:
            raise ServerEndedError(f"the collector in front ended with\n{self._log.read_text()}")
        return accepts(self.port)


def rotel() -> Path | None:
    """Where the rotel binary is; its package ships it."""
    found = importlib.util.find_spec("rotel")
    places = found.submodule_search_locations if found else None
    return next((Path(place, "rotel-agent") for place in places or ()), None)


def otelcol() -> Path | None:
    """Where the OpenTelemetry Collector is that `make services` builds where Go is."""
    return _OTELCOL if _OTELCOL.exists() else None


StartFront = Callable[[str, Mapping[str, str]], Front]
"""Starts the collector of a name that exports as told: `http`, `grpc` or `kafka` -> where, and options."""


@pytest.fixture
def front(guard: Guard, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[StartFront]:
    """Starts collectors: `front("rotel", {"grpc": "127.0.0.1:4317"})`."""
    with ExitStack() as running:

        def start(name: str, to: Mapping[str, str]) -> Front:
            folder = tmp_path / f"front-{name}"
            folder.mkdir()
            binary = rotel() if name == "rotel" else otelcol()
            if binary is None:
                why = "not for this platform" if name == "rotel" else f"no {_OTELCOL} (`make services`, where Go is)"
                require_or_skip("collectors", f"{name}: {why}")
            request.config.stash.setdefault(_SEEN, set()).add(_version(binary))
            port = free_port()
            arguments = _rotel(to, port) if name == "rotel" else _otelcol(to, port, folder)
            made = Front(guard, [binary, *arguments], folder, port=port)
            running.callback(made.stop)
            return made

        yield start


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which collectors the tests had in front."""
    for version in sorted(config.stash.get(_SEEN, set())):
        terminalreporter.write_line(f"in front: {version}")


def _version(binary: Path) -> str:
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    return said.strip().splitlines()[0]


def _rotel(to: Mapping[str, str], port: int) -> list[str]:
    arguments = ["start", f"--otlp-grpc-endpoint=127.0.0.1:{port}", f"--otlp-http-endpoint=127.0.0.1:{free_port()}"]
    arguments += ["--batch-timeout=50ms"]
    if "kafka" in to:
        arguments += ["--exporter=kafka", f"--kafka-exporter-brokers={to['kafka']}"]
        arguments += [f"--kafka-exporter-traces-topic={to['topic']}", f"--kafka-exporter-format={to['format']}"]
        return arguments
    protocol = "http" if "http" in to else "grpc"
    address = f"http://{to[protocol]}"
    arguments += ["--exporter=otlp", f"--otlp-exporter-protocol={protocol}", f"--otlp-exporter-endpoint={address}"]
    return [*arguments, "--otlp-exporter-retry-initial-backoff=200ms", "--otlp-exporter-retry-max-backoff=1s"]


def _otelcol(to: Mapping[str, str], port: int, folder: Path) -> list[str]:
    retry = {"initial_interval": "200ms", "max_interval": "1s", "max_elapsed_time": "0s"}
    if "kafka" in to:
        exporter: dict[str, object] = {
            "brokers": [to["kafka"]],
            "traces": {"topic": to["topic"], "encoding": to["format"]},
            "partition_traces_by_id": to.get("partition_traces_by_id") == "true",
            "producer": {"compression": to.get("compression", "none")},
        }
        name = "kafka"
    elif "http" in to:
        name, exporter = "otlp_http", {"endpoint": f"http://{to['http']}", "compression": to.get("compression", "gzip")}
        exporter["encoding"] = to.get("encoding", "proto")
    else:
        name = "otlp_grpc"
        exporter = {"endpoint": to["grpc"], "tls": {"insecure": True}, "compression": to.get("compression", "gzip")}
    settings = {
        "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": {name: {**exporter, "retry_on_failure": retry}},
        "service": {
            # Its own metrics would take a port.
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": [name]}},
        },
    }
    file = folder / "otelcol.yaml"
    file.write_text(yaml.safe_dump(settings))
    return ["--config", f"file:{file}"]
