"""The two servers that bench/ingest.py compares; each prints its port and serves until SIGTERM.

usage: _ingest_servers.py {http,grpc,probe} URL
"""

import asyncio
import json
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import uvloop
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

from collectors.otlp_grpc import collector as otlp_grpc
from collectors.otlp_http import collector as otlp_http
from monitor.access.refusals import Refusals
from monitor.http_server.server import Server
from monitor.runtime.intake import Intake
from monitor.settings.tree import IntakeSettings
from monitor.store.sql_store import open_store


class Probe:
    """What a straightforward receiver costs: parse, walk all attributes, a row per trace with its full text."""

    def __init__(self, url: str) -> None:
        self._connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("CREATE TABLE traces (trace_id BLOB, received_at TEXT, text TEXT)")

    async def __call__(self, _: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Keep one request, then answer it."""
        body, more = b"", True
        while more:
            event = await receive()
            body += event["body"]
            more = event["more_body"]
        now = datetime.now(UTC).isoformat()
        traces = {}
        for trace_id, span in walked(ExportTraceServiceRequest.FromString(body)):
            traces.setdefault(trace_id, []).append(span)
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(
            "INSERT INTO traces VALUES (?, ?, ?)", [(key, now, json.dumps(spans)) for key, spans in traces.items()]
        )
        self._connection.execute("COMMIT")
        headers = ((b"content-type", b"application/x-protobuf"), (b"content-length", b"0"))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def walked(request: ExportTraceServiceRequest) -> Iterator[tuple[bytes, dict[str, object]]]:
    """Yield each span's trace id and the span as a dict."""
    for resource in request.resource_spans:
        shared = {pair.key: plain(pair.value) for pair in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield (
                    span.trace_id,
                    {
                        "resource": shared,
                        "span_id": span.span_id.hex(),
                        "parent_id": span.parent_span_id.hex(),
                        "name": span.name,
                        "start": span.start_time_unix_nano,
                        "end": span.end_time_unix_nano,
                        "attributes": {pair.key: plain(pair.value) for pair in span.attributes},
                    },
                )


def plain(value: AnyValue) -> object:
    """Return a scalar attribute value."""
    which = value.WhichOneof("value")
    return getattr(value, which) if which else None


async def main(kind: str, url: str) -> None:
    """Serve until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with AsyncExitStack() as running:
        if kind == "probe":
            server = await running.enter_async_context(
                Server(
                    Probe(url),
                    host="127.0.0.1",
                    port=0,
                    where="probe",
                    refusals=Refusals("probe", lambda: datetime.now(UTC)),
                )
            )
        else:
            store = open_store(url)
            running.callback(store.close)
            intake = await running.enter_async_context(Intake(store, IntakeSettings()))
            source = otlp_http if kind == "http" else otlp_grpc
            server = await running.enter_async_context(
                source.build(source.Config(port=0), intake, lambda: datetime.now(UTC))
            )
        print(server.address[1], flush=True)
        await stop.wait()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
