"""kill -9 of a whole monitor under load, at random moments: what was acknowledged is there, once, and so are its turns.

Four senders (HTTP, HTTP with gzip, gRPC twice) keep it busy with batches of 10 turns; after each kill they repeat what
was not acknowledged, as exporters do. At the end each trace must have one fragment of 3 spans, one turn, one outcome.

    python bench/kill.py --kills 100
"""

import argparse
import asyncio
import gzip
import itertools
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import uvloop
from _ingest_load import SPANS_PER_TURN, Client, GrpcClient, HttpClient, connected, places, template
from _ports import accepts, free_port

TURNS_PER_BATCH = 10
MOST_BATCHES_PER_LIFE = 60
SETTINGS = """
store: {{url: "sqlite:///{folder}/monitor.db"}}
web: {{port: {web}}}
assemble: {{quiet: 1s}}
collectors:
  - {{kind: otlp_http, port: {http}}}
  - {{kind: otlp_grpc, port: {grpc}}}
"""


class Batches:
    """Numbered requests of ten turns; a trace id says of which batch it is."""

    def __init__(self) -> None:
        request = template(TURNS_PER_BATCH)
        self._template = request.SerializeToString()
        spans = request.resource_spans[0].scope_spans[0].spans
        ids = list(dict.fromkeys(span.trace_id for span in spans))
        self._places = [places(self._template, trace_id) for trace_id in ids]

    def body(self, number: int) -> bytes:
        """Return the batch of a number, the same each time."""
        out = bytearray(self._template)
        for trace, at in zip(traces(number), self._places, strict=True):
            for place in at:
                out[place : place + 16] = trace.to_bytes(16)
        return bytes(out)


def traces(number: int) -> range:
    """Return the trace ids of a batch."""
    return range(TURNS_PER_BATCH * number, TURNS_PER_BATCH * (number + 1))


@dataclass
class Senders:
    """What was sent, and what of it is acknowledged."""

    batches: Batches
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    acknowledged: set[int] = field(default_factory=set)
    open: set[int] = field(default_factory=set)

    async def send(self, client: Client, retries: Iterator[int], *, packed: bool, limit: int | None = None) -> None:
        """Send first what is open, then new batches, until the monitor dies or `limit` new ones were sent."""
        while (number := next(retries, None)) is not None or limit != 0:
            if number is None:
                number = next(self.numbers)
                limit = None if limit is None else limit - 1
            self.open.add(number)
            body = self.batches.body(number)
            if not await client.call(gzip.compress(body, 1) if packed else body):
                return
            self.acknowledged.add(number)
            self.open.discard(number)


class Monitor:
    """One `rag-monitor run` after the other on the same store and ports."""

    def __init__(self, folder: str) -> None:
        self.http, self.grpc, web = (free_port() for _ in range(3))
        self.database = Path(folder, "monitor.db")
        self._settings = Path(folder, "rag-monitor.yaml")
        self._settings.write_text(SETTINGS.format(folder=folder, http=self.http, grpc=self.grpc, web=web))
        self._process: subprocess.Popen[bytes] | None = None
        self._log = Path(folder, "monitor.log").open("ab")  # noqa: SIM115 -- closed with the process

    async def start(self) -> None:
        """Return when it accepts."""
        command = [Path(sys.executable).with_name("rag-monitor"), "run", "-c", self._settings]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)  # noqa: ASYNC220 -- forks, no wait
        for port in (self.http, self.grpc):
            while not accepts(port):
                if self._process.poll() is not None:
                    raise SystemExit(f"the monitor ended:\n{self.said()}")
                await asyncio.sleep(0.02)

    def said(self) -> str:
        """Return the end of its log."""
        return Path(self._log.name).read_text()[-3000:]

    def end(self, how: signal.Signals) -> None:
        """Return when it is gone, if it was there."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    async def clients(self) -> list[tuple[Client, bool]]:
        """Return the senders' connections, and whether each compresses."""
        (plain,) = await connected("http", self.http, 1, compress=False)
        (packed,) = await connected("http", self.http, 1, compress=True)
        over_grpc = await connected("grpc", self.grpc, 2, compress=False)
        return [(plain, False), (packed, True), *((client, False) for client in over_grpc)]


