"""Requests for bench/ingest.py, and the clients that send them as fast, or as steadily, as asked."""

import asyncio
import os
import random
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import grpc.aio
from isal import igzip
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SPANS_PER_TURN = 3


class Bodies:
    """Export requests of `spans` spans, each with ids and times of its own, patched into one template."""

    def __init__(self, spans: int, *, compress: bool) -> None:
        request = template(spans // SPANS_PER_TURN)
        self.spans = spans // SPANS_PER_TURN * SPANS_PER_TURN
        self.template = request.SerializeToString()
        made = request.resource_spans[0].scope_spans[0].spans
        ids = {span.trace_id for span in made} | {span.span_id for span in made}
        self._places = [(len(one), places(self.template, one)) for one in ids]
        times = {one for span in made for one in (span.start_time_unix_nano, span.end_time_unix_nano)}
        self._times = [(one, places(self.template, struct.pack("<Q", one))) for one in times]
        self._made_at = min(times)
        self._compress = compress

    def next(self) -> bytes:
        """Return the next request. None comes twice: what is known already costs a server less."""
        body = self._fresh()
        # zlib takes five times as long, which is more than the server takes for the whole request.
        return igzip.compress(body, 1) if self._compress else body

    def _fresh(self) -> bytes:
        body = bytearray(self.template)
        for size, at in self._places:
            fresh = os.urandom(size)
            for place in at:
                body[place : place + size] = fresh
        later = time.time_ns() - self._made_at
        for made, at in self._times:
            moved = struct.pack("<Q", made + later)
            for place in at:
                body[place : place + 8] = moved
        return bytes(body)


def places(body: bytes, needle: bytes) -> list[int]:
    """Return where `needle` starts in `body`."""
    found, at = [], body.find(needle)
    while at >= 0:
        found.append(at)
        at = body.find(needle, at + 1)
    return found


def template(turns: int) -> ExportTraceServiceRequest:
    """Return turns of a root, a retriever with 5 documents of 600 characters, and an LLM span that quotes them."""
    rng = random.Random(7)  # noqa: S311 -- words, not secrets
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 10))) for _ in range(4000)]

    def text(length: int) -> str:
        out = ""
        while len(out) < length:
            out += rng.choice(words) + " "
        return out[:length]

    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    put(resource.resource, {"service.name": "helpdesk", "service.version": "1.4.2", "telemetry.sdk.language": "python"})
    scope = resource.scope_spans.add()
    scope.scope.name = "openinference.instrumentation.langchain"
    now = time.time_ns()
    for _ in range(turns):
        trace_id, root = rng.randbytes(16), rng.randbytes(8)
        query, answer, documents = text(80), text(500), [text(600) for _ in range(5)]
        prompt = f"{text(300)}\n\n" + "\n\n".join(documents)
        retrieval = {"openinference.span.kind": "RETRIEVER", "input.value": query}
        for i, document in enumerate(documents):
            retrieval |= {
                f"retrieval.documents.{i}.document.id": f"kb-{i}",
                f"retrieval.documents.{i}.document.content": document,
                f"retrieval.documents.{i}.document.score": 0.9 - i / 10,
            }
        answering = {
            "openinference.span.kind": "LLM",
            "llm.model_name": "gpt-4o-mini",
            "llm.token_count.prompt": 812,
            "llm.token_count.completion": 131,
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.0.message.content": prompt,
            "llm.input_messages.1.message.role": "user",
            "llm.input_messages.1.message.content": query,
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": answer,
            "llm.invocation_parameters": '{"temperature": 0.2, "max_tokens": 512}',
        }
        whole = {"openinference.span.kind": "CHAIN", "input.value": query, "output.value": answer, "session.id": "c-1"}
        # A chain's root repeats some of what it was given.
        whole |= {"metadata": text(200), "llm.prompt_template.variables": "\n".join(documents[:2])}
        for name, parent, attributes in (("retrieve", root, retrieval), ("chat", root, answering), ("rag", b"", whole)):
            span = scope.spans.add(trace_id=trace_id, span_id=rng.randbytes(8) if parent else root, name=name, kind=1)
            span.parent_span_id = parent
            span.start_time_unix_nano, span.end_time_unix_nano = now, now + 800_000_000
            put(span, attributes)
    return request


