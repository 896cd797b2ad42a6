"""A package of somebody else's, made from docs/extending.md alone, beside the wheel: it works, or is told why not."""

from __future__ import annotations

import json
import re
import socketserver
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import extending_page
import pytest
from deadline import wait_until

if TYPE_CHECKING:
    from tests.packaging.conftest import Installed

pytestmark = pytest.mark.wheel

FILES = extending_page.files()
SETTINGS = """
store: {{url: "sqlite:///{folder}/shop.db"}}
assemble: {{quiet: 1s}}
rollup: {{every: 1s}}
web: {{port: 0}}
"""
PENDING = """
import sys
from datetime import UTC, datetime

from monitor.model.trends import Alert, AlertState, Regression, Series
from monitor.store.sql_store import open_store

now = datetime.now(UTC)
regression = Regression(
    series=Series(app="shop", environment="", slice="", metric="answer_length", rubric_id="answer-length-1"),
    rule="continuous", began_at=now, detected_at=now, recovered_at=None, rate=0.25, rate_lower=0.2, rate_upper=0.4,
    baseline_rate=0.1, null_rate=0.11, evidence_log10=3.0, threshold_log10=2.0,
)
store = open_store(sys.argv[1])
store.save_alerts(
    [Alert(alert_id="a1", fingerprint="f1", state=AlertState.PENDING, regression=regression, pending_at=now)]
)
store.close()
"""
"""Detection needs weeks of turns; an alert that is about to fire is told by the same stage."""


class Peer(socketserver.ThreadingTCPServer):
    """The other side of a plug-in: answers each line, and keeps it."""

    daemon_threads = True

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        lines: list[bytes] = []

        class Talk(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                for line in self.rfile:
                    lines.append(line)
                    self.wfile.write(answer(line))

        self.lines = lines
        super().__init__(("127.0.0.1", 0), Talk)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])


@contextmanager
def peer(answer: Callable[[bytes], bytes]) -> Iterator[Peer]:
    """Serve while entered."""
    with Peer(answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@dataclass
class RecordQueue:
    """Acme's queue with one record."""

    waiting: list[bytes] = field(
        default_factory=lambda: [b'7 {"question": "Open?", "context": "Until six.", "answer": "Until six."}\n']
    )

    def answer(self, line: bytes) -> bytes:
        """A record for `take` as long as there is one."""
        return self.waiting.pop() if line == b"take\n" and self.waiting else b""


def test_tests_of_the_page_pass(installed: Installed, acme_site: Path, tmp_path: Path) -> None:
    """What the page shows as tests passes beside the wheel."""
    extending_page.write(tmp_path, {"test_acme.py": FILES["test_acme.py"]})
    done = installed.run(
        installed.python, "-m", "pytest", "-q", "test_acme.py", folder=tmp_path, environ={"PYTHONPATH": str(acme_site)}
    )
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_prompt_of_the_page(installed: Installed, tmp_path: Path) -> None:
    """The prompt file passes its check, which needs no package."""
    extending_page.write(tmp_path, {name: text for name, text in FILES.items() if name.startswith("tone.")})
    done = installed.run("rag-monitor", "prompts", "check", "./tone.md", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def trace() -> bytes:
    """An OTLP/JSON request with one turn of Acme's framework, of just now: older ones are not judged."""
    now = time.time_ns()

    def span(number: int, parent: int | None, **attributes: str) -> Mapping[str, object]:
        return {
            "traceId": "0af7651916cd43dd8448eb211c80319c",
            "spanId": f"{number:016x}",
            **({"parentSpanId": f"{parent:016x}"} if parent else {}),
            "name": "acme",
            "kind": 1,
            "startTimeUnixNano": str(now - 1_000_000_000),
            "endTimeUnixNano": str(now),
            "attributes": [
                {"key": f"acme.{key.replace('__', '.')}", "value": {"stringValue": text}}
                for key, text in attributes.items()
            ],
        }

    spans = [
        span(1, None, kind="answer", question="May I pay by card?", answer="By card or cash.", conversation="c1"),
        span(2, 1, kind="search", search__query="card", search__hits='[{"id": "pay", "content": "Card or cash."}]'),
    ]
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}).encode()


