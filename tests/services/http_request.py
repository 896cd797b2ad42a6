"""One HTTP request over a connection of its own, and the whole reply."""

import http.client
import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

_SECONDS = 60


@dataclass(frozen=True)
class Answer:
    """An HTTP response; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def send(
    address: tuple[str, int],
    method: str,
    path: str,
    body: bytes | Iterator[bytes] | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Return the reply of the server at `address`, over TLS where there is a context for it."""
    connection = (
        http.client.HTTPConnection(*address, timeout=_SECONDS)
        if tls is None
        else http.client.HTTPSConnection(*address, timeout=_SECONDS, context=tls)
    )
    with closing(connection):
        connection.request(method, path, body, dict(headers or {}))
        reply = connection.getresponse()
        return Answer(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())


def export(
    address: tuple[str, int],
    body: bytes,
    headers: Mapping[str, str] | None = None,
    *,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Return the reply to an OTLP request for traces, as protobuf unless the headers say otherwise."""
    return send(
        address, "POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf", **(headers or {})}, tls=tls
    )
