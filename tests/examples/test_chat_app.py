"""The example chat app, run as the foreign process it is, against a real OTLP/HTTP receiver on loopback."""

import ast
import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypedDict

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

APP = Path(__file__).parents[2] / "examples" / "chat_app"
START = datetime(2026, 3, 2, tzinfo=UTC)
DAYS, RELEASE_AT = 3, 0.5
RELEASED = START + timedelta(days=DAYS * RELEASE_AT)
DEADLINE_SECONDS = 120

# What an honest answer says in words of its own.
CONNECTIVES = {"in", "short", "according", "to", "the", "documentation", "as", "documented", "general"} | {
    *("also", "addition", "besides", "note", "that")
}
CITATION = re.compile(r"\s*\[([\w-]+-\d{2,})\]")


class Truth(TypedDict):
    """A line of the truth file."""

    time: str
    trace_id: str
    span_id: str
    session_id: str
    turn: int
    release: str
    outcome: str
    defect: bool
    reason: str | None
    fault: str | None
    invented: list[str]


class Progress(TypedDict):
    """A line on standard output."""

    until: str
    turns: int
    spans: int
    done: bool


@dataclass(slots=True)
class Receiver:
    """What arrived, request by request."""

    url: str
    status: int
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)

    def spans(self) -> list[tuple[dict[str, str], Span]]:
        """Return every span with its resource attributes, in order of arrival."""
        return [
            ({item.key: item.value.string_value for item in resource_spans.resource.attributes}, span)
            for request in self.requests
            for resource_spans in request.resource_spans
            for scope_spans in resource_spans.scope_spans
            for span in scope_spans.spans
        ]


@dataclass(frozen=True, slots=True)
class Trace:
    """One turn as it was exported."""

    resource: dict[str, str]
    root: Span
    children: dict[str, Span]

    def documents(self) -> list[tuple[str, str]]:
        """Return id and content of what was retrieved."""
        attributes = values(self.children["retrieve"])
        found = sorted(int(key.split(".")[2]) for key in attributes if key.endswith(".document.id"))
        prefix = "retrieval.documents"
        return [
            (str(attributes[f"{prefix}.{n}.document.id"]), str(attributes[f"{prefix}.{n}.document.content"]))
            for n in found
        ]


@dataclass(frozen=True, slots=True)
class Run:
    """A finished simulation."""

    progress: list[Progress]
    truth: list[Truth]
    spans: list[tuple[dict[str, str], Span]]

    def traces(self) -> dict[str, Trace]:
        """Return the turns by trace id."""
        resources: dict[str, dict[str, str]] = {}
        roots: dict[str, Span] = {}
        children: dict[str, dict[str, Span]] = {}
        for resource, span in self.spans:
            key = span.trace_id.hex()
            resources[key] = resource
            if span.parent_span_id:
                assert children.setdefault(key, {}).setdefault(span.name, span) is span
            else:
                assert roots.setdefault(key, span) is span
        return {key: Trace(resources[key], root, children[key]) for key, root in roots.items()}


@contextmanager
def receiver(status: int = 200) -> Iterator[Receiver]:
    """Listen on loopback for OTLP/HTTP requests and answer each with ``status``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(received.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        received = Receiver(f"http://127.0.0.1:{server.server_address[1]}/v1/traces", status)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield received
        finally:
            server.shutdown()
            thread.join()


def command(*arguments: str) -> list[str]:
    """Return the command line of the app; any warning is an error there too."""
    return [sys.executable, "-W", "error", str(APP), *arguments]


def environment() -> dict[str, str]:
    """Return this environment without settings of the SDK, and with a proxy that answers nobody."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return kept | {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}


