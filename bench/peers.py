"""Spans per second made durable, beside Phoenix and MLflow: the same requests, on the same machine, in turn.

Ours are durable when acknowledged. The others acknowledge first and store later, so their rows are counted in their own
SQLite files until all that was acknowledged is there, or time is up. They live in environments of their own:

    python bench/peers.py --install     # once: .cache/peers/{arize-phoenix,mlflow}, about 2 GB
    python bench/peers.py
"""

import argparse
import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import uvloop
from _environments import executable, install
from _ingest_load import Bodies, HttpClient
from _ports import free_port

PACKAGES = ("arize-phoenix", "mlflow")
SHAPES = ((129, 4, False), (256, 4, True), (513, 64, False))
"""Spans per request, connections, gzip."""
START_SECONDS = 180.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Peer:
    """One server of spans."""

    name: str
    command: Callable[[Path, int], Sequence[str | Path]]
    """Of its folder and port."""
    environment: Callable[[Path, int], dict[str, str]]
    ready: str
    """Path that answers once it serves."""
    headers: bytes
    database: str
    count: str
    """The query that counts stored spans."""


OURS = Peer(
    name="rag-monitor",
    command=lambda folder, _: (Path(sys.executable).with_name("rag-monitor"), "run", "-c", folder / "rag-monitor.yaml"),
    environment=lambda _, __: {},
    ready="/v1/traces",
    headers=b"",
    database="monitor.db",
    count="SELECT coalesce(sum(count), 0) FROM spans",
)
THEIRS = (
    Peer(
        name="Phoenix",
        command=lambda _, __: (executable("arize-phoenix", "phoenix"), "serve"),
        environment=lambda folder, port: {
            "PHOENIX_WORKING_DIR": str(folder),
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(port),
            "PHOENIX_GRPC_PORT": str(free_port()),
            "PHOENIX_TELEMETRY_ENABLED": "false",
        },
        ready="/healthz",
        headers=b"",
        database="phoenix.db",
        count="SELECT count(*) FROM spans",
    ),
    Peer(
        name="MLflow",
        command=lambda folder, port: (
            executable("mlflow", "mlflow"),
            "server",
            *("--backend-store-uri", f"sqlite:///{folder}/mlflow.db"),
            *("--default-artifact-root", folder / "artifacts"),
            *("--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        ),
        environment=lambda _, __: {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"},
        ready="/health",
        headers=b"x-mlflow-experiment-id: 0\r\n",
        database="mlflow.db",
        count="SELECT count(*) FROM spans",
    ),
)


class Serving:
    """A peer's process group on a fresh folder."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    def __enter__(self) -> Self:
        """Return when it answers."""
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        folder, self.port = Path(self._folder.name), free_port()
        (folder / "rag-monitor.yaml").write_text(
            f'store: {{url: "sqlite:///{folder}/monitor.db"}}\nweb: {{port: {free_port()}}}\n'
            f"collectors: [{{kind: otlp_http, port: {self.port}}}]\n"
        )
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            list(self.peer.command(folder, self.port)),
            cwd=folder,
            env={**os.environ, **self.peer.environment(folder, self.port)},
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        end = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{self.peer.name} did not start:\n{(folder / 'log').read_text()[-3000:]}")
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        """End it and all that it started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()
        self._folder.cleanup()

    def stored(self) -> int:
        """Return how many spans are in its database."""
        path = Path(self._folder.name, self.peer.database)
        with (
            suppress(sqlite3.OperationalError),
            closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection,
        ):
            return int(connection.execute(self.peer.count).fetchone()[0])
        return 0

    def cpu(self) -> float:
        """Return the CPU seconds of its processes so far."""
        total = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[3]) == self._process.pid:
                    total += int(fields[11]) + int(fields[12])
        return total / TICKS

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{self.peer.ready}", timeout=5):
                return True
        except urllib.error.HTTPError as error:
            return error.code == 405
        except OSError:
            return False


@dataclass
class Figures:
    """What one server did with one shape."""

    acknowledged: float
    """Spans per second, by its answers."""
    stored: float
    """Spans per second until all of these were in the database, or time was up."""
    missing: int
    cpu: float
    """CPU seconds per 100,000 stored spans."""


async def measure(peer: Peer, shape: tuple[int, int, bool], *, seconds: float, patience: float) -> Figures:
    """Load one server for `seconds`, then wait up to `patience` for what it acknowledged."""
    spans, connections, compress = shape
    bodies = Bodies(spans, compress=compress)
    with Serving(peer) as serving:
        head = b"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-protobuf\r\n" + peer.headers
        head += (b"Content-Encoding: gzip\r\n" if compress else b"") + b"Content-Length: %d\r\n\r\n"
        loop = asyncio.get_running_loop()
        clients = [
            (await loop.create_connection(lambda: HttpClient(head), "127.0.0.1", serving.port))[1]
            for _ in range(connections)
        ]
        cpu, began = serving.cpu(), time.perf_counter()
        answered = 0

        async def keep_busy(client: HttpClient) -> None:
            nonlocal answered
            while time.perf_counter() - began < seconds:
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds + patience):
                        good = await client.call(bodies.next())
                        answered += bodies.spans * good

        await asyncio.gather(*(keep_busy(client) for client in clients))
        acknowledged = answered / (time.perf_counter() - began)
        # Another process has no event to wait for.
        while (stored := serving.stored()) < answered and time.perf_counter() - began < seconds + patience:  # noqa: ASYNC110
            await asyncio.sleep(0.25)
        took = time.perf_counter() - began
        cpu = serving.cpu() - cpu
        for client in clients:
            await client.close()
    return Figures(acknowledged, stored / took, max(0, answered - stored), 1e5 * cpu / max(1, stored))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--install", action="store_true", help="make the peers' environments, then end")
    parser.add_argument("--seconds", type=float, default=8, help="of load per server and shape (%(default)g)")
    parser.add_argument(
        "--patience", type=float, default=45, help="seconds to wait for what was acknowledged (%(default)g)"
    )
    options = parser.parse_args()
    if options.install:
        install(dict.fromkeys(PACKAGES, ()))
        return
    for spans, connections, compress in SHAPES:
        print(f"{spans} spans x {connections} connections{', gzip' if compress else ''}")
        ours = None
        for peer in (OURS, *THEIRS):
            if not Path(peer.command(Path(), 0)[0]).exists():
                print(f"  {peer.name:12} not installed: python bench/peers.py --install")
                continue
            shape = (spans, connections, compress)
            found = uvloop.run(measure(peer, shape, seconds=options.seconds, patience=options.patience))
            ours = ours or found
            print(
                f"  {peer.name:12} acknowledged {found.acknowledged:8,.0f}/s  stored {found.stored:8,.0f}/s"
                f"  {found.cpu:6.1f} CPU s/100k  {found.missing:6,} of them not stored in time"
                + (
                    "" if found is ours else f"  ours stores {ours.stored / max(found.stored, 1e-9):,.0f} times as many"
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
