"""Milliseconds to assemble a 20-span turn, with and without decoding, and how time grows up to a 10,000-span trace.

The turn is made like a LangChain retrieval chain: 15 chains that repeat question, history and five documents of 600
characters as JSON, two model calls, a retriever, an embedding and a tool. Targets: below 1.5 ms a turn (median), and
the same time per span from 1,000 to 10,000 spans.
"""

import json
import random
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from monitor import plugins
from monitor.assembly.join import join
from monitor.assembly.rules import reading_rules
from monitor.assembly.trace_turns import read_trace
from monitor.model.spans import Attributes, Decoded, Span
from monitor.payloads.otlp.fragments import Fragment, decode_otlp, split_otlp

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BEGAN = 1_767_225_600_000_000_000
RULES = reading_rules(
    (plugins.load("dialects", kind, "bench").DIALECT for kind in plugins.kinds("dialects")), hash_user=str
)
TRACE = "ab" * 16
rng = random.Random(7)  # noqa: S311 -- made-up words
WORDS = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 10))) for _ in range(4000)]


def main() -> None:
    """Print the figures."""
    # Each turn has texts of its own: none may be remembered from an earlier one.
    turns = [tuple(chain_turn()) for _ in range(500)]
    assembled = [milliseconds(lambda turn=turn: assemble(turn)) for turn in turns * 2]
    print(f"20-span turn, {weight(turns[0]):,} characters: {statistics.median(assembled):.2f} ms to assemble")
    fragments = [as_fragment(turn) for turn in turns]
    decoded = [milliseconds(lambda fragment=fragment: assemble(decode_otlp(fragment).spans)) for fragment in fragments]
    print(f"  with decoding of {len(fragments[0].payload):,} bytes: {statistics.median(decoded):.2f} ms")
    shapes: dict[str, Callable[[int], tuple[Span, ...]]] = {
        "one root": wide,
        "root missing": lambda n: wide(n)[1:],
        "one below the other": deep,
        "many turns below a session": session,
    }
    for name, shape in shapes.items():
        costs = {}
        for size in (1_000, 10_000):
            spans = shape(size)
            costs[size] = min(milliseconds(lambda spans=spans: assemble(spans)) for _ in range(3)) / len(spans) * 1000
        print(f"{name}: {costs[1_000]:.0f} us a span at 1,000 spans, {costs[10_000]:.0f} us at 10,000")


def assemble(spans: tuple[Span, ...]) -> None:
    """What a tick does with the decoded spans of one trace."""
    assert read_trace(join(TRACE, [Decoded(spans=spans)]), RULES).assembly.turns


def milliseconds(run: Callable[[], None]) -> float:
    """CPU time of one run: others may be using the machine."""
    began = time.thread_time()
    run()
    return (time.thread_time() - began) * 1000


def text(length: int) -> str:
    """Words of about this many characters together."""
    out = ""
    while len(out) < length:
        out += rng.choice(WORDS) + " "
    return out.strip()


def span(number: int, parent: int | None, name: str, attributes: Attributes, *, length: int = 1_000_000) -> Span:
    """A span that begins a microsecond after the one before it."""
    start = BEGAN + number * 1_000
    return Span(
        trace_id=TRACE,
        span_id=f"{number + 1:016x}",
        parent_id=None if parent is None else f"{parent + 1:016x}",
        name=name,
        kind=1,
        start_ns=start,
        end_ns=start + length,
        attributes=attributes,
        resource={"service.name": "bench"},
        scope="openinference.instrumentation.langchain",
    )


def flattened(prefix: str, rows: list[dict[str, str | float]]) -> dict[str, str | float]:
    """Rows as indexed attributes."""
    return {f"{prefix}.{i}.{key}": value for i, row in enumerate(rows) for key, value in row.items()}