def test_package_at_work(installed: Installed, acme_site: Path, tmp_path: Path) -> None:
    """A trace and a record of the queue become turns, the metric scores both, and the pager hears of an alert."""
    queue = RecordQueue()
    with peer(queue.answer) as records, peer(lambda _: b"ok\n") as pager:
        environ = {
            "PYTHONPATH": str(acme_site),
            "ACME_QUEUE_PORT": str(records.port),
            "ACME_PAGER_PORT": str(pager.port),
        }
        settings = FILES["rag-monitor.yaml"] + SETTINGS.format(folder=tmp_path)
        extending_page.write(tmp_path, {"rag-monitor.yaml": settings, "pending.py": PENDING})
        checked = installed.run("rag-monitor", "check", "-c", "rag-monitor.yaml", folder=tmp_path, environ=environ)
        assert (0, {"ok"}) == (checked.returncode, {line.split()[0] for line in checked.stdout.splitlines()}), checked
        store = f"sqlite:///{tmp_path}/shop.db"
        done = installed.run(installed.python, "pending.py", store, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        with running(installed, tmp_path, environ) as output:
            address = wait_until(
                lambda: re.search(r"otlp_http: listening on (\S+)", output.read_text(encoding="utf-8")),
                "the address",
                seconds=60,
            )[1]
            request = urllib.request.Request(
                f"http://{address}/v1/traces", trace(), {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 -- as above
                assert response.status == 200

            def lines(verb: str) -> list[Mapping[str, object]]:
                command = ("rag-monitor", verb, "--store", store, "--format", "jsonl")
                printed = installed.run(*command, folder=tmp_path, environ=environ)
                assert printed.returncode == 0, printed.stderr
                return [json.loads(line) for line in printed.stdout.splitlines()]

            def scored() -> int:
                return sum(int(str(row["scored"])) for row in lines("trends") if row["metric"] == "answer_length")

            wait_until(lambda: scored() == 2, "two scores", seconds=60)
            wait_until(lambda: len(pager.lines) >= 2, "the page", seconds=60)
            turns = {str(turn["app"]): turn for turn in lines("turns")}
    expected = {"id": "a1", "state": "firing", "app": "shop", "metric": "answer_length", "rate": 0.25}
    assert [{"state": "hello"}, expected] == [json.loads(line) for line in pager.lines]
    assert [b"take\n", b"done 7\n", b"take\n"] == records.lines
    assert {"shop", "acme"} == turns.keys()
    turn = turns["shop"]
    assert ("May I pay by card?", "By card or cash.", "c1") == (turn["query"], turn["response"], turn["session_id"])
    assert ["Card or cash."] == [citation["content"] for citation in turn["citations"]]  # type: ignore[attr-defined]


@contextmanager
def running(installed: Installed, folder: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """`rag-monitor run` while entered; the file holds what it says."""
    output = folder / "output.txt"
    with output.open("wb") as file:
        process = subprocess.Popen(
            ["rag-monitor", "run", "-c", "rag-monitor.yaml"],
            cwd=folder,
            env=installed.environ(environ),
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        try:
            yield output
        finally:
            process.terminate()
            assert process.wait(60) == 0, output.read_text(encoding="utf-8")


BROKEN = {
    "missing object": (
        "acme_rag/dialect.py",
        ("DIALECT = Convention", "CONVENTION = Convention"),
        r"assemble\.dialects: dialect 'acme' \(acme_rag\.dialect of acme-rag\): DIALECT: missing; expected an object",
    ),
    "wrong type": (
        "acme_rag/dialect.py",
        ("priority=5", 'priority="5"'),
        r"assemble\.dialects: dialect 'acme' .*: DIALECT\.priority: found '5'; expected a whole number from 0",
    ),
    "raises on a plain span": (
        "acme_rag/dialect.py",
        ('text(span.attributes, "acme.kind") in ROLES', 'span.attributes["acme.kind"] in ROLES'),
        r"assemble\.dialects: .*: DIALECT\.claims: raised KeyError at \S+dialect\.py:\d+ for a span without attributes",
    ),
    "no import": (
        "acme_rag/channel.py",
        ("import asyncio", "import acme_sdk"),
        r"channels\[0\]\.kind: channel 'acme_pager' .*: cannot import it: ModuleNotFoundError: No module named 'acme_",
    ),
    "no check": (
        "acme_rag/channel.py",
        ("async def check", "async def test"),
        r"channels\[0\]: channel 'acme_pager' .*: what build returned: check: missing; expected `async def check\(\)`",
    ),
    "no section": (
        "acme_rag/collector.py",
        ("class Config(Section)", "class Config"),
        r"collectors\[1\]\.kind: collector 'acme_queue' .*: Config: found type; expected a class that extends",
    ),
    "async where none is expected": (
        "acme_rag/collector.py",
        ("def health", "async def health"),
        r"collectors\[1\]: collector .*: what build returned: health: found `async def`; expected `def health\(\)`",
    ),
    "wrong rubric": (
        "acme_rag/metric.py",
        ('needs=frozenset({"response"})', 'needs=["response"]'),
        r"metrics\[0\]: metric 'answer_length' .*: rubric\.needs: expected frozenset\[str\], found list",
    ),
    "a name of ours": (
        "pyproject.toml",
        ('acme = "acme_rag.dialect"', 'openinference = "acme_rag.dialect"'),
        r"assemble\.dialects: dialect 'openinference' is brought by rag-monitor and by acme-rag; rename the",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_package(installed: Installed, tmp_path: Path, case: str) -> None:
    """What is wrong is one line at `check`, with status 1, and the same one at the start, with status 2."""
    name, instead, line = BROKEN[case]
    assert instead[0] in FILES[name]
    site = tmp_path / "site"
    extending_page.install(site, {**FILES, name: FILES[name].replace(*instead)})
    settings = FILES["rag-monitor.yaml"] + SETTINGS.format(folder=tmp_path)
    extending_page.write(tmp_path, {"rag-monitor.yaml": settings})
    with peer(lambda _: b"ok\n") as pager:
        environ = {"PYTHONPATH": str(site), "ACME_QUEUE_PORT": "9", "ACME_PAGER_PORT": str(pager.port)}
        command = ("rag-monitor", "check", "-c", "rag-monitor.yaml")
        checked = installed.run(*command, folder=tmp_path, environ=environ)
        started = installed.run("rag-monitor", "run", *command[2:], folder=tmp_path, environ=environ)
    rows = [row.split(maxsplit=2) for row in checked.stdout.splitlines()]
    # A clash of names is told of the installation, too, whether anybody asks for the name or not.
    (failed,) = [row[2] for row in rows if row[0] == "FAILED" and row[1] != "installation"]
    assert (1, "") == (checked.returncode, checked.stderr)
    assert re.search(line, failed), failed
    assert 2 == started.returncode
    assert re.fullmatch(rf"rag-monitor: rag-monitor\.yaml: {line}.*\n", started.stderr), started.stderr
