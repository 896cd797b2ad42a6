"""The set-up lines of docs/dialects.md, run: do they start, and does what the app sends arrive and find its dialect?

Each stack has an environment of its own, in which a small app executes the page's lines as they stand, the address
excepted: spans come to a receiver on loopback, and every question to a model is answered there. Of a stack without an
environment the line says so; `--install` makes all or some, which takes minutes and gigabytes:

    python bench/setup_lines.py --install litellm langfuse
    python bench/setup_lines.py

Not run are the lines in JavaScript and Java, and those of stacks that are no key of `PROGRAMS`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

from _setup_programs import PROGRAMS

from monitor import plugins
from monitor.extract.convention import Convention
from monitor.payloads.otlp.fragments import decode_otlp, split_otlp

ENVIRONMENTS = Path(__file__).parents[1] / ".cache" / "setups"
SECONDS = 180.0
QUESTION = b"How long"
MONITOR = "http://rag-monitor:4318"
_VARIABLE = re.compile(r"([A-Z][A-Z0-9_]+)=(\S+)")
_REPLY = {
    "id": "c-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m-1",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Two years."}}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
}


@dataclass
class Arrived:
    """Spans by the dialect that reads them, log records, and whether the question was in any."""

    spans: Counter[str] = field(default_factory=Counter)
    logs: int = 0
    content: bool = False


def dialects() -> list[Convention]:
    """Return all that are shipped, in the order in which they are asked."""
    shipped = [plugins.load("dialects", kind, "setup_lines").DIALECT for kind in plugins.kinds("dialects")]
    return sorted(shipped, key=lambda dialect: (dialect.priority, dialect.name))


def receiver(arrived: Arrived, ordered: list[Convention]) -> ThreadingHTTPServer:
    """Return a server that takes OTLP in protobuf or JSON and answers everything else as a model would."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            kind = self.headers.get("Content-Type", "application/json")
            if self.path.endswith(("/traces", "/logs")):
                take(arrived, ordered, self.path, body, kind)
                reply = b"{}" if "json" in kind else b""
            else:
                reply = json.dumps({} if self.path.endswith("/metrics") else _REPLY).encode()
                kind = "application/json"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def take(arrived: Arrived, ordered: list[Convention], path: str, body: bytes, kind: str) -> None:
    """Count what one request brings."""
    encoding: Literal["json", "protobuf"] = "json" if "json" in kind else "protobuf"
    arrived.content |= QUESTION in body
    signal: Literal["traces", "logs"] = "traces" if path.endswith("/traces") else "logs"
    for fragment in split_otlp(body, signal, received_at=datetime.now(UTC), encoding=encoding).fragments:
        decoded = decode_otlp(fragment)
        arrived.logs += len(decoded.logs)
        for span in decoded.spans:
            arrived.spans[next((dialect.name for dialect in ordered if dialect.claims(span)), "unknown")] += 1


def program(convention: Convention, address: str) -> tuple[str, dict[str, str]]:
    """Return the app with the page's lines of Python in it, and the variables that the page sets."""
    code: list[str] = []
    variables: dict[str, str] = {}
    for raw in (*convention.setup.lines.splitlines(), convention.setup.content or ""):
        line = raw.replace(MONITOR, address)
        if _VARIABLE.match(line):
            variables |= dict(_VARIABLE.findall(line))
        elif line and not line.startswith(("pip ", "  #", "#", "new ")) and "//" not in line.replace("://", ""):
            code.append(line)
    around = PROGRAMS[convention.name][1]
    indent = re.search(r"^( *)# lines$", around, re.MULTILINE)
    assert indent is not None, f"the program of {convention.name} has no place for the lines"
    return around.replace("# lines", f"\n{indent[1]}".join(code)), variables


def run(convention: Convention, ordered: list[Convention]) -> tuple[str, Arrived]:
    """Return how the app of a stack ended, and what it sent."""
    arrived = Arrived()
    python = ENVIRONMENTS / convention.name / "bin" / "python"
    if not python.exists():
        return "not installed", arrived
    with receiver(arrived, ordered) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        code, variables = program(convention, address)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTHON"))}
        environment |= {"OTEL_SERVICE_NAME": "shop", "OTEL_EXPORTER_OTLP_ENDPOINT": address, **variables}
        environment |= {
            "OPENAI_BASE_URL": f"{address}/v1",
            "OPENAI_API_KEY": "any",
            "LITELLM_LOCAL_MODEL_COST_MAP": "1",
        }
        command: list[str | Path] = [python, "-c", code]
        try:
            ended = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return f"did not end within {SECONDS:.0f} s", arrived
        finally:
            server.shutdown()
    last = ended.stderr.strip().splitlines()[-1:] or [""]
    return "ran" if ended.returncode == 0 else f"failed: {last[0][:200]}", arrived


def release(name: str) -> str:
    """Return the first package of a stack and its release; "" where it is not installed."""
    python, package = ENVIRONMENTS / name / "bin" / "python", PROGRAMS[name][0][0].partition("[")[0]
    if not python.exists():
        return ""
    ask = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
    asked: list[str | Path] = [python, "-c", ask, package]
    return f"{package} {subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()}"


def install(names: list[str]) -> None:
    """Make the environments of these stacks."""
    for name in names:
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENTS / name], check=True)
        python = ENVIRONMENTS / name / "bin" / "python"
        pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet", *PROGRAMS[name][0]]
        subprocess.run(pip, check=True)


def main() -> None:
    """Print a line a stack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stacks", nargs="*", metavar="STACK", help=f"of {', '.join(PROGRAMS)}; all when none is named")
    parser.add_argument("--install", action="store_true", help="make the environments first")
    options = parser.parse_args()
    names = options.stacks or list(PROGRAMS)
    if options.install:
        install(names)
    ordered = dialects()
    for convention in ordered:
        if convention.name in names:
            how, arrived = run(convention, ordered)
            spans = ", ".join(f"{name} {count}" for name, count in arrived.spans.most_common())
            tail = f"spans: {spans or 'none'}; log records: {arrived.logs}"
            tail += "; with the question" if arrived.content else ""
            print(f"{convention.name:16} {release(convention.name)}: {how}; {tail}", flush=True)


if __name__ == "__main__":
    main()
