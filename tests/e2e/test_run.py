"""`rag-monitor run` as a process: stock exporters in, judged turns out, stopped and killed."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

import pytest
from deadline import wait_until
from loopback import free_port
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from monitor.model.judgements import Verdict
from monitor.payloads.otlp.fragments import decode_otlp
from monitor.store.sql_store import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opentelemetry.trace import Tracer

    from monitor.model.judgements import Outcome
    from monitor.model.turns import Turn
    from monitor.store.sql_store import SqlStore
    from tests.e2e.conftest import Command, Lines, Monitor, Start

STORE = "sqlite:///monitor.db"
DOCUMENT = "The warranty lasts two years and covers defects of material."
GROUNDED, INVENTED = "The warranty lasts two years.", "Ask the wizard in Aachen, who repairs anything on Sundays."
CANARY = "canary-7Qx"
RESOURCE = Resource({"service.name": "shop", "service.version": "1.0.0", "deployment.environment.name": "production"})


def ask(tracer: Tracer, number: int, *, answer: str = GROUNDED) -> None:
    """One turn as an app instrumented with OpenInference records it: three spans."""
    with tracer.start_as_current_span("chat") as root:
        question = f"How long is warranty {number}? {CANARY}"
        root.set_attributes({"openinference.span.kind": "CHAIN", "input.value": question, "output.value": answer})
        with tracer.start_as_current_span("retrieve") as retrieve:
            document = {"id": "kb-1", "content": f"{DOCUMENT} {CANARY}"}
            retrieve.set_attributes({"openinference.span.kind": "RETRIEVER", "input.value": question})
            retrieve.set_attributes({f"retrieval.documents.0.document.{key}": text for key, text in document.items()})
        with tracer.start_as_current_span("generate") as generate:
            generate.set_attributes(
                {
                    "openinference.span.kind": "LLM",
                    "llm.input_messages.0.message.role": "user",
                    "llm.input_messages.0.message.content": f"{DOCUMENT} {CANARY}\n{question}",
                    "llm.output_messages.0.message.role": "assistant",
                    "llm.output_messages.0.message.content": answer,
                }
            )


def exporter(monitor: Monitor, kind: str) -> SpanExporter:
    """The stock exporter for one of the monitor's collectors."""
    if kind == "http":
        return HttpExporter(endpoint=f"http://{monitor.address('otlp_http')}/v1/traces", timeout=10)
    return GrpcExporter(endpoint=f"http://{monitor.address('otlp_grpc')}", insecure=True, timeout=10)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exporters of this process reach loopback whatever proxy the machine has."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")


def rows(command: Command) -> Lines:
    """The trends, or nothing where there is no window yet."""
    return command.ok("trends", "--store", STORE, "--format", "jsonl", "--by", "week").lines


def judged(command: Command) -> int:
    """How many verdicts are in the store."""
    store = open_store(f"sqlite:///{command.folder / 'monitor.db'}", migrate=False)
    try:
        return sum(rollup.sums.n for rollup in store.rollups() if not rollup.series.slice)
    finally:
        store.close()


@pytest.mark.parametrize("kind", ["http", "grpc"])
def test_exported_turns_are_judged(rag_monitor: Command, quick: Path, start: Start, kind: str) -> None:
    """What a stock exporter sends is judged within seconds, counted, and in no log and no metric as text."""
    monitor = start("-c", quick)
    provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter(monitor, kind)))
    for number in range(5):
        ask(provider.get_tracer("shop"), number, answer=INVENTED if number == 0 else GROUNDED)
    provider.shutdown()
    wait_until(lambda: judged(rag_monitor) == 5, "five verdicts", seconds=30)

    status, body = monitor.get("/readyz")
    assert (200, {"ready": True, "problems": {}}) == (status, json.loads(body))
    assert 15 == monitor.metric("received_total", 'signal="traces"')
    assert 5 == monitor.metric("jobs_finished_total", 'outcome="scored"')
    assert 15 == monitor.metric("requests_total", f'collector="otlp_{kind}",outcome="accepted"')
    assert CANARY not in monitor.get("/metrics")[1]
    assert 0 == monitor.stop()
    assert CANARY not in monitor.text()
    assert "Traceback" not in monitor.text()

    (trend,) = rows(rag_monitor)
    assert (5, 5, 1) == (trend["turns"], trend["scored"], trend["defects"])
    assert ("shop", "production") == (trend["app"], trend["environment"])
    (worst,) = (t for t in rag_monitor.ok("turns", "--store", STORE, "--format", "jsonl").lines if "0?" in t["query"])
    explained = rag_monitor.ok("explain", worst["turn_id"][:12], "--store", STORE)
    assert "a defect" in explained.out
    assert CANARY in explained.out
    assert CANARY not in explained.err
    first, *complaints = rag_monitor.ok("doctor", "--store", STORE, "--since", "1h").out.splitlines()
    assert "shop: 5 turns; spans: openinference 15; log records: 0" == first
    missing, fix = (line.strip() for line in complaints)
    assert "no session: 5 of 5" == missing
    assert fix.startswith("-> openinference: with using_attributes(session_id=")


