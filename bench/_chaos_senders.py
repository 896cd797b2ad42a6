"""Turns with a canary each, and the senders that repeat every part of one until it is acknowledged.

An acknowledgement is in the journal, on disk, before it counts.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import aiohttp
import grpc.aio
from _chaos_stubs import WRONG
from _ingest_load import EXPORT, put
from google.protobuf import json_format
from kafka import KafkaProducer
from kafka.errors import KafkaError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

APPS = ("billing", "helpdesk", "search", "travel")
TOPICS = {"spans": "chaos_spans", "turns": "chaos_turns"}
Way = Literal["http", "grpc", "spans", "turns"]
_WAYS: dict[Way, int] = {"http": 35, "grpc": 25, "spans": 25, "turns": 15}
_RETRY_SECONDS = 0.5
_HTTP_COMES_AGAIN = {429, 502, 503, 504}
_GRPC_COMES_AGAIN = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.ABORTED,
}


@dataclass(frozen=True, slots=True)
class Turn:
    """A question and its answer; `bad` says whether the judge must call it a defect."""

    number: int
    app: str
    way: Way
    bad: bool

    @property
    def canary(self) -> str:
        """What only this turn holds."""
        return f"canary-{self.number:06d}"

    @property
    def question(self) -> str:
        """What was asked."""
        return f"What is the code of {self.canary}?"

    @property
    def answer(self) -> str:
        """What was answered."""
        return f"The code of {self.canary} is {f'not here: {WRONG}' if self.bad else 'blue'}."


@dataclass(frozen=True)
class Ports:
    """Where one process takes telemetry."""

    http: int
    grpc: int


@dataclass
class Senders:
    """Sends turns at a steady rate to whichever process, and to Kafka."""

    ports: Sequence[Ports]
    kafka: Callable[[], str]
    journal: Path
    rng: random.Random
    sent: dict[int, Turn] = field(default_factory=dict)
    acknowledged: set[int] = field(default_factory=set)
    refused: Counter[str] = field(default_factory=Counter)
    """Answers after which an exporter drops what it sent: none of these is expected."""
    retries: int = 0
    uncertain: set[int] = field(default_factory=set)
    """Turns that are written as such, and whose record the broker may have kept more than once."""
    _producer: KafkaProducer | None = None
    _channels: dict[int, grpc.aio.Channel] = field(default_factory=dict)

    async def run(self, *, seconds: float, rate: float, bad: Callable[[str, float], bool]) -> None:
        """Send for so long; returns when every turn was acknowledged, for which it is cancelled if need be."""
        began = time.monotonic()
        ways, weights = list(_WAYS), list(_WAYS.values())
        with self.journal.open("a") as journal:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(10)) as session,
                asyncio.TaskGroup() as group,
            ):
                for number in range(1, int(seconds * rate) + 1):
                    await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
                    app = APPS[number % len(APPS)]
                    turn = Turn(number, app, self.rng.choices(ways, weights)[0], bad(app, time.monotonic() - began))
                    self.sent[number] = turn
                    group.create_task(self._deliver(turn, session, journal.write, journal.flush))

    async def close(self) -> None:
        """Hang up."""
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))
        if self._producer is not None:
            await asyncio.to_thread(self._producer.close, 2)

    async def _deliver(
        self, turn: Turn, session: aiohttp.ClientSession, write: Callable[[str], int], flush: Callable[[], None]
    ) -> None:
        """Have all parts acknowledged, some of them twice, and write that down."""
        for part in self._parts(turn):
            while not await self._send(turn.way, part, session):
                self.retries += 1
                if turn.way == "turns":
                    self.uncertain.add(turn.number)
                await asyncio.sleep(_RETRY_SECONDS)
            # An exporter that did not see the answer sends the same again. Two equal turns of Kafka are two.
            if turn.way != "turns" and self.rng.random() < 0.05:
                await self._send(turn.way, part, session)
            await asyncio.sleep(self.rng.random() * 0.5)
        write(json.dumps({"canary": turn.canary, "app": turn.app, "way": turn.way, "bad": turn.bad}) + "\n")
        flush()
        self.acknowledged.add(turn.number)

    def _parts(self, turn: Turn) -> list[bytes]:
        if turn.way == "turns":
            line = {"question": turn.question, "context": "The codes are colours.", "answer": turn.answer}
            return [json.dumps({**line, "app": turn.app}).encode()]
        spans = request(turn)
        if self.rng.random() < 0.7:
            return [spans.SerializeToString()]
        # The children go first, as exporters send them: the root ends last.
        root, children = ExportTraceServiceRequest(), ExportTraceServiceRequest()
        for half in (root, children):
            half.CopyFrom(spans)
        del children.resource_spans[0].scope_spans[0].spans[-1]
        del root.resource_spans[0].scope_spans[0].spans[:-1]
        return [children.SerializeToString(), root.SerializeToString()]

    async def _send(self, way: Way, body: bytes, session: aiohttp.ClientSession) -> bool:
        ports = self.rng.choice(self.ports)
        match way:
            case "http":
                return await self._over_http(ports.http, body, session)
            case "grpc":
                return await self._over_grpc(ports.grpc, body)
            case _:
                return await asyncio.to_thread(self._to_kafka, TOPICS[way], body)

    async def _over_http(self, port: int, body: bytes, session: aiohttp.ClientSession) -> bool:
        as_json, packed = self.rng.random() < 0.2, self.rng.random() < 0.5
        headers = {"Content-Type": "application/json" if as_json else "application/x-protobuf"}
        if as_json:
            body = otlp_json(body)
        if packed:
            body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
        try:
            async with session.post(f"http://127.0.0.1:{port}/v1/traces", data=body, headers=headers) as answer:
                said = await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False
        if answer.status == 200:
            return self._whole(b"" if as_json else said, json.loads(said or b"{}") if as_json else {})
        if answer.status not in _HTTP_COMES_AGAIN:
            self.refused[f"HTTP {answer.status}: {said[:200]!r}"] += 1
        return False

    def _whole(self, said: bytes, json_said: dict[str, object]) -> bool:
        rejected = ExportTraceServiceResponse.FromString(said).partial_success.rejected_spans
        if rejected or json_said.get("partialSuccess"):
            self.refused[f"partial success: {rejected} {json_said}"] += 1
        return True

    async def _over_grpc(self, port: int, body: bytes) -> bool:
        options = (("grpc.max_reconnect_backoff_ms", 1000), ("grpc.use_local_subchannel_pool", 1))
        if port not in self._channels:
            self._channels[port] = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options)
        packed = grpc.Compression.Gzip if self.rng.random() < 0.5 else grpc.Compression.NoCompression
        try:
            said = await self._channels[port].unary_unary(EXPORT)(body, timeout=10, compression=packed)
        except grpc.aio.AioRpcError as error:
            if error.code() not in _GRPC_COMES_AGAIN:
                self.refused[f"gRPC {error.code().name}: {error.details()}"] += 1
            return False
        return self._whole(said, {})

    def _to_kafka(self, topic: str, body: bytes) -> bool:
        try:
            if self._producer is None:
                self._producer = KafkaProducer(bootstrap_servers=self.kafka(), acks="all", request_timeout_ms=5000)
            self._producer.send(topic, body).get(timeout=15)
        except KafkaError:
            return False
        return True


def request(turn: Turn) -> ExportTraceServiceRequest:
    """Return a retriever with two documents, an LLM call, and last the root, as OpenInference writes them."""
    spans = ExportTraceServiceRequest()
    resource = spans.resource_spans.add()
    put(resource.resource, {"service.name": turn.app, "service.version": "1.0"})
    scope = resource.scope_spans.add()
    scope.scope.name = "openinference.instrumentation.langchain"
    trace_id, now = turn.number.to_bytes(16), time.time_ns()
    documents = ("The codes are colours.", f"{turn.canary} has a code.")
    retrieval: dict[str, str | int | float] = {"openinference.span.kind": "RETRIEVER", "input.value": turn.question}
    for i, document in enumerate(documents):
        retrieval |= {
            f"retrieval.documents.{i}.document.id": f"kb-{i}",
            f"retrieval.documents.{i}.document.content": document,
        }
    answering = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "gpt-4o-mini",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": turn.question,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": turn.answer,
    }
    whole = {"openinference.span.kind": "CHAIN", "input.value": turn.question, "output.value": turn.answer}
    for i, (name, attributes) in enumerate((("retrieve", retrieval), ("chat", answering), ("rag", whole)), start=1):
        span = scope.spans.add(trace_id=trace_id, span_id=i.to_bytes(8), name=name, kind=1)
        span.parent_span_id = b"" if name == "rag" else (3).to_bytes(8)
        span.start_time_unix_nano, span.end_time_unix_nano = now - 800_000_000 + i % 3, now
        put(span, attributes)
    return spans


def otlp_json(body: bytes) -> bytes:
    """Return the request in OTLP's JSON, whose ids are hexadecimal."""
    message = json_format.MessageToDict(ExportTraceServiceRequest.FromString(body))
    for resource in message["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for i, span in enumerate(scope["spans"]):
                made = ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans[i]
                span["traceId"], span["spanId"] = made.trace_id.hex(), made.span_id.hex()
                if made.parent_span_id:
                    span["parentSpanId"] = made.parent_span_id.hex()
    return json.dumps(message).encode()