def chain_turn() -> Iterator[Span]:
    """The 20 spans of one turn."""
    question, answer = text(60), text(200)
    history = [{"role": role, "content": text(80)} for role in ("user", "assistant") * 2]
    documents = [{"id": f"kb-{i}", "page_content": text(600), "metadata": {"title": text(20)}} for i in range(5)]
    chain_input = json.dumps({"input": question, "chat_history": history})
    state = json.dumps({"input": question, "chat_history": history, "context": documents, "answer": answer})
    chain = {
        "openinference.span.kind": "CHAIN",
        "input.value": chain_input,
        "input.mime_type": "application/json",
        "session.id": "s",
    }
    for number in range(15):
        yield span(number, None if number == 0 else 0, "chain", chain | {"output.value": state}, length=50_000_000)
    prompt = text(200) + "\n\nContext:\n" + "\n".join(str(d["page_content"]) for d in documents)
    messages = [{"message.role": "system", "message.content": prompt}]
    messages += [{"message.role": m["role"], "message.content": m["content"]} for m in history]
    messages += [{"message.role": "user", "message.content": question}]
    call = flattened("llm.input_messages", messages) | flattened(
        "llm.output_messages", [{"message.role": "assistant", "message.content": answer}]
    )
    for number in (15, 16):
        yield span(number, 3, "ChatOpenAI", call | {"openinference.span.kind": "LLM", "llm.model_name": "m"})
    rows = [
        {"document.content": str(d["page_content"]), "document.metadata": json.dumps(d["metadata"])} for d in documents
    ]
    output = flattened("retrieval.documents", rows) | {"output.value": json.dumps({"documents": documents})}
    yield span(17, 2, "retriever", output | {"openinference.span.kind": "RETRIEVER", "input.value": question})
    yield span(18, 17, "embedding", {"openinference.span.kind": "EMBEDDING"})
    yield span(19, 2, "tool", {"openinference.span.kind": "TOOL", "output.value": '{"stock": 3}'})


def step(number: int, parent: int | None, question: str) -> Span:
    """A small tool, model or retriever span, by its number."""
    kind = ("TOOL", "LLM", "RETRIEVER")[number % 3]
    attributes: dict[str, str | float] = {"openinference.span.kind": kind, "input.value": question}
    if kind == "RETRIEVER":
        attributes |= flattened("retrieval.documents", [{"document.id": f"d{number}", "document.content": text(80)}])
    else:
        attributes["output.value"] = text(80)
    return span(number, parent, kind.lower(), attributes)


def root(number: int, question: str, parent: int | None = None) -> Span:
    """A chain with a question and an answer."""
    attributes = {"openinference.span.kind": "CHAIN", "input.value": question, "output.value": text(80)}
    return span(number, parent, "rag", attributes, length=100_000_000)


def wide(size: int) -> tuple[Span, ...]:
    """An agent run: all steps directly below one root."""
    question = text(60)
    return (root(0, question), *(step(n, 0, f"{question} {n}") for n in range(1, size)))


def deep(size: int) -> tuple[Span, ...]:
    """Every span below the one before it."""
    question = text(60)
    return (root(0, question), *(step(n, n - 1, f"{question} {n}") for n in range(1, size)))


def session(size: int) -> tuple[Span, ...]:
    """A connection that stays open: turns of five spans below one request."""
    spans = [span(0, None, "websocket", {"url.path": "/chat", "session.id": "s"}, length=10_000_000_000)]
    for number in range(1, size, 5):
        question = text(60)
        spans.append(root(number, question, 0))
        spans += [step(number + i, number, question) for i in range(1, 5)]
    return tuple(spans)


def weight(spans: tuple[Span, ...]) -> int:
    """Characters of all attribute values."""
    return sum(len(str(value)) for span in spans for value in span.attributes.values())


def as_fragment(spans: tuple[Span, ...]) -> Fragment:
    """The turn as a collector stores it."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "bench"
    scope = resource.scope_spans.add()
    for span in spans:
        scope.spans.add(
            trace_id=bytes.fromhex(span.trace_id),
            span_id=bytes.fromhex(span.span_id),
            parent_span_id=bytes.fromhex(span.parent_id or ""),
            name=span.name,
            start_time_unix_nano=span.start_ns,
            end_time_unix_nano=span.end_ns,
            attributes=[
                KeyValue(key=key, value=AnyValue(string_value=str(value))) for key, value in span.attributes.items()
            ],
        )
    (fragment,) = split_otlp(request.SerializeToString(), "traces", received_at=NOW, encoding="protobuf").fragments
    return fragment


if __name__ == "__main__":
    main()