def test_roles_share_one_file(rag_monitor: Command, quick: Path, start: Start) -> None:
    """An ingesting and a judging process have nothing in common but the database."""
    ingest = start("-c", quick, "--role", "ingest", log="ingest.log")
    others = start("-c", quick, "--role", "score", "--role", "schedule", log="others.log")
    assert "listening on" not in others.text()
    provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter(ingest, "http")))
    for number in range(3):
        ask(provider.get_tracer("shop"), number)
    wait_until(lambda: judged(rag_monitor) == 3, "three verdicts", seconds=30)
    assert 0 == others.stop()
    ask(provider.get_tracer("shop"), 3)
    provider.shutdown()
    assert 0 == ingest.stop()
    start("-c", quick, "--role", "score", "--role", "schedule", log="again.log")
    wait_until(lambda: judged(rag_monitor) == 4, "what arrived while nobody judged", seconds=30)


class Load:
    """Apps that export turns with stock exporters and send again what was not acknowledged, each in a thread."""

    def __init__(self, exporters: Sequence[SpanExporter]) -> None:
        self.made: set[tuple[str, str]] = set()
        self.acknowledged: set[tuple[str, str]] = set()
        self._exporters = exporters
        self._open: list[Sequence[ReadableSpan]] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(one,)) for one in exporters]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for one in self._exporters:
            one.shutdown()

    def stop(self) -> None:
        """Make no more turns; what is being sent is acknowledged or not when this returns."""
        self._over.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()

    def resend(self) -> None:
        """Send what was not acknowledged; all of it must be now."""
        for batch in self._open:
            assert self._exporters[0].export(batch) is SpanExportResult.SUCCESS
            self.acknowledged |= ids(batch)

    def _send(self, through: SpanExporter) -> None:
        made = InMemorySpanExporter()
        provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(made))
        while not self._over.is_set():
            for number in range(4):
                ask(provider.get_tracer("shop"), number)
            batch = made.get_finished_spans()
            made.clear()
            self.made |= ids(batch)
            while through.export(batch) is not SpanExportResult.SUCCESS:
                if self._over.wait(0.1):
                    self._open.append(batch)
                    break
            else:
                self.acknowledged |= ids(batch)
        provider.shutdown()


def ids(batch: Sequence[ReadableSpan]) -> set[tuple[str, str]]:
    """Trace and span ids, in hexadecimal."""
    contexts = [span.context for span in batch if span.context]
    return {(f"{context.trace_id:032x}", f"{context.span_id:016x}") for context in contexts}


def spans(command: Command) -> Counter[tuple[str, str]]:
    """How often each span is in the store."""
    store = open_store(f"sqlite:///{command.folder / 'monitor.db'}", migrate=False)
    # Those of traces without a turn would be missed here; every trace of the load has one.
    traces = sorted({turn.trace_id for turn in store.turns()})
    future = datetime(2100, 1, 1, tzinfo=UTC)
    traces += store.due(quiet_since=future, open_since=future, limit=1_000_000)
    found: Counter[tuple[str, str]] = Counter()
    for first in range(0, len(traces), 200):
        for fragments in store.fragments(sorted(set(traces[first : first + 200]))).values():
            for stored in fragments:
                found.update((span.trace_id, span.span_id) for span in decode_otlp(stored.fragment).spans)
    store.close()
    return found


