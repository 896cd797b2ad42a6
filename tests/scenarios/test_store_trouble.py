"""A store that cannot be written while telemetry arrives: told, waited for, recovered from without a restart."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import psycopg
import pytest
from deadline import wait_until
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from monitor.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from postgres_service import PostgresServer

    from tests.scenarios.conftest import Monitor, StartMonitor

    RunToItsEnd = Callable[[str, list[str]], subprocess.CompletedProcess[str]]
    MakeTurns = Callable[..., bytes]
    StoredSpans = Callable[[str], dict[tuple[str, str], int]]

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
TURNS = 20


def spans(first: int, count: int) -> Counter[tuple[str, str]]:
    """Return the spans of `count` turns numbered from `first`, each once."""
    return Counter(
        (f"{number:032x}", f"{4 * number + place:016x}") for number in range(first, first + count) for place in range(3)
    )


def call(running: Monitor, body: bytes) -> grpc.StatusCode:
    """Return the status of a call; one that says to come again must say when."""
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        try:
            channel.unary_unary(EXPORT)(body, timeout=60)
        except grpc.RpcError as error:
            status = Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
            retry = RetryInfo()
            assert status.details[0].Unpack(retry)
            assert retry.retry_delay.seconds >= 1
            return error.code()
    return grpc.StatusCode.OK


def trouble(
    running: Monitor, make_turns: MakeTurns, *, begin: Callable[[], object], end: Callable[[], object], reason: str
) -> None:
    """Send 20 turns before, during and after the trouble, over HTTP and gRPC, as a patient sender would."""
    over_http, over_grpc = (make_turns(TURNS, first=first) for first in (1001, 2001))
    assert 200 == running.post(make_turns(TURNS)).status
    process = running.pid
    begin()
    refused = running.post(over_http)
    assert 503 == refused.status, refused
    assert int(refused.headers["retry-after"]) >= 1
    assert (503, f"{reason}: {StoreUnavailable.MEANINGS[reason]}") == (running.ready()[0], running.ready()[1]["intake"])
    assert grpc.StatusCode.UNAVAILABLE == call(running, over_grpc)
    assert 200 == running.ask(running.web, "GET", "/healthz").status
    assert f'rag_monitor_intake_failed_total{{reason="{reason}"}}' in running.metrics()
    assert 1 == len(
        [line for line in running.log.read_text().splitlines() if "WARNING monitor.runtime.intake: " in line]
    )
    end()
    wait_until(lambda: running.post(over_http).status == 200, "the store to take it", seconds=30)
    assert grpc.StatusCode.OK == call(running, over_grpc)
    wait_until(lambda: running.ready()[0] == 200, "the monitor to be ready", seconds=30)
    assert process == running.pid


EXPECTED = spans(1, TURNS) + spans(1001, TURNS) + spans(2001, TURNS)


@pytest.fixture(scope="module")
def unshare() -> str:
    """The command that gives a process mounts of its own."""
    found = shutil.which("unshare")
    if found is None or subprocess.run([found, "-m", "true"], check=False, capture_output=True).returncode:
        pytest.skip("mounts of a process of its own are not allowed here (unshare -m)")
    return found


def on_small_disk(unshare: str, folder: Path, *, mebibytes: int, options: str = "rw") -> list[str]:
    """Return the command that starts another one with a disk of so many MiB, seen by it alone, at `folder`."""
    mount = f"mount -t tmpfs -o size={mebibytes}m,{options} none {folder}"
    return [unshare, "-m", "sh", "-c", f'{mount} && exec "$@"', "sh"]


def test_full_disk(
    monitor: StartMonitor, unshare: str, tmp_path: Path, make_turns: MakeTurns, stored_spans: StoredSpans
) -> None:
    """A full disk is `storage_full` until there is room; nothing acknowledged is lost, and the file is sound."""
    disk = tmp_path / "disk"
    disk.mkdir()
    settings = {"store": {"url": f"sqlite:///{disk / 'monitor.db'}"}}
    running = monitor(settings, within=on_small_disk(unshare, disk, mebibytes=16))
    seen = Path(f"/proc/{running.pid}/root{disk}")
    ballast = seen / "ballast"

    def fill() -> None:
        with suppress(OSError), ballast.open("wb", buffering=0) as out:
            while out.write(bytes(4096)):
                pass

    trouble(running, make_turns, begin=fill, end=ballast.unlink, reason="storage_full")
    # SQLite would follow the link into our own file system, so it is given a copy; a frozen process writes nothing.
    copy = tmp_path / "copy"
    os.kill(running.pid, signal.SIGSTOP)
    shutil.copytree(seen, copy)
    os.kill(running.pid, signal.SIGCONT)
    with closing(sqlite3.connect(copy / "monitor.db")) as connection:
        assert [("ok",)] == connection.execute("PRAGMA integrity_check").fetchall()
    assert stored_spans(f"sqlite:///{copy / 'monitor.db'}") == EXPECTED


def test_disk_that_refuses(
    monitor: StartMonitor, make_turns: MakeTurns, stored_spans: StoredSpans, tmp_path: Path
) -> None:
    """A disk whose writes fail is `unreachable` until they succeed."""
    prlimit = shutil.which("prlimit")
    if prlimit is None:
        pytest.skip("no prlimit to make the writes of a process fail")
    database = tmp_path / "monitor.db"
    running = monitor({"store": {"url": f"sqlite:///{database}"}})

    def limit(size: str) -> None:
        subprocess.run([prlimit, f"--pid={running.pid}", f"--fsize={size}:unlimited"], check=True)

    trouble(
        running,
        make_turns,
        # It bounds files, as no read-only file system can be laid under one that is open for writing.
        begin=lambda: limit("4096"),
        end=lambda: limit("unlimited"),
        reason="unreachable",
    )
    assert stored_spans(f"sqlite:///{database}") == EXPECTED


def test_read_only_disk_at_the_start(run_to_its_end: RunToItsEnd, unshare: str, tmp_path: Path) -> None:
    """On a disk that is read-only from the start the monitor ends with status 1 and says why."""
    disk = tmp_path / "disk"
    disk.mkdir()
    ended = run_to_its_end(f"sqlite:///{disk / 'monitor.db'}", on_small_disk(unshare, disk, mebibytes=1, options="ro"))
    assert 1 == ended.returncode
    assert "Traceback" not in ended.stderr
    assert ": read_only (" in ended.stderr


DISK = """
import sys
from pathlib import Path
from monitor.store.driver_errors import of_disk
disk, ballast = Path(sys.argv[1]), int(sys.argv[2])
if ballast:
    Path(disk, "ballast").write_bytes(bytes(ballast))
