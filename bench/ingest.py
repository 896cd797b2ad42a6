"""Spans per second made durable over OTLP, on a SQLite file with full sync or on PostgreSQL, and what they cost.

The server is a process of its own; the load comes from this one, whose CPU is shown apart. `--probe` runs, in turn
with ours, a bare receiver that parses, walks all attributes and writes a row per trace to SQLite.

    python bench/ingest.py --grpc --probe
    python bench/ingest.py --store postgresql+psycopg://user:password@host/empty_database --processes 2
"""

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Self

import psycopg
import uvloop
from _ingest_load import SPANS_PER_TURN, Bodies, Result, connected, saturate, steady
from soak import cpu_seconds, monitor

SHAPES = ((129, 4, False), (256, 4, False), (256, 4, True), (513, 64, False))
"""Spans per request, connections, gzip."""
WHOLE_SECONDS = 15.0
MOST_MIB = 200
"""What the whole monitor may take, at any load."""


@dataclass
class Round:
    """One round against one server."""

    result: Result
    spans: int
    server_cpu: float
    load_cpu: float
    rss_mib: float
    """The server's peak so far."""

    @property
    def spans_per_second(self) -> float:
        """Spans acknowledged per second."""
        return self.spans / self.result.seconds


class Serving:
    """Server processes on a fresh database, ended at exit; of a database that is given, everything is dropped first."""

    def __init__(self, kind: str, *, store: str | None = None, processes: int = 1) -> None:
        self.kind, self._store, self._count = kind, store, processes

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory()
        if self._store:
            with psycopg.connect(self._store.replace("+psycopg", ""), autocommit=True) as connection:
                connection.execute("DROP SCHEMA public CASCADE")
                connection.execute("CREATE SCHEMA public")
        url = self._store or f"sqlite:///{self._folder.name}/bench.db"
        script = Path(__file__).with_name("_ingest_servers.py")
        self._processes, self.ports = [], []
        for _ in range(self._count):
            process = subprocess.Popen([sys.executable, str(script), self.kind, url], stdout=subprocess.PIPE)
            self._processes.append(process)
            self.ports.append(int(process.stdout.readline()))
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.terminate()
            process.wait(20)
            process.stdout.close()
        self._folder.cleanup()

    def cpu(self) -> float:
        """Return the CPU seconds they have used; PostgreSQL's own are not among them."""
        return sum(cpu_seconds(process.pid) for process in self._processes)

    def rss(self) -> float:
        """Return the most memory that one of them has held, in MiB."""
        return max(peak_mib(process.pid) for process in self._processes)


def peak_mib(pid: int) -> float:
    """Return the most memory that a process has held, in MiB."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024


async def run(serving: Serving, bodies: Bodies, shape: tuple, seconds: float, rate: float | None = None) -> Round:
    """Return one round; `rate` in requests per second, None for as many as go."""
    _, connections, compress = shape
    shared = connections // len(serving.ports)
    clients = [
        client for port in serving.ports for client in await connected(serving.kind, port, shared, compress=compress)
    ]
    server, load = serving.cpu(), time.process_time()
    if rate is None:
        result = await saturate(clients, bodies, seconds)
    else:
        result = await steady(clients, bodies, seconds, per_second=rate)
    spent = serving.cpu() - server, time.process_time() - load
    for client in clients:
        await client.close()
    return Round(result, result.answered * bodies.spans, *spent, serving.rss())


async def run_whole(bodies: Bodies, shape: tuple, seconds: float) -> Round:
    """Return a round against all of `rag-monitor run`, saturated by the largest requests: its memory is what counts."""
    with (
        tempfile.TemporaryDirectory() as folder,
        monitor(f"sqlite:///{folder}/monitor.db", folder, proxy=True) as (process, http, _),
    ):
        clients = await connected("http", http, shape[1], compress=shape[2])
        server, load = cpu_seconds(process.pid), time.process_time()
        result = await saturate(clients, bodies, seconds)
        spent = cpu_seconds(process.pid) - server, time.process_time() - load
        for client in clients:
            await client.close()
        return Round(result, result.answered * bodies.spans, *spent, peak_mib(process.pid))


def show(name: str, rounds: list[Round]) -> None:
    """Print the medians of the rounds of one shape."""
    latencies = [1000 * latency for one in rounds for latency in one.result.latencies]
    cuts = quantiles(latencies, n=20)
    per_100k = [1e5 / one.spans for one in rounds]
    refused = sum(one.result.refused for one in rounds)
    print(
        f"{name:34} {median(one.spans_per_second for one in rounds):8,.0f} spans/s"
        f"  server {median(one.server_cpu * f for one, f in zip(rounds, per_100k, strict=True)):5.2f}"
        f"  load {median(one.load_cpu * f for one, f in zip(rounds, per_100k, strict=True)):5.2f} CPU s/100k"
        f"  p50 {cuts[9]:6.1f}  p95 {cuts[18]:6.1f} ms  RSS {max(one.rss_mib for one in rounds):4.0f} MiB"
        + (f"  {refused} refused" if refused else ""),
        flush=True,
    )


def main() -> None:
    """Parse arguments, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--grpc", action="store_true", help="also over gRPC")
    parser.add_argument("--probe", action="store_true", help="also the bare receiver, in turn with ours")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5, help="of one round")
    parser.add_argument("--store", help="URL of a PostgreSQL database of which EVERYTHING IS DROPPED")
    parser.add_argument("--processes", type=int, default=1, help="of the monitor, on the one database")
    arguments = parser.parse_args()
    if arguments.probe and (arguments.store or arguments.processes > 1):
        parser.error("--probe is one process on SQLite")
    kinds = ["http", *(["grpc"] if arguments.grpc else []), *(["probe"] if arguments.probe else [])]
    shown = False
    for shape in SHAPES:
        spans, connections, compress = shape
        bodies = Bodies(spans, compress=compress)
        if not shown:
            size = len(bodies.template) / bodies.spans
            print(
                f"a turn: {SPANS_PER_TURN} spans (root, retriever of 5 x 600 characters, LLM), {size:,.0f} bytes a span"
            )
            shown = True
        name = f"{spans} spans x {connections} connections{' gzip' if compress else ''}"
        # The probe reads no gzip, and a gRPC client cannot send what was compressed beforehand.
        compared = ["http"] if compress else kinds
        rounds: dict[str, list[Round]] = {kind: [] for kind in compared}
        for _ in range(arguments.rounds):
            for kind in compared:
                with Serving(kind, store=arguments.store, processes=arguments.processes) as serving:
                    rounds[kind].append(uvloop.run(run(serving, bodies, shape, arguments.seconds)))
        for kind in compared:
            show(f"{kind}: {name}", rounds[kind])
        if shape == SHAPES[0]:
            rate = median(one.spans_per_second for one in rounds["http"]) / bodies.spans / 2
            with Serving("http", store=arguments.store, processes=arguments.processes) as serving:
                half = uvloop.run(run(serving, bodies, shape, 2 * arguments.seconds, rate))
            show("http: the same at half load", [half])
    if not arguments.store:
        whole = uvloop.run(run_whole(bodies, shape, WHOLE_SECONDS))
        show(f"rag-monitor run: {name}", [whole])
        print(f"the whole monitor held {whole.rss_mib:.0f} MiB at the most; {MOST_MIB} are wanted")


if __name__ == "__main__":
    main()
