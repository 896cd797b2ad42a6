"""A toy RAG app whose answers bench/exporter.py times; prints what it measured as JSON.

usage: _exporter_app.py {none,ours,stock} {endpoint,store} URL SECONDS {shutdown,exit}
"""

import json
import os
import sys
import threading
import time
from datetime import timedelta

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.trace import Tracer

from monitor.exporter.exporters import RagMonitorSpanExporter

THREADS = 4
PER_SECOND = 25
"""Answers that each thread gives in a second."""
DOCUMENTS = ["".join(chr(97 + (i * j) % 26) for i in range(600)) for j in range(1, 6)]


def provider_of(kind: str, where: str, url: str) -> tuple[TracerProvider, RagMonitorSpanExporter | None]:
    """Return the app's tracing, and our exporter if it is in it."""
    provider = TracerProvider(resource=Resource({"service.name": "toy"}), shutdown_on_exit=False)
    if kind == "ours":
        exporter = RagMonitorSpanExporter(**{where: url}, linger=timedelta(milliseconds=500))
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        return provider, exporter
    if kind == "stock":
        stock = OTLPSpanExporter(endpoint=f"{url}/v1/traces")
        provider.add_span_processor(BatchSpanProcessor(stock, schedule_delay_millis=500))
    return provider, None


def answer(tracer: Tracer, question: str) -> str:
    """Retrieve, ask a model, answer: 7 ms of waiting and a little work, in five spans."""
    with tracer.start_as_current_span(
        "rag", attributes={"openinference.span.kind": "CHAIN", "input.value": question}
    ) as root:
        with tracer.start_as_current_span("retrieve", attributes={"openinference.span.kind": "RETRIEVER"}) as span:
            with tracer.start_as_current_span("embed"):
                pass
            with tracer.start_as_current_span("search"):
                time.sleep(0.002)
            scores = sorted(number * 7919 % 500 / 500 for number in range(500))
            for number, text in enumerate(DOCUMENTS):
                span.set_attribute(f"retrieval.documents.{number}.document.content", text)
                span.set_attribute(f"retrieval.documents.{number}.document.score", scores[-number - 1])
        with tracer.start_as_current_span("chat", attributes={"openinference.span.kind": "LLM"}) as span:
            time.sleep(0.005)
            text = json.dumps({"answer": DOCUMENTS[0][:200], "sources": [1, 2]})
            span.set_attribute("llm.input_messages.0.message.content", question + "\n".join(DOCUMENTS))
            span.set_attribute("output.value", text)
        root.set_attribute("output.value", text)
    return text


def work(tracer: Tracer, seconds: float, took: list[float], *, after: float = 0) -> None:
    """Answer at a steady pace, as users do not wait for one another."""
    due = time.perf_counter() + after
    end = due + seconds
    while due < end:
        time.sleep(max(due - time.perf_counter(), 0))
        began = time.perf_counter()
        answer(tracer, "What is the fee?")
        took.append(time.perf_counter() - began)
        due += 1 / PER_SECOND


def main(kind: str, where: str, url: str, seconds: str, then: str) -> None:
    """Run the app and print."""
    provider, exporter = provider_of(kind, where, url)
    tracer = provider.get_tracer("toy")
    work(tracer, 0.3, [])
    took: list[float] = []
    threads = [
        threading.Thread(
            target=work, args=(tracer, float(seconds), took), kwargs={"after": number / THREADS / PER_SECOND}
        )
        for number in range(THREADS)
    ]
    cpu = time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cpu = time.process_time() - cpu
    began = time.perf_counter()
    if then == "shutdown":
        provider.shutdown()
    stats = exporter.stats() if exporter else None
    print(
        json.dumps(
            {
                "took": took,
                "cpu": cpu / len(took),
                "end": time.perf_counter() - began if then == "shutdown" else None,
                "delivered": stats.delivered if stats else 0,
                "dropped": sum(stats.dropped.values()) if stats else 0,
            }
        ),
        flush=True,
    )
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