print(of_disk(disk / "monitor.db"))
"""


@pytest.mark.parametrize(
    ("options", "ballast", "reason"),
    [("rw", 0, "None"), ("rw", 2**20, "storage_full"), ("ro", 0, "read_only"), ("rw,nr_inodes=1", 0, "storage_full")],
)
def test_what_the_disk_tells(unshare: str, tmp_path: Path, options: str, ballast: int, reason: str) -> None:
    """What SQLite calls an I/O error is told as a full or read-only disk where it is one.

    No disk becomes read-only under a file that is open for writing but by a failure, so only the disk is asked here.
    """
    within = on_small_disk(unshare, tmp_path, mebibytes=1, options=options)
    command = [*within, sys.executable, "-c", DISK, tmp_path, str(ballast)]
    assert f"{reason}\n" == subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def run_to_its_end(tmp_path: Path) -> RunToItsEnd:
    """Runs a monitor that is expected to end by itself."""

    def run(url: str, within: list[str]) -> subprocess.CompletedProcess[str]:
        command = [*within, str(Path(sys.executable).with_name("rag-monitor")), "run", "--store", url]
        return subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=60)

    return run


HOLD = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
time.sleep(float(sys.argv[2]))
connection.execute("ROLLBACK")
"""


def test_locked_for_a_while(
    monitor: StartMonitor, make_turns: MakeTurns, stored_spans: StoredSpans, tmp_path: Path
) -> None:
    """While another process holds the write lock for 4 s, twenty senders wait, and each is answered with 200."""
    database = tmp_path / "monitor.db"
    running = monitor({"store": {"url": f"sqlite:///{database}"}})
    with subprocess.Popen([sys.executable, "-c", HOLD, database, "4"], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert b"locked\n" == holder.stdout.readline()
        began = time.monotonic()
        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda number: running.post(make_turns(1, first=number)).status, range(1, 21)))
        assert [200] * 20 == answers
        assert time.monotonic() - began > 3
    assert stored_spans(f"sqlite:///{database}") == spans(1, 20)


def test_locked_for_long(
    monitor: StartMonitor, make_turns: MakeTurns, stored_spans: StoredSpans, tmp_path: Path
) -> None:
    """A lock that is held past our patience of 10 s is `locked`: 503, and recovery when it goes."""
    database = tmp_path / "monitor.db"
    running = monitor({"store": {"url": f"sqlite:///{database}"}})
    with closing(sqlite3.connect(database, isolation_level=None, timeout=30)) as other:
        trouble(
            running,
            make_turns,
            begin=lambda: other.execute("BEGIN IMMEDIATE"),
            end=lambda: other.execute("ROLLBACK"),
            reason="locked",
        )
    assert stored_spans(f"sqlite:///{database}") == EXPECTED


def test_stopped_postgresql(
    monitor: StartMonitor,
    postgres_server: PostgresServer,
    postgres_url: str,
    make_turns: MakeTurns,
    stored_spans: StoredSpans,
) -> None:
    """PostgreSQL that was stopped is `unreachable`; started again, it is used without a restart of ours."""
    running = monitor({"store": {"url": postgres_url}})
    trouble(running, make_turns, begin=postgres_server.stop, end=postgres_server.start, reason="unreachable")
    assert stored_spans(postgres_url) == EXPECTED


def test_crashed_postgresql(
    monitor: StartMonitor,
    postgres_server: PostgresServer,
    postgres_url: str,
    make_turns: MakeTurns,
    stored_spans: StoredSpans,
) -> None:
    """What was acknowledged before PostgreSQL crashed is there after it recovered."""
    running = monitor({"store": {"url": postgres_url}})
    trouble(running, make_turns, begin=postgres_server.kill, end=postgres_server.start, reason="unreachable")
    assert stored_spans(postgres_url) == EXPECTED


def test_read_only_postgresql(
    monitor: StartMonitor, postgres_url: str, make_turns: MakeTurns, stored_spans: StoredSpans
) -> None:
    """A database that takes no writes for a while, as in a switch-over, is `read_only` until it does."""
    running = monitor({"store": {"url": postgres_url}})
    plain = postgres_url.replace("+psycopg", "")

    def read_only(*, on: bool) -> None:
        with psycopg.connect(plain, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            name = connection.info.dbname
            connection.execute(
                f"ALTER DATABASE {name} SET default_transaction_read_only = {'on' if on else 'off'}".encode()
            )
            # The setting is for new sessions.
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
                (name,),
            )

    trouble(
        running,
        make_turns,
        begin=lambda: read_only(on=True),
        end=lambda: read_only(on=False),
        reason="read_only",
    )
    assert stored_spans(postgres_url) == EXPECTED
