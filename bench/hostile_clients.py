"""Slow, idle, lying and huge clients beside a good sender: what does it feel of them?

For each attack a fresh `rag-monitor run` with its default settings (but for ports), the attacker in one process, and in
another a good sender of 20 requests a second each over OTLP/HTTP and gRPC, which also connects anew four times a second
for each and for the health page. An attack is withstood where the p95 of what is sent over open connections stays under
500 ms, nothing of it fails, the health page answers, no descriptor stays open afterwards, memory stays under 300 MiB,
and the log has at most 40 lines and nothing of what the attacker wrote. What connects anew is shown beside it.

    python bench/hostile_clients.py                       # each attack from an address that is not the good sender's
    python bench/hostile_clients.py --sources 100         # from a hundred addresses
    python bench/hostile_clients.py --sources 0           # from the good sender's own, as through a proxy
    python bench/hostile_clients.py --all-at-once
    python bench/hostile_clients.py --only idle --only "h2: rapid reset"
"""

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import trustme
from _hostile_attack import ATTACKS
from _hostile_link import TEXT
from _ports import accepts, free_port

HERE = Path(__file__).parent
TICKS = os.sysconf("SC_CLK_TCK")
SETTINGS = """
store: {{url: "sqlite:///{folder}/monitor.db"}}
web: {{port: {web}}}
collectors: [{{kind: otlp_http, port: {http}{tls}}}, {{kind: otlp_grpc, port: {grpc}{tls}}}]
"""
FELT = ("http", "grpc", "new_http", "new_grpc", "health")
KNOWN = ("http", "grpc", "health")
"""Of these nothing may fail."""
P95_MS, MOST_MIB, MOST_LINES = 500.0, 300.0, 40
SPARE_DESCRIPTORS = 16
"""More than before: the store's connections, which are opened when they are needed."""
HEADSTART_SECONDS = 2.0
CONNECTIONS_PER_SECOND = 1000.0
"""Of all attackers together."""


