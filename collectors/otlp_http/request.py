"""The head of an OTLP/HTTP request: what it wants to deliver, and in which form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from collectors._otlp_receiver.admission import Share
from monitor.errors import MalformedPayload, Rejected
from monitor.payloads.compression import CODINGS, Coding, unpacked_estimate
from monitor.payloads.otlp.fragments import Encoding, OtlpSignal

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable  # uvicorn keeps its types private

_PATHS: Mapping[str, OtlpSignal | Literal["metrics"]] = {
    "/v1/traces": "traces",
    "/v1/logs": "logs",
    "/v1/metrics": "metrics",
    # Where apps that were set up for Langfuse send.
    "/api/public/otel/v1/traces": "traces",
}
_ENCODINGS: Mapping[bytes, Encoding] = {
    b"application/x-protobuf": "protobuf",
    b"application/protobuf": "protobuf",
    b"application/json": "json",
}
_CODINGS: Mapping[bytes, Coding] = {
    b"": "identity",
    b"identity": "identity",
    b"x-gzip": "gzip",
    **{coding.encode(): coding for coding in CODINGS},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A request that may be read."""

    signal: OtlpSignal | Literal["metrics"]
    encoding: Encoding
    coding: Coding

    def estimate(self, size: int, *, most: int) -> int:
        """Return how many bytes a body of `size` bytes will take in memory, `most` at the most."""
        return min(most, unpacked_estimate(size, self.coding))


def encoding_of(fields: Mapping[bytes, bytes]) -> Encoding | None:
    """Return the form of the body, in which the reply must be too; None when it is neither protobuf nor JSON."""
    content_type = fields.get(b"content-type", b"")
    return _ENCODINGS.get(content_type.partition(b";")[0].strip().lower())


def head_of(method: str, path: str, fields: Mapping[bytes, bytes], *, max_body: int) -> Head:
    """Return the request's head; `fields` are its headers, names in lower case.

    Raises:
        Rejected: nothing of the kind can be received here (`not_found`, `bad_method`, `bad_type`, `too_large`).
        MalformedPayload: the length is not a number.
    """
    signal = _PATHS.get(path.rstrip("/"))
    if signal is None:
        raise Rejected(f"no such path; known: {', '.join(_PATHS)}", reason="not_found")
    if method != "POST":
        raise Rejected("only POST is allowed", reason="bad_method")
    encoding = encoding_of(fields)
    if encoding is None:
        raise Rejected("Content-Type must be application/x-protobuf or application/json", reason="bad_type")
    coding = _CODINGS.get(fields.get(b"content-encoding", b"").strip().lower())
    if coding is None:
        raise Rejected(f"Content-Encoding must be one of identity, {', '.join(CODINGS)}", reason="bad_type")
    declared = fields.get(b"content-length")
    if declared is not None and not declared.isdigit():
        raise MalformedPayload("Content-Length is not a number", reason="bad_length")
    if declared is not None and int(declared) > max_body:
        raise too_large(max_body)
    return Head(signal=signal, encoding=encoding, coding=coding)


def too_large(most: int) -> Rejected:
    """Return the error of a body that is longer than `most` bytes."""
    return Rejected(f"the body is longer than {most} bytes (max_body)", reason="too_large")


async def body_of(receive: ASGIReceiveCallable, share: Share, *, most: int) -> bytes:
    """Return the whole body as sent; what is here of it, `share` holds before more is read.

    Raises:
        Rejected: it is longer than `most` bytes (`too_large`).
        Overloaded: there is no room for it.
        ConnectionResetError: the sender went away.
    """
    chunks: list[bytes] = []
    size = 0
    more = True
    while more:
        event = await receive()
        if event["type"] != "http.request":
            raise ConnectionResetError
        size += len(event["body"])
        if size > most:
            raise too_large(most)
        chunks.append(event["body"])
        more = event["more_body"]
        if more:
            await share.hold(size)
    return b"".join(chunks)


async def drain(receive: ASGIReceiveCallable) -> None:
    """Return when the body has passed, unread.

    Raises:
        ConnectionResetError: the sender went away.
    """
    more = True
    while more:
        event = await receive()
        if event["type"] != "http.request":
            raise ConnectionResetError
        more = event["more_body"]
