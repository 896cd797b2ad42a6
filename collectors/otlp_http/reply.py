"""Replies of OTLP/HTTP, in the encoding of the request."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import orjson

from collectors._otlp_receiver.responses import export_response, status, told
from monitor.access.credentials import CHALLENGE
from monitor.errors import Permanent, Retryable
from monitor.payloads.compression import CODINGS
from monitor.payloads.otlp.fragments import Encoding

if TYPE_CHECKING:
    from uvicorn._types import ASGISendCallable  # uvicorn keeps its types private

_MEDIA_TYPES: Mapping[Encoding, bytes] = {"protobuf": b"application/x-protobuf", "json": b"application/json"}
_COUNTS = {"traces": "rejectedSpans", "logs": "rejectedLogRecords", "metrics": "rejectedDataPoints"}
_INVALID_ARGUMENT, _UNAVAILABLE = 3, 14
_BY_REASON = {
    "unauthenticated": (401, 16),
    "not_found": (404, 5),
    "bad_method": (405, 12),
    "too_large": (413, 8),
    "too_many_records": (413, 8),
    "bad_type": (415, _INVALID_ARGUMENT),
    "fault": (500, 13),
}
"""HTTP status and gRPC code by the reason of a `Permanent` error; 400 and INVALID_ARGUMENT for the rest."""
_HINTS = {
    "unauthenticated": ((b"www-authenticate", CHALLENGE),),
    "bad_method": ((b"allow", b"POST"),),
    "bad_type": ((b"accept-encoding", ", ".join(CODINGS).encode()),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One response."""

    status: int
    encoding: Encoding
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()

    async def send(self, send: ASGISendCallable, also: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        """Send it, with headers that are `also` wanted."""
        headers = (
            (b"content-type", _MEDIA_TYPES[self.encoding]),
            (b"content-length", b"%d" % len(self.body)),
            *self.headers,
            *also,
        )
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


async def no_content(send: ASGISendCallable, headers: tuple[tuple[bytes, bytes], ...]) -> None:
    """Send a reply of nothing but headers."""
    await send({"type": "http.response.start", "status": 204, "headers": headers, "trailers": False})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def accepted(
    signal: Literal["traces", "logs", "metrics"], encoding: Encoding, *, rejected: int = 0, message: str = ""
) -> Reply:
    """Return the 200 of a request that is kept; `message` says why `rejected` records are not."""
    if encoding == "protobuf":
        return Reply(status=200, encoding=encoding, body=export_response(rejected, message))
    # An int64 is a string in protobuf's JSON mapping.
    partial = {"partialSuccess": {_COUNTS[signal]: str(rejected), "errorMessage": message}} if rejected else {}
    return Reply(status=200, encoding=encoding, body=orjson.dumps(partial))


def failed(error: Permanent | Retryable, encoding: Encoding, *, hang_up: bool = False) -> Reply:
    """Return the reply that says what is wrong, and for what may work later, when.

    Without `hang_up` the rest of a body is let pass unread, since most clients read no reply before they have sent all.

    503 and not 429: older exporters of OpenTelemetry for Python drop the batch on 429.
    """
    if isinstance(error, Retryable):
        seconds = max(1, math.ceil((error.retry_after or timedelta()).total_seconds()))
        headers = ((b"retry-after", b"%d" % seconds), *(((b"connection", b"close"),) if hang_up else ()))
        wait = timedelta(seconds=seconds)
        return _status(error, 503, _UNAVAILABLE, encoding=encoding, headers=headers, retry_after=wait)
    http, code = _BY_REASON.get(error.reason, (400, _INVALID_ARGUMENT))
    return _status(error, http, code, encoding=encoding, headers=_HINTS.get(error.reason, ()))


def _status(
    error: Permanent | Retryable,
    http: int,
    code: int,
    *,
    encoding: Encoding,
    headers: tuple[tuple[bytes, bytes], ...],
    retry_after: timedelta | None = None,
) -> Reply:
    if encoding == "protobuf":
        body = status(code, told(error), retry_after=retry_after)
    else:
        body = orjson.dumps({"code": code, "message": told(error)})
    return Reply(status=http, encoding=encoding, body=body, headers=headers)
