"""OTLP over HTTP to a monitor, one connection, nothing but the standard library.

Source: OTLP 1.10, https://opentelemetry.io/docs/specs/otlp/#otlphttp-response.
"""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from email.message import Message
from typing import TypeAlias
from urllib.parse import urlsplit

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from monitor.errors import ConfigError, Overloaded, Rejected, Retryable
from monitor.header_fields import problem_of_fields
from monitor.payloads.otlp.fragments import OtlpSignal
from monitor.retry import retry_after

_EXPECTED = "expected a URL such as http://127.0.0.1:4318"
_MOST_REPLY = 64 * 1024
_REASONS: Mapping[int, str] = {400: "malformed", 401: "unauthorized", 403: "unauthorized", 413: "too_large"}
_AGAIN = frozenset({408, 429})
_SERVER_FAULT = 500

_Connection: TypeAlias = http.client.HTTPConnection


class HttpSender:
    """Posts requests to `<endpoint>/v1/traces` or `/v1/logs`."""

    def __init__(self, endpoint: str, signal: OtlpSignal, *, headers: Mapping[str, str]) -> None:
        """Check address and headers; nothing is connected yet.

        Raises:
            ConfigError: it is no HTTP URL, holds a user or password, or a header cannot be sent.
        """
        try:
            parsed = urlsplit(endpoint)
            host, port = parsed.hostname, parsed.port
        except ValueError:
            raise ConfigError(_EXPECTED, where="exporter endpoint") from None
        if host is None or parsed.scheme not in {"http", "https"}:
            raise ConfigError(_EXPECTED, where="exporter endpoint")
        if "@" in endpoint:
            raise ConfigError(
                "holds a user or password, which is not sent from there; give headers, with an `Authorization`",
                where="exporter endpoint",
            )
        if problem := problem_of_fields(headers):
            raise ConfigError(problem[1], where=": ".join(filter(None, ("exporter headers", problem[0]))))
        ending = f"/v1/{signal}"
        base = parsed.path.rstrip("/")
        self._path = base if base.endswith(ending) else base + ending
        self._host, self._port = host, port
        self._tls = ssl.create_default_context() if parsed.scheme == "https" else None
        self._signal = signal
        self._headers = {
            **headers,
            "Content-Type": "application/x-protobuf",
            "User-Agent": "rag-monitor-exporter",
        }
        self.place = f"{parsed.scheme}://{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}"
        self._connection: _Connection | None = None
        self._sending = threading.Lock()
        self._idle = False

    def send(self, body: bytes, *, timeout: float) -> int:
        """As `Sender.send`."""
        with self._sending:
            return self._send(body, timeout=timeout)

    def close(self) -> None:
        """As `Sender.close`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def before_fork(self) -> None:
        """As `Forking`: a copied connection does no harm as long as only one process uses it."""
        self._idle = self._sending.acquire(blocking=False)

    def after_fork_in_parent(self) -> None:
        """As `Forking`."""
        if self._idle:
            self._sending.release()

    def after_fork_in_child(self) -> None:
        """As `Forking`; closing a connection in use would wait for a thread that is not here."""
        if self._idle:
            self.close()
        self._connection, self._sending = None, threading.Lock()

    def _send(self, body: bytes, *, timeout: float) -> int:
        connection, used = self._connected(timeout)
        try:
            status, headers, reply = self._exchange(connection, body)
        except (ConnectionError, http.client.BadStatusLine) as error:
            self.close()
            if not used:
                raise self._unreachable(error) from None
            # A server may close an idle connection at any moment; only a fresh one tells whether it is there. What
            # it kept of the first attempt it recognizes.
            return self._send(body, timeout=timeout)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._unreachable(error) from None
        return self._read(status, headers, reply)

    def _connected(self, timeout: float) -> tuple[_Connection, bool]:
        connection = self._connection
        if connection is not None and connection.sock is not None:
            connection.sock.settimeout(timeout)
            return connection, True
        if self._tls is None:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        else:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)
        self._connection = connection
        return connection, False

    def _exchange(self, connection: _Connection, body: bytes) -> tuple[int, Message, bytes]:
        connection.request("POST", self._path, body, self._headers)
        with connection.getresponse() as response:
            reply = response.read(_MOST_REPLY)
            if not response.isclosed():
                self.close()
            return response.status, response.headers, reply

    def _read(self, status: int, headers: Message, reply: bytes) -> int:
        if status in {200, 202, 204}:
            return self._left_out(reply)
        message = f"{self._path}: HTTP {status}"
        if status in _AGAIN or status >= _SERVER_FAULT:
            raise Overloaded(message, retry_after=retry_after(headers, datetime.now(UTC)))
        raise Rejected(message, reason=_REASONS.get(status, f"http_{status}"))

    def _left_out(self, reply: bytes) -> int:
        try:
            if self._signal == "traces":
                return ExportTraceServiceResponse.FromString(reply).partial_success.rejected_spans
            return ExportLogsServiceResponse.FromString(reply).partial_success.rejected_log_records
        except DecodeError:
            return 0

    def _unreachable(self, error: Exception) -> Retryable:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        return Retryable(f"{self._path}: {reason}")
