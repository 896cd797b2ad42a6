"""PostgreSQL behind PgBouncer, Kafka, and the processes of the monitor, each with a clock that jumps while it runs."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from _chaos_senders import TOPICS, Ports
from _ports import accepts, free_port

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "services"))

from guard import Guard  # noqa: E402 -- found through the path above
from kafka_service import KafkaBroker, find_java, kafka_home  # noqa: E402
from pgbouncer_service import PgBouncer, find_pgbouncer  # noqa: E402
from postgres_service import PostgresServer, find_binaries  # noqa: E402

STOP_SECONDS = 20.0
"""What SIGTERM is promised to take at the most."""
_HANGS_SECONDS = 60.0
_ROLES = ("", "ingest", "", "score", "schedule", "ingest", "score", "schedule")
_JUMPS = (86_400, -86_400)
_SETTINGS = """
store: {{url: "{store}"}}
web: {{port: {web}}}
log: {{level: INFO}}
assemble: {{every: 500ms, quiet: 2s}}
sample: {{every: 1s, rate: 1, rules: [{{metric: groundedness, rate: 0.3}}]}}
metrics: [relevance, groundedness]
judge:
  {{kind: openai, base_url: "http://127.0.0.1:{stubs}/v1", api_key: none, model: judge-1, timeout: 4s}}
score: {{backoff: 1s}}
rollup: {{every: 2s, window: {window}s, lateness: {lateness}s}}
detect: {{every: 2s, reference: {reference}s, min_reference_windows: 4, false_alarms_per_month: 1000}}
alert: {{every: 1s, backoff: 1s}}
channels: [{{kind: webhook, name: pager, url: "http://127.0.0.1:{stubs}/hook", timeout: 3s}}]
collectors:
  - {{kind: otlp_http, port: {http}}}
  - {{kind: otlp_grpc, port: {grpc}}}
  - kind: kafka
    bootstrap_servers: ["{kafka}"]
    topics: {{{spans}: {{}}, {turns}: {{encoding: turns}}}}
    session_timeout: 6s
    check_every: 3s
    reopen_after: 15s
"""


@dataclass(frozen=True)
class Pace:
    """How long things last, in seconds."""

    window: int
    lateness: int
    reference: int
    cycle: float
    """An app is good for three fifths of it and bad for the rest, over and over."""

    def bad(self, place: int, after: float, rng: random.Random) -> bool:
        """Whether a turn is bad, of the app at `place` in the list, so long after the start."""
        phase = after / self.cycle - (0.5 if place % 2 and after > self.cycle / 2 else 0)
        return rng.random() < (0.7 if phase % 1 > 0.6 else 0.03)


class WallClock:
    """What time it is for programs with this environment; steady clocks stay as they are."""

    def __init__(self, folder: Path, name: str) -> None:
        library = folder / "clock.so"
        if not library.exists():
            source = Path(__file__).with_name("_chaos_clock.c")
            subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        self._ahead = folder / f"clock-{name}"
        self._ahead.write_bytes(bytes(8))
        self.environment = {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(self._ahead)}

    def set(self, seconds: int) -> None:
        """Set it so far from the real time."""
        with self._ahead.open("r+b", buffering=0) as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))


class Servers:
    """The services that the monitor needs."""

    def __init__(self, guard: Guard, folder: Path) -> None:
        binaries, pooler, java = find_binaries(), find_pgbouncer(), find_java()
        if binaries is None or pooler is None or java is None:
            raise SystemExit("looking for what it needs: PostgreSQL, PgBouncer and Java 17, one of which is not here")
        self.clock = WallClock(folder, "postgres")
        self.postgres = PostgresServer(binaries, guard, environment=self.clock.environment)
        self.pooler = PgBouncer(pooler, self.postgres, guard)
        self.kafka = KafkaBroker(java, kafka_home(), guard)
        for topic in TOPICS.values():
            self.kafka.create_topic(topic, partitions=4, configuration={})
        self._database = self.postgres.url(self.postgres.create_database())
        self.url = self.pooler.url(self._database)

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """Open a connection past the pooler."""
        return psycopg.connect(self._database.replace("+psycopg", ""), autocommit=True, connect_timeout=10)

    def end_a_backend(self) -> None:
        """End one of PostgreSQL's sessions of the monitor."""
        with self.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"
            )


