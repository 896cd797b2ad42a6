"""Reception in a process of its own: killed at any moment, and sent a bomb."""

from __future__ import annotations

import gzip
import http.client
import itertools
import json
import os
import random
import signal
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from deadline import wait_until
from http_request import export

from monitor.payloads.otlp.fragments import decode_otlp
from monitor.store.sql_store import open_store

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from guard import Guard

    from tests.services.otlp_service import MakeRequest

pytestmark = pytest.mark.long

KILLS = 12
SENDERS = 4
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@dataclass
class Server:
    """One life of the receiving process."""

    process: subprocess.Popen[bytes]
    http: int
    grpc: int

    def post(self, body: bytes, **headers: str) -> int:
        """Return the status of one request over HTTP."""
        return export(("127.0.0.1", self.http), body, headers).status

    def peak_mib(self) -> float:
        """Return the most memory the process has held so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def start(guard: Guard, tmp_path: Path, life: int = 0) -> Server:
    """Return the receiving process once it accepts."""
    log = tmp_path / f"server-{life}.log"
    script = Path(__file__).with_name("serve_otlp.py")
    command = [sys.executable, script, tmp_path / "spans.db"]
    process = guard.start(command, folder=tmp_path, log=log, environment=dict(os.environ))
    wait_until(lambda: b"}" in log.read_bytes() or process.poll() is not None, "the receiver to start", seconds=30)
    ports = json.loads(log.read_bytes().splitlines()[0])
    return Server(process, ports["http"], ports["grpc"])


@dataclass
class Senders:
    """Exporters in threads, that send batches of their own until the server dies under them."""

    batches: Iterator[tuple[int, bytes]]
    acknowledged: set[int] = field(default_factory=set)
    open: dict[int, bytes] = field(default_factory=dict)
    """Batches that were sent, or tried, and not acknowledged."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, server: Server) -> list[threading.Thread]:
        """Start sending: first what is open, then new batches."""
        retries = iter(list(self.open.items()))
        threads = [threading.Thread(target=self._send, args=(server, retries, kind)) for kind in range(SENDERS)]
        for thread in threads:
            thread.start()
        return threads

    def _send(self, server: Server, retries: Iterator[tuple[int, bytes]], kind: int) -> None:
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
            call = channel.unary_unary(EXPORT)
            while True:
                with self._lock:
                    number, body = next(retries, None) or next(self.batches)
                    self.open[number] = body
                try:
                    if kind == 0:
                        call(body, timeout=20)
                    elif kind == 1:
                        assert 200 == server.post(gzip.compress(body, 1), **{"Content-Encoding": "gzip"})
                    else:
                        assert 200 == server.post(body)
                except (OSError, http.client.HTTPException, grpc.RpcError):
                    return
                with self._lock:
                    self.acknowledged.add(number)
                    del self.open[number]


def test_killed_at_any_moment(guard: Guard, tmp_path: Path, make_request: MakeRequest) -> None:
    """After any kill -9, and once the rest is sent again, each acknowledged span is in the store exactly once."""
    seed = random.SystemRandom().randrange(2**32)
    rng = random.Random(seed)  # noqa: S311 -- moments, not secrets
    senders = Senders(
        (number, make_request(10, first=10 * number, text="word " * 200).SerializeToString())
        for number in itertools.count(1)
    )
    for life in range(KILLS):
        server = start(guard, tmp_path, life)
        threads = senders.run(server)
        enough = len(senders.acknowledged) + rng.randrange(60)
        wait_until(
            lambda enough=enough: len(senders.acknowledged) >= enough, f"acknowledgements (seed {seed})", seconds=30
        )
        server.process.kill()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        guard.stop(server.process, signal.SIGKILL)
    server = start(guard, tmp_path, KILLS)
    for number, body in senders.open.items():
        assert 200 == server.post(body)
        senders.acknowledged.add(number)
    guard.stop(server.process, signal.SIGTERM)
    assert 0 == server.process.returncode

    assert len(senders.acknowledged) > KILLS
    expected = Counter(
        (f"{trace:032x}", f"{3 * trace + place:016x}")
        for number in senders.acknowledged
        for trace in range(10 * number, 10 * number + 10)
        for place in (1, 2, 3)
    )
    assert expected == stored(tmp_path / "spans.db"), f"seed {seed}"


def stored(path: Path) -> Counter[tuple[str, str]]:
    """Return how often each span is in the database."""
    store = open_store(f"sqlite:///{path}")
    future = datetime(2100, 1, 1, tzinfo=UTC)
    traces = store.due(quiet_since=future, open_since=future, limit=10_000_000)
    deliveries: Counter[tuple[str, str]] = Counter()
    for first in range(0, len(traces), 500):
        for fragments in store.fragments(traces[first : first + 500]).values():
            for row in fragments:
                deliveries.update((span.trace_id, span.span_id) for span in decode_otlp(row.fragment).spans)
    store.close()
    return deliveries


def test_bomb(guard: Guard, tmp_path: Path, make_request: MakeRequest) -> None:
    """A small body that unpacks to 96 MiB is refused without ever being held, and the next request is kept."""
    server = start(guard, tmp_path)
    body = make_request(1).SerializeToString()
    assert 200 == server.post(gzip.compress(body), **{"Content-Encoding": "gzip"})
    before = server.peak_mib()
    for blanks in (gzip.compress(b" " * 96 * 1024 * 1024), gzip.compress(bytes(96 * 1024 * 1024))):
        assert 413 == server.post(blanks, **{"Content-Encoding": "gzip"})
    assert server.peak_mib() - before < 64
    assert 200 == server.post(body)
    guard.stop(server.process, signal.SIGTERM)
    assert 0 == server.process.returncode


def test_bomb_over_grpc(guard: Guard, tmp_path: Path) -> None:
    """The same over gRPC."""
    server = start(guard, tmp_path)
    before = server.peak_mib()
    options = (("grpc.max_send_message_length", -1),)
    with grpc.insecure_channel(
        f"127.0.0.1:{server.grpc}", options=options, compression=grpc.Compression.Gzip
    ) as channel:
        call = channel.unary_unary(EXPORT).future(bytes(96 * 1024 * 1024), timeout=60)
        assert grpc.StatusCode.RESOURCE_EXHAUSTED == call.code()
    assert server.peak_mib() - before < 64
    guard.stop(server.process, signal.SIGTERM)