async def life(monitor: Monitor, senders: Senders, rng: random.Random) -> None:
    """Start the monitor, load it, and kill it at a random moment: after so many answers, and a little later."""
    await monitor.start()
    clients = await monitor.clients()
    retries = iter(sorted(senders.open))
    sending = [asyncio.create_task(senders.send(client, retries, packed=packed)) for client, packed in clients]
    enough = len(senders.acknowledged) + rng.randrange(MOST_BATCHES_PER_LIFE)
    while len(senders.acknowledged) < enough and not all(task.done() for task in sending):  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    await asyncio.sleep(rng.random() * 0.05)
    monitor.end(signal.SIGKILL)
    await asyncio.gather(*sending)
    await hang_up(clients)


async def hang_up(clients: list[tuple[Client, bool]]) -> None:
    """Close what is left of the connections."""
    for client, _ in clients:
        if isinstance(client, HttpClient | GrpcClient):
            with suppress(ConnectionError):
                await client.close()


async def finish(monitor: Monitor, senders: Senders) -> None:
    """Send what is open, and return when everything was assembled and scored."""
    await monitor.start()
    clients = await monitor.clients()
    await senders.send(clients[0][0], iter(sorted(senders.open)), packed=False, limit=0)
    await hang_up(clients)
    assert not senders.open
    while waiting(monitor.database):  # noqa: ASYNC110 -- another process has no event
        await asyncio.sleep(1)
    monitor.end(signal.SIGTERM)


def waiting(database: Path) -> int:
    """Return how many rows wait for a stage."""
    with closing(sqlite3.connect(database)) as connection:
        return int(
            connection.execute(
                "SELECT (SELECT count(*) FROM unassembled) + (SELECT count(*) FROM jobs) "
                "+ (SELECT count(*) FROM turns WHERE decided_at IS NULL)"
            ).fetchone()[0]
        )


def report(database: Path, senders: Senders) -> int:
    """Print what is lost and doubled, and return how much."""
    expected = {f"{trace:032x}" for number in senders.acknowledged for trace in traces(number)}
    with closing(sqlite3.connect(database)) as connection:
        spans = connection.execute("SELECT trace_id, count(*), sum(count) FROM spans GROUP BY trace_id").fetchall()
        turns = connection.execute("SELECT trace_id, count(*) FROM turns GROUP BY trace_id").fetchall()
        outcomes = connection.execute("SELECT turn_id, count(*) FROM outcomes GROUP BY turn_id").fetchall()
    lost = len(expected - {trace_id for trace_id, _, _ in spans})
    partial = sum(1 for _, fragments, count in spans if (fragments, count) != (1, SPANS_PER_TURN))
    without = len(expected - {trace_id for trace_id, _ in turns})
    doubled = sum(1 for _, count in turns if count != 1) + sum(1 for _, count in outcomes if count != 1)
    print(f"{len(expected):,} traces acknowledged: {lost} lost, {partial} with more or less than 3 spans")
    print(
        f"{len(turns):,} turns, {len(outcomes):,} with an outcome: {without} traces without a turn, {doubled} doubled"
    )
    return lost + partial + without + doubled + abs(len(turns) - len(outcomes))


async def main() -> int:
    """Kill, then check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=10, help="(%(default)d)")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    rng, senders, began = random.Random(seed), Senders(Batches()), time.perf_counter()  # noqa: S311
    with tempfile.TemporaryDirectory() as folder:
        monitor = Monitor(folder)
        try:
            for _ in range(options.kills):
                await life(monitor, senders, rng)
            print(f"{options.kills} kills in {time.perf_counter() - began:.0f} s, seed {seed}", flush=True)
            await finish(monitor, senders)
        finally:
            monitor.end(signal.SIGKILL)
        return int(report(monitor.database, senders) > 0)


if __name__ == "__main__":
    sys.exit(uvloop.run(main()))