def execute(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the app to its end."""
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, env=environment(), timeout=DEADLINE_SECONDS, check=False
    )


def simulate(folder: Path, *, seed: int, days: float = DAYS, more: Sequence[str] = ()) -> Run:
    """Return what a whole simulation exported and said."""
    truth = folder / "truth.jsonl"
    arguments = [
        "--days",
        str(days),
        "--start",
        START.isoformat(),
        "--release-at",
        str(RELEASE_AT),
        "--seed",
        str(seed),
    ]
    with receiver() as received:
        done = execute(*arguments, "--truth", str(truth), "--endpoint", received.url, *more)
        assert (0, "") == (done.returncode, done.stderr)
        return Run(
            [json.loads(line) for line in done.stdout.splitlines()],
            [json.loads(line) for line in truth.read_text(encoding="utf-8").splitlines()],
            received.spans(),
        )


def plain(value: AnyValue) -> str | int | float:
    """Return the Python value of an attribute."""
    kind = value.WhichOneof("value")
    assert kind in {"string_value", "int_value", "double_value"}
    return getattr(value, kind)  # type: ignore[no-any-return]


def values(span: Span) -> dict[str, str | int | float]:
    """Return the attributes of ``span``, each of which is set once."""
    items: Sequence[KeyValue] = span.attributes
    found = {item.key: plain(item.value) for item in items}
    assert len(items) == len(found)
    return found


def words(text: str) -> set[str]:
    """Return the words of ``text``, in lower case."""
    return set(re.findall(r"\w+", text.lower()))


def at(nanoseconds: int) -> datetime:
    """Return a span time as a datetime."""
    return datetime.fromtimestamp(nanoseconds // 1000 / 1e6, UTC)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return three days of traffic, with the release in the middle."""
    return simulate(tmp_path_factory.mktemp("chat"), seed=11)


@pytest.fixture(scope="module")
def traces(run: Run) -> dict[str, Trace]:
    """Return the turns of `run` by trace id."""
    return run.traces()


def test_no_span_is_lost(run: Run, traces: dict[str, Trace]) -> None:
    """Every turn arrives whole and once: root, retrieval and answer, and the condensed question of a follow-up."""
    follow_ups = sum("condense_question" in trace.children for trace in traces.values())
    assert run.progress[-1]["spans"] == len(run.spans) == 3 * len(traces) + follow_ups
    assert len(run.spans) == len({span.span_id for _, span in run.spans})
    assert len(run.truth) == run.progress[-1]["turns"] == len(traces)
    assert {"retrieve", "generate_answer"} <= set.intersection(*(set(trace.children) for trace in traces.values()))


def test_traffic_has_the_asked_size(run: Run) -> None:
    """Three days of 20 turns an hour are 1,440 turns, give or take what Poisson sessions do."""
    assert abs(len(run.truth) - DAYS * 24 * 20) < 220


def test_truth_names_the_exported_spans(run: Run, traces: dict[str, Trace]) -> None:
    """A line of truth and its root span agree on id, session, release and start."""
    for line in run.truth:
        trace = traces[line["trace_id"]]
        assert line["span_id"] == trace.root.span_id.hex()
        assert line["session_id"] == values(trace.root)["session.id"]
        assert line["release"] == trace.resource["service.version"]
        assert abs(datetime.fromisoformat(line["time"]) - at(trace.root.start_time_unix_nano)) < timedelta(
            milliseconds=1
        )


def test_defect_is_what_the_documents_do_not_say(run: Run, traces: dict[str, Trace]) -> None:
    """A defect holds its invented sentences, whose words are mostly in no document; any other answer only quotes."""
    for line in run.truth:
        trace = traces[line["trace_id"]]
        assert line["defect"] is bool(line["invented"]) is (line["reason"] is not None)
        if line["outcome"] != "answered":
            assert not line["defect"]
            continue
        answer = str(values(trace.root)["output.value"])
        said, known = words(CITATION.sub("", answer)), words(" ".join(content for _, content in trace.documents()))
        if not line["defect"]:
            assert said - known <= CONNECTIVES, answer
        for sentence in line["invented"]:
            assert words(sentence) <= said
            foreign = {word for word in words(sentence) if len(word) > 3} - known
            assert len(foreign) >= 0.5 * len({word for word in words(sentence) if len(word) > 3}), sentence


def test_answers_cite_retrieved_passages(traces: dict[str, Trace]) -> None:
    """Every id in square brackets is the id of a document of the same turn, also in invented sentences."""
    cited = 0
    for trace in traces.values():
        ids = set(CITATION.findall(str(values(trace.root).get("output.value", ""))))
        assert ids <= {found for found, _ in trace.documents()}
        cited += bool(ids)
    assert cited > 0.8 * len(traces)


def test_inventions_vary(run: Run) -> None:
    """Hardly any invented sentence occurs twice."""
    invented = [sentence for line in run.truth for sentence in line["invented"]]
    assert len(invented) > 200
    assert len(set(invented)) > 0.97 * len(invented)


def test_release_goes_out_midway(run: Run, traces: dict[str, Trace]) -> None:
    """Turns that start before the release come from one process of 1.4.0, those after it from one of 2.0.0."""
    assert all((datetime.fromisoformat(line["time"]) >= RELEASED) == (line["release"] == "2.0.0") for line in run.truth)
    assert {"1.4.0", "2.0.0"} == {line["release"] for line in run.truth}
    resources = {tuple(sorted(trace.resource.items())) for trace in traces.values()}
    assert len(resources) == 2
    for resource in map(dict, resources):
        assert ("python-docs-chat", "production") == (resource["service.name"], resource["deployment.environment"])
    assert len({dict(resource)["service.instance.id"] for resource in resources}) == 2


def test_release_raises_the_share_of_defects(run: Run) -> None:
    """About 4 % of the answers of 1.4.0 and about 28 % of those of 2.0.0 are defects, within four standard errors."""
    for release, share in (("1.4.0", 0.04), ("2.0.0", 0.28)):
        lines = [line for line in run.truth if line["release"] == release and line["outcome"] != "failed"]
        error = (share * (1 - share) / len(lines)) ** 0.5
        assert abs(sum(line["defect"] for line in lines) / len(lines) - share) < 4 * error
    assert {"embellished", "stale_index", "nothing_retrieved"} == {
        line["reason"] for line in run.truth if line["defect"]
    }
    assert all(line["fault"] is None for line in run.truth if line["release"] == "1.4.0")


def test_follow_up_carries_its_history(run: Run, traces: dict[str, Trace]) -> None:
    """A follow-up's history is the answered turns of its session, in its root and its prompt; it is condensed first."""
    history: dict[str, list[dict[str, str]]] = {}
    rewritten = 0
    for line in sorted(run.truth, key=lambda line: line["time"]):
        trace = traces[line["trace_id"]]
        question = json.loads(str(values(trace.root)["input.value"]))
        earlier = history.setdefault(line["session_id"], [])
        assert earlier == question["chat_history"]
        assert ("condense_question" in trace.children) is bool(earlier)
        prompt = values(trace.children["generate_answer"])
        for number, message in enumerate(earlier, start=1):
            assert message["content"] == prompt[f"llm.input_messages.{number}.message.content"]
        assert str(prompt[f"llm.input_messages.{len(earlier) + 1}.message.content"]).endswith(question["question"])
        query = values(trace.children["retrieve"])["input.value"]
        if earlier:
            assert query == values(trace.children["condense_question"])["output.value"]
        rewritten += query != question["question"]
        if line["outcome"] != "failed":
            earlier.append({"role": "user", "content": question["question"]})
            earlier.append({"role": "assistant", "content": str(values(trace.root)["output.value"])})
    assert rewritten > 0.3 * len(run.truth)


def test_spans_follow_the_convention(traces: dict[str, Trace]) -> None:
    """Kinds, session, user and model are on the spans where OpenInference has them, children inside their root."""
    kinds = {"condense_question": "LLM", "retrieve": "RETRIEVER", "generate_answer": "LLM"}
    for trace in traces.values():
        root = values(trace.root)
        assert ("support_chat", "CHAIN") == (trace.root.name, root["openinference.span.kind"])
        for name, span in trace.children.items():
            attributes = values(span)
            assert kinds[name] == attributes["openinference.span.kind"]
            assert (root["session.id"], root["user.id"]) == (attributes["session.id"], attributes["user.id"])
            assert span.parent_span_id == trace.root.span_id
            assert trace.root.start_time_unix_nano <= span.start_time_unix_nano < span.end_time_unix_nano
            assert span.end_time_unix_nano <= trace.root.end_time_unix_nano
            if kinds[name] == "LLM":
                assert "extractive-demo" == attributes["llm.model_name"]
        if "llm.token_count.total" in (answer := values(trace.children["generate_answer"])):
            parts = (answer["llm.token_count.prompt"], answer["llm.token_count.completion"])
            assert answer["llm.token_count.total"] == sum(map(int, parts))
            assert all(int(part) > 0 for part in parts)


def test_retrieved_documents_are_in_the_prompt(traces: dict[str, Trace]) -> None:
    """Each document has content, a positive score and a title, best first, and stands in the answering prompt."""
    for trace in traces.values():
        attributes = values(trace.children["retrieve"])
        messages = values(trace.children["generate_answer"])
        prompt = "".join(str(text) for key, text in messages.items() if key.startswith("llm.input_messages"))
        documents = trace.documents()
        scores = [float(attributes[f"retrieval.documents.{n}.document.score"]) for n in range(len(documents))]
        assert scores == sorted(scores, reverse=True)
        assert all(score > 0 for score in scores)
        for number, (found, content) in enumerate(documents):
            metadata = json.loads(str(attributes[f"retrieval.documents.{number}.document.metadata"]))
            assert f"[{found}] {metadata['title']}\n{content}" in prompt
            assert metadata["source"].startswith("pydoc/topics/")


def test_question_about_something_else_is_refused(run: Run, traces: dict[str, Trace]) -> None:
    """Some questions find no passage; the healthy release then says that it does not know."""
    found = Counter(
        line["outcome"]
        for line in run.truth
        if line["release"] == "1.4.0" and not line["defect"] and not traces[line["trace_id"]].documents()
    )
    assert {"refused", "failed"} >= set(found)
    assert found["refused"] > 0.02 * len(run.truth) / 2


def test_failed_turn_has_passages_and_no_answer(run: Run, traces: dict[str, Trace]) -> None:
    """When the model call fails, it and the root are ERROR with an exception event, and nothing is answered."""
    failed = [traces[line["trace_id"]] for line in run.truth if line["outcome"] == "failed"]
    assert 0 < len(failed) < 0.04 * len(run.truth)
    for trace in failed:
        for span in (trace.root, trace.children["generate_answer"]):
            assert Status.STATUS_CODE_ERROR == span.status.code
            (event,) = span.events
            assert "exception" == event.name
            assert {"exception.type", "exception.message", "exception.stacktrace"} <= {a.key for a in event.attributes}
            assert not any(key.startswith(("output.", "llm.output", "llm.token")) for key in values(span))
        assert Status.STATUS_CODE_OK == trace.children["retrieve"].status.code
    answered = (traces[line["trace_id"]].root for line in run.truth if line["outcome"] != "failed")
    assert {Status.STATUS_CODE_OK} == {root.status.code for root in answered}


def test_turns_arrive_in_the_order_they_end(run: Run) -> None:
    """Event time never runs backwards from one root span to the next."""
    ends = [span.end_time_unix_nano for _, span in run.spans if not span.parent_span_id]
    assert ends == sorted(ends)
    assert START <= at(ends[0])
    assert at(ends[-1]) < START + timedelta(days=DAYS)


def test_progress_counts_every_simulated_hour(run: Run) -> None:
    """One line an hour says how many turns have ended before it; only the last is done."""
    ends = [at(span.end_time_unix_nano) for _, span in run.spans if not span.parent_span_id]
    hours = [START + timedelta(hours=n + 1) for n in range(DAYS * 24)]
    assert hours == [datetime.fromisoformat(line["until"]) for line in run.progress]
    assert [sum(end < hour for end in ends) for hour in hours] == [line["turns"] for line in run.progress]
    assert [False] * (len(hours) - 1) + [True] == [line["done"] for line in run.progress]


def test_same_seed_repeats_everything(tmp_path: Path) -> None:
    """Two runs with one seed export the same spans and truth; another seed exports other ones."""
    runs = [simulate(tmp_path, seed=seed, days=0.25) for seed in (5, 5, 6)]
    first, again, other = ([(resource, span.SerializeToString()) for resource, span in run.spans] for run in runs)
    # A stack trace holds line numbers and paths only, so even failed turns repeat.
    assert first == again
    assert runs[0].truth == runs[1].truth
    assert not {line["trace_id"] for line in runs[0].truth} & {line["trace_id"] for line in runs[2].truth}
    assert first != other


def test_rates_are_obeyed(tmp_path: Path) -> None:
    """With both rates at 0 nothing is invented, and without a release only 1.4.0 is in service."""
    run = simulate(tmp_path, seed=2, days=0.5, more=("--healthy-rate", "0", "--broken-rate", "0", "--release-at", "1"))
    assert [] == [line for line in run.truth if line["defect"]]
    assert {"1.4.0"} == {line["release"] for line in run.truth}


def test_step_waits_for_the_parent(tmp_path: Path) -> None:
    """With --step nothing more is sent before a line arrives, and the app ends when its parent is gone."""
    truth = tmp_path / "truth.jsonl"
    arguments = ["--days", "1", "--start", START.isoformat(), "--stretch-hours", "6", "--step", "--truth", str(truth)]
    with (
        receiver() as received,
        subprocess.Popen(
            command(*arguments, "--endpoint", received.url),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        ) as app,
    ):
        assert app.stdin is not None
        assert app.stdout is not None
        assert app.stderr is not None
        for stretch in (1, 2):
            line: Progress = json.loads(app.stdout.readline())
            assert START + timedelta(hours=6 * stretch) == datetime.fromisoformat(line["until"])
            assert len(truth.read_text(encoding="utf-8").splitlines()) == line["turns"] > 0
            assert len(received.spans()) == line["spans"]
            if stretch == 1:
                app.stdin.write("\n")
                app.stdin.flush()
        app.stdin.close()
        assert 1 == app.wait(DEADLINE_SECONDS)
        assert "the input ended" in app.stderr.read()
        assert len(received.spans()) == line["spans"]


def test_refused_spans_stop_the_app() -> None:
    """A receiver that refuses spans ends the app with status 1 and a message that says where and how many."""
    with receiver(status=400) as received:
        done = execute("--days", "0.2", "--start", START.isoformat(), "--endpoint", received.url)
    assert 1 == done.returncode
    assert re.search(
        rf"chat_app: exporting spans to {re.escape(received.url)}: \d+ of \d+ were not accepted", done.stderr
    )
    assert '"done": true' not in done.stdout


def test_ask_answers_one_question() -> None:
    """A question gets an answer with its citations, and one trace where an endpoint is given."""
    with receiver() as received:
        done = execute("--ask", "What does the with statement do?", "--endpoint", received.url)
        names = Counter(span.name for _, span in received.spans())
    assert (0, "") == (done.returncode, done.stderr)
    answer, *citations = done.stdout.splitlines()
    assert '"with" statement' in answer
    assert '[with-01] The "with" statement' in citations
    assert {"support_chat": 1, "retrieve": 1, "generate_answer": 1} == names


def test_ask_needs_no_endpoint() -> None:
    """Without an endpoint a question is answered all the same."""
    done = execute("--ask", "How do I bake sourdough bread?")
    assert (0, "") == (done.returncode, done.stderr)
    assert re.search("documentation|passages", done.stdout)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("--healthy-rate", "1.5"), "found 1.5, allowed is a number from 0 to 1"),
        (("--days", "0"), "found 0, allowed is a number above 0"),
        (("--start", "2026-03-01"), "allowed is a time with its zone"),
        (("--endpoint", "localhost:4318"), "allowed is an http or https URL"),
    ],
)
def test_wrong_argument(arguments: tuple[str, ...], found: str) -> None:
    """A wrong argument exits with 2 and says what was found and what is allowed."""
    done = execute(*arguments)
    assert 2 == done.returncode
    assert found in done.stderr


def test_app_is_foreign_to_its_monitor() -> None:
    """The app imports the standard library, OpenTelemetry and its own files, and nothing else."""
    own = {path.stem for path in APP.glob("*.py")}
    imported: set[str] = set()
    for path in APP.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert 0 == node.level
                imported.add(str(node.module).partition(".")[0])
    assert {"opentelemetry"} == imported - own - sys.stdlib_module_names