@dataclass
class Monitor:
    """A monitor that runs."""

    process: subprocess.Popen[bytes]
    ports: dict[str, int]
    log: Path
    ca_file: str

    def descriptors(self) -> int:
        """Return how many it has open."""
        return sum(1 for _ in Path(f"/proc/{self.process.pid}/fd").iterdir())

    def memory(self, which: str) -> float:
        """Return `VmRSS` or, of all its life, `VmHWM`, in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{which}:\s+(\d+)", status)[1]) / 1024

    def cpu_seconds(self) -> float:
        """Return what it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def refused(self) -> str:
        """Return what was refused, by reason."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['web']}/metrics", timeout=20) as page:
            text = page.read().decode()
        found = re.findall(r'clients_refused_total\{.*?reason="(\w+)"\} ([1-9]\d*)', text)
        found += re.findall(r'requests_total\{.*?outcome="((?!accepted)\w+)"\} ([1-9]\d*)', text)
        return " ".join(f"{reason}:{count}" for reason, count in found)


@contextlib.contextmanager
def running(*, secure: bool) -> Iterator[Monitor]:
    """Run a monitor on a store of its own."""
    with tempfile.TemporaryDirectory() as folder, Path(folder, "log").open("wb") as log:
        ports, tls, ca_file = {name: free_port() for name in ("http", "grpc", "web")}, "", ""
        if secure:
            authority = trustme.CA()
            issued = authority.issue_cert("localhost")
            issued.private_key_and_cert_chain_pem.write_to_path(f"{folder}/cert.pem")
            authority.cert_pem.write_to_path(ca_file := f"{folder}/ca.pem")
            tls = f", tls: {{cert_file: {folder}/cert.pem, key_file: {folder}/cert.pem}}"
        settings = Path(folder, "rag-monitor.yaml")
        settings.write_text(SETTINGS.format(folder=folder, tls=tls, **ports))
        command = [Path(sys.executable).with_name("rag-monitor"), "run", "-c", settings]
        with subprocess.Popen(command, stdout=log, stderr=log) as process:
            try:
                while not all(accepts(port) for port in ports.values()):
                    if process.poll() is not None:
                        raise SystemExit(Path(log.name).read_text())
                    time.sleep(0.05)
                yield Monitor(process, ports, Path(log.name), ca_file)
            finally:
                process.send_signal(signal.SIGTERM)


def good_sender(monitor: Monitor, seconds: float) -> "subprocess.Popen[str]":
    """Start one."""
    ports = [str(monitor.ports[name]) for name in ("http", "grpc", "web")]
    command = [sys.executable, HERE / "_good_sender.py", *ports, str(seconds), "20", monitor.ca_file]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def attacker(
    monitor: Monitor, name: str, seconds: float, sources: Sequence[str], *, per_second: float
) -> "subprocess.Popen[str]":
    """Start one."""
    port = str(monitor.ports[ATTACKS[name].listener])
    command = [sys.executable, HERE / "_hostile_attack.py", name, port, str(seconds), str(per_second), *sources]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def came_back(monitor: Monitor, before: int) -> int:
    """Return how many descriptors more than before are open, once they are few or a minute is over."""
    end = time.monotonic() + 60
    while (more := monitor.descriptors() - before) > SPARE_DESCRIPTORS and time.monotonic() < end:
        time.sleep(0.5)
    return more


@dataclass
class Outcome:
    """What came of an attack."""

    felt: dict[str, tuple[list[float], dict[str, int]]]
    """Milliseconds and errors, by what was sent."""
    descriptors: int
    """More than before."""
    peak_mib: float
    after_mib: float
    cores: float
    """Of the monitor, while it was attacked."""
    status: int | None
    """Null while it runs."""
    said: bytes
    """To the log, while it was attacked."""
    made: list[str]
    refused: str

    def faults(self) -> list[str]:
        """Return what must not be."""
        found = [] if self.status is None else [f"ended with {self.status}"]
        found += [f"{name} {count} x {error}" for name in KNOWN for error, count in self.felt[name][1].items()]
        slow = {name: quantiles(self.felt[name][0], n=20)[-1] for name in ("http", "grpc")}
        found += [f"{name} p95 {p95:.0f} ms" for name, p95 in slow.items() if p95 > P95_MS]
        found += [f"{self.descriptors} descriptors stay"] * (self.descriptors > SPARE_DESCRIPTORS)
        found += [f"{self.peak_mib:.0f} MiB"] * (self.peak_mib > MOST_MIB)
        lines = len(self.said.splitlines())
        found += [f"{lines} lines in the log"] * (lines > MOST_LINES)
        found += ["the log holds what was sent"] * (TEXT in self.said)
        return found + ["the log has a traceback"] * (b"Traceback" in self.said)

    def line(self) -> str:
        """Return it for people."""
        shown = []
        for taken, errors in self.felt.values():
            figures = f"{median(taken):4.0f} {quantiles(taken, n=20)[-1]:5.0f} {max(taken):5.0f}"
            shown.append(f"{figures} {f'!{sum(errors.values())}' if errors else '':3}")
        memory = f"{self.peak_mib:4.0f} {self.after_mib:4.0f} | {self.cores:4.2f}"
        return f"{' | '.join(shown)} | {memory} | {len(self.said.splitlines()):3} | "


def attacked(names: Sequence[str], seconds: float, sources: Sequence[str]) -> Outcome:
    """Attack a monitor of its own."""
    with running(secure=any(ATTACKS[name].secure for name in names)) as monitor:
        good_sender(monitor, 1.0).communicate()
        before, said_before, cpu_before = monitor.descriptors(), monitor.log.stat().st_size, monitor.cpu_seconds()
        began = time.monotonic()
        rate = CONNECTIONS_PER_SECOND / len(names)
        hostile = [attacker(monitor, name, seconds + HEADSTART_SECONDS, sources, per_second=rate) for name in names]
        time.sleep(HEADSTART_SECONDS)
        out, _ = good_sender(monitor, seconds).communicate()
        made = [one.communicate()[0].strip() for one in hostile]
        cores = (monitor.cpu_seconds() - cpu_before) / (time.monotonic() - began)
        return Outcome(
            felt=json.loads(out),
            descriptors=came_back(monitor, before),
            peak_mib=monitor.memory("VmHWM"),
            after_mib=monitor.memory("VmRSS"),
            cores=cores,
            status=monitor.process.poll(),
            said=monitor.log.read_bytes()[said_before:],
            made=made,
            refused=monitor.refused(),
        )


def withstood(names: Sequence[str], outcome: Outcome, *, verbose: bool) -> bool:
    """Print what came of it; return whether it was nothing that must not be."""
    label = names[0] if len(names) == 1 else f"{len(names)} attacks at once"
    faults = outcome.faults()
    print(f"{label:26} | {outcome.line()}{', '.join(faults) or 'withstood'}", flush=True)
    if verbose:
        print(f"    connections made, failed: {'; '.join(outcome.made)}\n    refused: {outcome.refused}")
        for line in outcome.said.decode(errors="replace").splitlines()[:MOST_LINES]:
            print(f"    {line[:250]}")
    return not faults


def main() -> int:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=ATTACKS, help="an attack; all without it")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each attack")
    parser.add_argument("--sources", type=int, default=1, help="addresses of the attacker; 0 for the good sender's own")
    parser.add_argument("--all-at-once", action="store_true", help="one monitor under all of them")
    parser.add_argument("--verbose", action="store_true", help="also what was refused, and the log")
    given = parser.parse_args()
    sources = [f"127.0.{number // 250 + 1}.{number % 250 + 1}" for number in range(given.sources)] or ["127.0.0.1"]
    names = given.only or list(ATTACKS)
    print(f"{'milliseconds, !errors':26} | {' | '.join(f'{name:^19}' for name in FELT)} | {'MiB':^9} | CPU  | log |")
    print(f"{'':26} | {' | '.join([' p50   p95   max    '] * len(FELT))} | peak  end | used | lines |")
    rounds = [[name for name in names if ATTACKS[name].secure is secure] for secure in (False, True)]
    if not given.all_at_once:
        rounds = [[name] for name in names]
    done = [
        withstood(names, attacked(names, given.seconds, sources), verbose=given.verbose) for names in rounds if names
    ]
    print(f"{sum(done)} of {len(done)} withstood")
    return int(not all(done))


if __name__ == "__main__":
    sys.exit(main())
