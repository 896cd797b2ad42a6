"""The whole path in one process, for minutes, at a steady rate: does anything pile up?

A real `rag-monitor run` (ingest, assemble, sample with the lexical proxy, score, roll up) takes turns of 3 spans over
OTLP/HTTP from this process; every few seconds its own metrics say what waits. The backlog grows if in the last third of
the run more than 5 s worth of turns wait beyond what waited in the first third, or 15 s worth in all.

    python bench/soak.py --rate 600 --minutes 10
    python bench/soak.py --rate 2000 --without-proxy
"""

import argparse
import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import uvloop
from _ingest_load import SPANS_PER_TURN, Bodies, connected, steady
from _ports import accepts, free_port

SPANS_PER_REQUEST = 129
CONNECTIONS = 4
TICKS = os.sysconf("SC_CLK_TCK")
SETTINGS = """
store: {{url: "{store}"}}
web: {{port: {web}}}
assemble: {{quiet: 5s}}
collectors: [{{kind: otlp_http, port: {http}}}]
"""
LOOK_EVERY = 5.0
SETTLING_SECONDS = 30.0
"""Before the first look that counts: a trace waits 5 s to settle, and the first window must be there."""


@dataclass
class Look:
    """What the monitor said of itself at one moment."""

    at: float
    fragments: float
    turns: float
    jobs: float
    rss_mib: float

    @property
    def waiting_turns(self) -> float:
        """Turns on their way: a fragment of this load is one turn."""
        return self.fragments + self.turns + self.jobs


@contextmanager
def monitor(store: str, folder: str, *, proxy: bool) -> Iterator[tuple[subprocess.Popen[bytes], int, int]]:
    """Run a monitor; yield its process and its ports for OTLP and metrics."""
    http, web = free_port(), free_port()
    settings = Path(folder, "rag-monitor.yaml")
    settings.write_text(SETTINGS.format(store=store, http=http, web=web))
    command = [Path(sys.executable).with_name("rag-monitor"), "run", "-c", settings]
    if not proxy:
        command = [sys.executable, Path(__file__).with_name("_soak_server.py"), settings]
    with Path(folder, "monitor.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            while not accepts(http):
                if process.poll() is not None:
                    raise SystemExit(Path(log.name).read_text())
                time.sleep(0.05)
            yield process, http, web
        finally:
            process.send_signal(signal.SIGTERM)


def look(web: int, began: float) -> Look:
    """Read the metrics page."""
    with urllib.request.urlopen(f"http://127.0.0.1:{web}/metrics", timeout=30) as page:
        text = page.read().decode()

    def number(name: str) -> float:
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    waiting = {what: number(f'rag_monitor_waiting{{what="{what}"}}') for what in ("fragments", "turns", "jobs")}
    rss = number("process_resident_memory_bytes") / 2**20
    return Look(time.perf_counter() - began, **waiting, rss_mib=rss)


async def watch(web: int, began: float, looks: list[Look]) -> None:
    """Look every few seconds until cancelled."""
    while True:
        await asyncio.sleep(LOOK_EVERY)
        found = await asyncio.to_thread(look, web, began)
        looks.append(found)
        if len(looks) % 6 == 0:
            print(
                f"{found.at:5.0f} s: waiting {found.fragments:,.0f} fragments, {found.turns:,.0f} turns, "
                f"{found.jobs:,.0f} jobs; {found.rss_mib:.0f} MiB",
                flush=True,
            )


async def run(rate: float, seconds: float, *, store: str | None, proxy: bool) -> int:
    """Send at the rate, watch, and return 1 when something piled up or was refused."""
    bodies = Bodies(SPANS_PER_REQUEST, compress=False)
    with tempfile.TemporaryDirectory() as folder:
        url = store or f"sqlite:///{folder}/monitor.db"
        with monitor(url, folder, proxy=proxy) as (process, http, web):
            clients = await connected("http", http, CONNECTIONS, compress=False)
            looks: list[Look] = []
            began = time.perf_counter()
            watching = asyncio.create_task(watch(web, began, looks))
            cpu, own = cpu_seconds(process.pid), time.process_time()
            result = await steady(clients, bodies, seconds, per_second=rate / bodies.spans)
            cpu, own = cpu_seconds(process.pid) - cpu, time.process_time() - own
            looks.append(await asyncio.to_thread(look, web, began))
            watching.cancel()
            for client in clients:
                await client.close()
    counted = [one for one in looks if one.at >= min(SETTLING_SECONDS, seconds / 2)]
    third = max(1, len(counted) // 3)
    early, late = (median(one.waiting_turns for one in part) for part in (counted[:third], counted[-third:]))
    latencies = quantiles([1000 * latency for latency in result.latencies], n=20)
    sent = result.answered * bodies.spans / result.seconds
    print(
        f"{sent:,.0f} of {rate:,.0f} spans/s for {result.seconds:.0f} s{'' if proxy else ', without the proxy'}: "
        f"waiting turns {early:,.0f} early, {late:,.0f} late; p50 {latencies[9]:.1f} ms, p95 {latencies[18]:.1f} ms; "
        f"{result.refused} refused; CPU {cpu / result.seconds:.2f} cores, generator {own / result.seconds:.2f}; "
        f"{max(one.rss_mib for one in looks):.0f} MiB"
    )
    five_seconds = 5 * rate / SPANS_PER_TURN
    grown = late > early + five_seconds or late > 3 * five_seconds
    print("the backlog grows" if grown else "the backlog does not grow")
    return int(grown or result.refused > 0 or sent < 0.98 * rate)


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def main() -> int:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=600, help="spans per second (%(default)g)")
    parser.add_argument("--minutes", type=float, default=2, help="(%(default)g)")
    parser.add_argument("--without-proxy", action="store_true", help="ingest, assemble, store and roll up only")
    parser.add_argument("--store", help="SQLAlchemy URL of an empty database; a SQLite file without it")
    options = parser.parse_args()
    return uvloop.run(run(options.rate, 60 * options.minutes, store=options.store, proxy=not options.without_proxy))


if __name__ == "__main__":
    sys.exit(main())