@dataclass
class Process:
    """One process of the monitor, started again whenever it ended."""

    number: int
    role: str
    ports: Ports
    settings: Path
    clock: WallClock
    log: Path
    guard: Guard
    running: subprocess.Popen[bytes] | None = None
    _said_before: int = 0

    @property
    def has_started(self) -> bool:
        """Whether it is at work; before that, SIGTERM ends it as it ends any program."""
        with self.log.open("rb") as log:
            log.seek(self._said_before)
            return b"started: roles" in log.read()

    def start(self) -> None:
        """Start it; does not wait until it listens."""
        command = [Path(sys.executable).with_name("rag-monitor"), "run", "-c", self.settings]
        self._said_before = self.log.stat().st_size if self.log.exists() else 0
        environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "HOME") if name in os.environ}
        self.running = self.guard.start(
            [*command, *(["--role", self.role] if self.role else [])],
            folder=self.log.parent,
            log=self.log,
            environment=environment | self.clock.environment,
        )

    def died(self) -> int | None:
        """The status with which it ended, though nobody had asked for that; None while it runs."""
        return None if self.running is None else self.running.poll()

    def kill(self) -> None:
        """End it at once."""
        assert self.running is not None
        self.guard.stop(self.running, signal.SIGKILL)
        self.running = None

    async def terminate(self) -> tuple[float, int | None]:
        """Seconds from SIGTERM to its end, and its status; None where it had to be killed."""
        process, self.running = self.running, None
        assert process is not None
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        while process.poll() is None and time.monotonic() - began < _HANGS_SECONDS:  # noqa: ASYNC110 -- it has no event
            await asyncio.sleep(0.05)
        took, status = time.monotonic() - began, process.poll()
        self.guard.stop(process, signal.SIGKILL)
        return took, status


@dataclass
class Monitor:
    """All processes, what is done to them, and what of that went wrong."""

    servers: Servers
    processes: Sequence[Process]
    rng: random.Random
    done: Counter[str] = field(default_factory=Counter)
    stops: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def ingesting(self) -> list[Ports]:
        """Where telemetry is taken."""
        return [process.ports for process in self.processes if process.role in {"", "ingest"}]

    async def start(self) -> None:
        """Return when all take telemetry."""
        for process in self.processes:
            process.start()
        for ports in self.ingesting:
            while not (accepts(ports.http) and accepts(ports.grpc)):
                for process in self.processes:
                    if process.died() is not None:
                        raise SystemExit(f"the monitor does not start:\n{process.log.read_text()[-3000:]}")
                await asyncio.sleep(0.1)

    def look(self) -> None:
        """Note each process that ended by itself, and start it again."""
        for process in self.processes:
            if (status := process.died()) is not None:
                self.faults.append(f"process {process.number} ({process.role or 'all'}) ended with {status}")
                process.start()

    async def hurt(self) -> None:
        """Do one of the things that happen to processes, and start again what it ended."""
        self.look()
        process = self.rng.choice(self.processes)
        kinds = {"kill -9": 70, "SIGTERM": 15, "backend": 10, "PostgreSQL": 3, "Kafka": 2}
        kind = self.rng.choices(list(kinds), list(kinds.values()))[0]
        self.done[kind] += 1
        match kind:
            case "kill -9":
                process.kill()
                process.start()
            case "SIGTERM":
                await self.stop(process)
                process.start()
            case "backend":
                await asyncio.to_thread(self.servers.end_a_backend)
            case "PostgreSQL":
                await asyncio.to_thread(self.servers.postgres.kill)
                await asyncio.to_thread(self.servers.postgres.start)
            case _:
                await asyncio.to_thread(self.servers.kafka.kill)
                await asyncio.to_thread(self.servers.kafka.start)

    async def stop(self, process: Process) -> None:
        """Stop a process by SIGTERM and hold it to what is promised."""
        expected = {0} if process.has_started else {0, -signal.SIGTERM}
        took, status = await process.terminate()
        self.stops.append(took)
        if status not in expected or took > STOP_SECONDS:
            name = f"process {process.number} ({process.role or 'all'})"
            self.faults.append(f"{name} took {took:.1f} s to end after SIGTERM, status {status}")

    async def jump(self, seconds: float) -> None:
        """Set one clock, or that of all processes, or PostgreSQL's, by a day, and after some time right again."""
        kind = self.rng.choice(("clock of one", "clock of all", "clock of PostgreSQL"))
        clocks = {
            "clock of one": [self.rng.choice(self.processes).clock],
            "clock of all": [process.clock for process in self.processes],
            "clock of PostgreSQL": [self.servers.clock],
        }[kind]
        offset = self.rng.choice(_JUMPS)
        self.done[f"{kind} {offset:+,} s"] += 1
        for clock in clocks:
            clock.set(offset)
        await asyncio.sleep(seconds)
        for clock in clocks:
            clock.set(0)


def monitor(
    servers: Servers, guard: Guard, folder: Path, rng: random.Random, *, count: int, stubs: int, pace: Pace
) -> Monitor:
    """Prepare `count` processes on one database."""
    processes = []
    for number in range(count):
        ports, web = Ports(free_port(), free_port()), free_port()
        settings = folder / f"monitor-{number}.yaml"
        settings.write_text(
            _SETTINGS.format(
                store=servers.url,
                kafka=servers.kafka.bootstrap,
                web=web,
                http=ports.http,
                grpc=ports.grpc,
                stubs=stubs,
                window=pace.window,
                lateness=pace.lateness,
                reference=pace.reference,
                **TOPICS,
            )
        )
        clock = WallClock(folder, str(number))
        log = folder / f"monitor-{number}.log"
        processes.append(Process(number, _ROLES[number % len(_ROLES)], ports, settings, clock, log, guard))
    return Monitor(servers, processes, rng)


def keep(folder: Path, target: Path) -> None:
    """Copy logs, settings and the journal to where somebody can look at them."""
    shutil.copytree(folder, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("clock*"))
