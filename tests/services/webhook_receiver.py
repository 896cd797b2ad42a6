"""The other side of a webhook, on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

SECRET = "hunter2"


class Receiver(ThreadingHTTPServer):
    """Keeps what it was sent and answers with `status`, or with that of the path in `statuses`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.statuses: dict[str, int] = {}
        self.headers: dict[str, str] = {}
        self.silent = threading.Event()
        self.heads: list[tuple[str, dict[str, str]]] = []
        self.tunnels: list[tuple[str, dict[str, str]]] = []
        self.taken: list[tuple[str, dict[str, str], Any]] = []
        self.bodies: list[bytes] = []
        """What is in `taken`, byte for byte."""

    @property
    def origin(self) -> str:
        """Return where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def url(self) -> str:
        """Return an address with a secret in it."""
        return f"{self.origin}/hook/{SECRET}"


class _Handler(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        server = self.server
        assert isinstance(server, Receiver)
        server.heads.append((self.path, dict(self.headers)))
        self.send_response(server.statuses.get(self.path, server.status))
        self.end_headers()

    def do_CONNECT(self) -> None:
        server = self.server
        assert isinstance(server, Receiver)
        server.tunnels.append((self.path, dict(self.headers)))
        self.send_error(server.status)

    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Receiver)
        server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.loads(server.bodies[-1])
        server.taken.append((self.path, dict(self.headers), body))
        status = server.statuses.get(self.path, server.status)
        if status == 0:
            server.silent.wait(10)
            return
        self.send_response(status)
        for name, value in server.headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A listening receiver."""
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.silent.set()
        server.shutdown()
        thread.join()