def test_stop_under_load_loses_nothing(rag_monitor: Command, quick: Path, start: Start) -> None:
    """SIGTERM while exporters send ends with status 0 in the 30 s that Kubernetes waits, and nothing is lost."""
    monitor = start("-c", quick)
    with Load([exporter(monitor, "http"), exporter(monitor, "grpc")]) as load:
        wait_until(lambda: len(load.acknowledged) > 300, "spans to be acknowledged", seconds=30)
        began = time.monotonic()
        assert 0 == monitor.stop()
        assert time.monotonic() - began < 30
    assert "Traceback" not in monitor.text()
    stored = spans(rag_monitor)
    assert {1} == set(stored.values())
    assert load.acknowledged <= stored.keys()


def test_kill_at_any_moment_loses_nothing(rag_monitor: Command, quick: Path, start: Start) -> None:
    """SIGKILL at ten random moments under load: every acknowledged span is stored once, every turn accounted for once.

    What was not acknowledged is sent again, as exporters do, so in the end every span that was made is there.
    """
    chance = random.Random(20260303)  # noqa: S311 -- moments, not secrets
    settings = quick.read_text()
    for kind in ("otlp_http", "otlp_grpc"):
        settings = settings.replace(f"{kind}, port: 0", f"{kind}, port: {free_port()}")
    path = rag_monitor.write("killed.yaml", settings)
    monitor = start("-c", path)
    with Load([exporter(monitor, "http"), exporter(monitor, "grpc")]) as load:
        for _ in range(10):
            enough = len(load.acknowledged) + chance.randrange(12, 400)
            wait_until(lambda enough=enough: len(load.acknowledged) > enough, "acknowledgements", seconds=40)
            monitor.process.kill()
            monitor.process.wait()
            monitor = start("-c", path)
        load.stop()
        load.resend()
    assert load.made == load.acknowledged
    store = open_store(f"sqlite:///{rag_monitor.folder / 'monitor.db'}", migrate=False)
    wait_until(lambda: waiting(store) == (0, 0, 0), "all to be assembled, sampled and rolled up", seconds=40)
    assert 0 == monitor.stop()
    # Jobs that ended after that changed their windows; now nobody judges.
    monitor = start("-c", path, "--role", "schedule")
    wait_until(lambda: waiting(store) == (0, 0, 0), "the last windows to be rolled up", seconds=40)
    assert 0 == monitor.stop()
    stored = spans(rag_monitor)
    assert {1} == set(stored.values())
    assert load.made == stored.keys()

    turns = list(store.turns())
    assert len({trace_id for trace_id, _ in load.made}) == len(turns)
    found = Counter(_account(store, turn) for turn in turns)
    counted: Counter[str] = Counter()
    for rollup in store.rollups():
        counted.update({"scored": rollup.sums.n, "pending": rollup.sums.pending}, **rollup.unscored)
        counted["turns"] += rollup.sums.turns
    assert found + Counter(turns=len(turns)) == +counted
    assert {"scored", "pending"} >= found.keys()
    assert found["scored"]
    store.close()


def waiting(store: SqlStore) -> tuple[int, int, int]:
    """What waits for another stage than scoring: a job may stay with the dead until its lease is over."""
    backlog = store.backlog()
    return backlog.fragments, backlog.turns, backlog.windows


def _account(store: SqlStore, turn: Turn) -> str:
    """What became of a turn, which must be one thing."""
    sampling = store.sampling(turn.turn_id)
    assert sampling is not None
    outcomes = store.outcomes(turn.turn_id)
    ((account,),) = ([*(_word(o) for o in outcomes), *("pending" for _ in sampling.jobs)],)
    return account


def _word(outcome: Outcome) -> str:
    return "scored" if isinstance(outcome, Verdict) else outcome.reason.value


def test_interrupted_demo_ends_at_once(rag_monitor: Command) -> None:
    """Ctrl-C ends the demo and its app with status 130, and nothing more is said."""
    with rag_monitor.start("demo", "--days", "6", "--turns-per-hour", "5") as demo:
        assert demo.stderr is not None
        said = demo.stderr.readline()
        demo.send_signal(signal.SIGINT)
        _, err = demo.communicate(timeout=20)
    assert said.startswith("watched until ")
    assert 130 == demo.returncode
    assert [] == [line for line in err.splitlines() if line and not line.startswith("watched until ")]
