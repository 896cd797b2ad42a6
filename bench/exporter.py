"""What an app feels of its exporter: latency of a toy app's answers with the monitor live, dead, hanging, refusing.

Ours stands behind a SimpleSpanProcessor; the stock OTLP/HTTP exporter behind a BatchSpanProcessor, for comparison. Each
run is a process of its own, and the runs of all cases take turns, so that a busy machine is busy for all of them.
"""

import argparse
import contextlib
import http.server
import json
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

from monitor.store.sql_store import open_store

HERE = Path(__file__).parent
SHOWN = (50, 95, 99)
"""Percentiles."""


class Refusing(http.server.BaseHTTPRequestHandler):
    """Answers 503."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Refuse."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(503)
        self.send_header("Retry-After", "1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def monitors() -> Iterator[dict[str, tuple[str, str]]]:
    """Yield where to send, by state of the monitor."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        command = [sys.executable, str(HERE / "_ingest_servers.py"), "http", f"sqlite:///{folder / 'live.db'}"]
        live = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
        stack.callback(live.terminate)
        port = int(live.stdout.readline())
        hanging = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1024))
        refusing = stack.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing))
        threading.Thread(target=refusing.serve_forever, daemon=True).start()
        stack.callback(refusing.shutdown)
        with socket.create_server(("127.0.0.1", 0)) as gone:
            dead = gone.getsockname()[1]
        for name in ("store", "locked"):
            open_store(f"sqlite:///{folder / name}.db").close()
        lock = sqlite3.connect(folder / "locked.db", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        stack.callback(lock.close)
        yield {
            "live": ("endpoint", f"http://127.0.0.1:{port}"),
            "dead": ("endpoint", f"http://127.0.0.1:{dead}"),
            "hanging": ("endpoint", f"http://127.0.0.1:{hanging.getsockname()[1]}"),
            "refusing": ("endpoint", f"http://127.0.0.1:{refusing.server_port}"),
            "sqlite": ("store", f"sqlite:///{folder / 'store.db'}"),
            "sqlite locked": ("store", f"sqlite:///{folder / 'locked.db'}"),
        }


def run(kind: str, where: str, url: str, seconds: float, *, then: str) -> dict:
    """Return what one run of the app measured."""
    command = [sys.executable, str(HERE / "_exporter_app.py"), kind, where, url, str(seconds), then]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(done.stdout)


def show(name: str, runs: list[dict], base: list[dict]) -> None:
    """Print one case beside the app without an exporter: medians over its runs, as another program may disturb some."""

    def cut(of: list[dict], percent: int) -> float:
        return median(1000 * quantiles(one["took"], n=100)[percent - 1] for one in of)

    columns = [
        f"p{percent} {cut(runs, percent):6.2f} ({cut(runs, percent) - cut(base, percent):+6.2f})" for percent in SHOWN
    ]
    cpu, base_cpu = (1000 * median(one["cpu"] for one in of) for of in (runs, base))
    taken = runs[0]["dropped"] + runs[0]["delivered"]
    lost = f"  {runs[0]['dropped']:,} of {taken:,} spans dropped" if taken else ""
    ending = f"{runs[0]['end']:5.2f} s"
    print(
        f"{name:20} {'  '.join(columns)} ms  CPU {cpu:4.2f} ({cpu - base_cpu:+5.2f}) ms  end {ending}{lost}", flush=True
    )


def main() -> None:
    """Parse arguments, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one run")
    arguments = parser.parse_args()
    found: dict[str, list[dict]] = defaultdict(list)
    with monitors() as places:
        for number in range(arguments.rounds):
            # The stock exporter takes up to half a minute to shut down, which once is enough to know.
            then = "exit" if number else "shutdown"
            found["none"].append(run("none", "endpoint", "", arguments.seconds, then=then))
            # The same again: how far two measurements of one thing are apart here and now.
            found["none, again"].append(run("none", "endpoint", "", arguments.seconds, then=then))
            for state, (where, url) in places.items():
                for kind in ("ours", "stock") if where == "endpoint" else ("ours",):
                    found[f"{kind}: {state}"].append(run(kind, where, url, arguments.seconds, then=then))
    print("per answer of 5 spans, 100 answers/s in 4 threads; in brackets the difference to no exporter")
    for name in sorted(found, key=lambda name: (not name.startswith("none"), name)):
        show(name, found[name], found["none"])


if __name__ == "__main__":
    main()
