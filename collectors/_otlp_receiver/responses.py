"""Answers of OTLP, on the wire: export responses and `google.rpc.Status` with `RetryInfo`."""

from __future__ import annotations

from datetime import timedelta

from monitor.errors import Permanent, Retryable, StoreUnavailable
from monitor.payloads.otlp.wire import framed, scalar

_RETRY_INFO = b"type.googleapis.com/google.rpc.RetryInfo"


def export_response(rejected: int, message: str) -> bytes:
    """Return an `Export*ServiceResponse`; without `partial_success`, so empty, when nothing was rejected.

    An empty partial success makes clients log an error (OTLP 1.10, "Partial Success").
    """
    if not rejected:
        return b""
    return framed(1, scalar(1, rejected) + framed(2, message.encode()))


def told(error: Permanent | Retryable) -> str:
    """Return what a sender may know of the error: of the store, why it cannot be written, but not where it is."""
    if isinstance(error, StoreUnavailable):
        return f"nothing was kept: {StoreUnavailable.MEANINGS.get(error.reason, error.reason)}"
    return str(error)


def status(code: int, message: str, *, retry_after: timedelta | None = None) -> bytes:
    """Return a `google.rpc.Status` of gRPC `code`, with a `RetryInfo` when there is a time to wait."""
    details = b""
    if retry_after is not None:
        seconds, rest = divmod(retry_after, timedelta(seconds=1))
        delay = scalar(1, seconds) + scalar(2, rest // timedelta(microseconds=1) * 1000)
        details = framed(3, framed(1, _RETRY_INFO) + framed(2, framed(1, delay)))
    return scalar(1, code) + framed(2, message.encode()) + details