def put(owner: Span | Resource, attributes: Mapping[str, str | int | float]) -> None:
    """Set attributes on a span or resource."""
    for key, value in attributes.items():
        pair = owner.attributes.add(key=key)
        if isinstance(value, str):
            pair.value.string_value = value
        elif isinstance(value, int):
            pair.value.int_value = value
        else:
            pair.value.double_value = value


@dataclass
class Result:
    """What a round saw."""

    answered: int = 0
    """Requests answered with success."""
    refused: int = 0
    latencies: list[float] = field(default_factory=list)
    """Seconds from when a request was due to when it was answered."""
    seconds: float = 0.0


class HttpClient(asyncio.Protocol):
    """One keep-alive connection with one request under way."""

    def __init__(self, head: bytes) -> None:
        self._head, self._answer, self._seen = head, None, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer the waiting call once the reply is complete."""
        self._seen += data
        head, end, rest = self._seen.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
        if end and (len(rest) >= int(length) if length else rest.endswith(b"0\r\n\r\n")):
            self._seen = b""
            self._answer.set_result(head.startswith(b"HTTP/1.1 200"))

    def connection_lost(self, _: Exception | None) -> None:
        """Fail the waiting call."""
        if self._answer and not self._answer.done():
            self._answer.set_result(False)

    async def call(self, body: bytes) -> bool:
        """Return whether the request was answered with 200."""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.writelines((self._head % len(body), body))
        return await self._answer

    async def close(self) -> None:
        """Hang up."""
        self._transport.close()


class GrpcClient:
    """One channel with one call under way."""

    def __init__(self, port: int) -> None:
        options = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1))
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options)
        self._export = self._channel.unary_unary(EXPORT)

    async def call(self, body: bytes) -> bool:
        """Return whether the call ended with OK."""
        try:
            await self._export(body, timeout=30)
        except grpc.aio.AioRpcError:
            return False
        return True

    async def close(self) -> None:
        """Hang up."""
        await self._channel.close()


Client = HttpClient | GrpcClient


async def connected(kind: str, port: int, count: int, *, compress: bool) -> list[Client]:
    """Return `count` clients of their own connections."""
    if kind == "grpc":
        return [GrpcClient(port) for _ in range(count)]
    head = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: %d\r\n"
    head += b"Content-Encoding: gzip\r\n\r\n" if compress else b"\r\n"
    loop = asyncio.get_running_loop()
    return [(await loop.create_connection(lambda: HttpClient(head), "127.0.0.1", port))[1] for _ in range(count)]


async def saturate(clients: list[Client], bodies: Bodies, seconds: float) -> Result:
    """Keep every client busy for `seconds`."""
    result, began = Result(), time.perf_counter()

    async def keep_busy(client: Client) -> None:
        while (now := time.perf_counter()) - began < seconds:
            good = await client.call(bodies.next())
            result.latencies.append(time.perf_counter() - now)
            result.answered, result.refused = result.answered + good, result.refused + (not good)

    await asyncio.gather(*(keep_busy(client) for client in clients))
    result.seconds = time.perf_counter() - began
    return result


async def steady(clients: list[Client], bodies: Bodies, seconds: float, *, per_second: float) -> Result:
    """Send `per_second` requests on a fixed schedule; a request that has to wait for a client waits on the clock."""
    result, began = Result(), time.perf_counter()
    due = (began + i / per_second for i in range(int(seconds * per_second)))

    async def follow(client: Client) -> None:
        for moment in due:
            await asyncio.sleep(max(0.0, moment - time.perf_counter()))
            good = await client.call(bodies.next())
            result.latencies.append(time.perf_counter() - moment)
            result.answered, result.refused = result.answered + good, result.refused + (not good)

    await asyncio.gather(*(follow(client) for client in clients))
    result.seconds = time.perf_counter() - began
    return result
