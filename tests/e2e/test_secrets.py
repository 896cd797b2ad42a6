"""No part of a secret is seen anywhere, however the connections fail that it is for."""

from __future__ import annotations

import contextlib
import json
import re
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

import pytest
from deadline import wait_until
from http_request import send

if TYPE_CHECKING:
    from tests.e2e.conftest import Command, Start

pytestmark = pytest.mark.long

PART = 4
"""Characters in a row that give a secret away."""


def canary(name: str, *, line_break: bool = False) -> str:
    """A secret with every character that an address, YAML or a header may trip over."""
    pieces = [f"{name}{digit}jqxz" for digit in range(9)]
    odd = ["@", "/", ":", "?", "#", "%", "'", '"']
    return "".join(piece + mark for piece, mark in zip(pieces, odd, strict=False)) + ("\nwv\n" if line_break else "")


NAMES = ("Kq", "Bz", "Hx", "Ax", "Xk", "Gt", "Gl", "Sp", "Sq", "Sf", "Tk", "Us", "Pw", "Kf")
SECRETS = {name: canary(name, line_break=name in {"Kf", "Sp", "Us"}) for name in NAMES}


class Peer(socketserver.ThreadingTCPServer):
    """Fails each connection in the way that it is told."""

    daemon_threads = True
    allow_reuse_address = True
    answer = b""

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])


class _Failing(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        peer = cast("Peer", self.server)
        with contextlib.suppress(OSError):
            self.request.settimeout(5)
            asked = self.request.recv(65_536)
            if peer.answer == b"closed":
                return
            if not peer.answer.startswith(b"HTTP"):
                self.request.sendall(peer.answer + asked)
                return
            # Whatever was sent is sent back, in a header and as the body, as some proxies and servers do.
            body = json.dumps({"error": {"message": asked.decode("latin-1")}, "message": asked.decode("latin-1")})
            head = peer.answer.replace(b"LINE", asked.split(b"\r\n")[0])
            fields = f"\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            self.request.sendall(head + fields.encode() + body.encode("latin-1"))


@pytest.fixture
def peer() -> Iterator[Peer]:
    """A server on loopback."""
    with Peer(("127.0.0.1", 0), _Failing) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


ANSWERS = {
    "closed": b"closed",
    "no HTTP": b"\x16\x03\x01 what is this? ",
    "refuses": b'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm="LINE"',
    "forbids": b"HTTP/1.1 403 Forbidden",
    "fails": b"HTTP/1.1 500 LINE",
    "redirects": b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/LINE",
    "knows nothing": b"HTTP/1.1 404 Not Found",
    "wants a login": b"HTTP/1.1 407 Proxy Authentication Required",
    "is content": b"HTTP/1.1 200 OK",
}


def settings(host: str, store: object, *, scheme: str = "http") -> str:
    """Settings in which every secret is set, for a peer; JSON is YAML."""
    port = host.rpartition(":")[2]
    login = f"{quote('u', safe='')}:{quote(SECRETS['Gl'], safe='')}"
    return json.dumps(
        {
            "store": store,
            "collectors": [
                {
                    "kind": "otlp_http",
                    "port": 0,
                    "auth": {"tokens": [SECRETS["Tk"]], "users": {"zoe": SECRETS["Us"]}},
                },
                {
                    "kind": "kafka",
                    "bootstrap_servers": f"127.0.0.1:{port}",
                    "sasl": {"username": "u", "password": SECRETS["Kf"]},
                    "request_timeout": "1s",
                },
            ],
            "judge": {
                "kind": "openai",
                "api_key": SECRETS["Kq"],
                "base_url": f"{scheme}://{host}/v1?key={quote(SECRETS['Bz'], safe='')}",
                "timeout": "2s",
            },
            "channels": [
                {
                    "kind": "webhook",
                    "url": f"{scheme}://{host}/{quote(SECRETS['Hx'], safe='')}?t={SECRETS['Hx']}",
                    "authorization": SECRETS["Ax"],
                    "headers": {"X-Key": SECRETS["Xk"]},
                    "timeout": "2s",
                }
            ],
            "grafana": {
                "url": f"{scheme}://{login}@{host}",
                "token": SECRETS["Gt"],
                "every": "200ms",
                "timeout": "2s",
            },
            "web": {"port": 0, "auth": {"tokens": [SECRETS["Tk"]]}},
            "assemble": {"every": "200ms", "quiet": "400ms"},
            "sample": {"every": "200ms"},
            "score": {"backoff": "100ms"},
            "log": {"level": "DEBUG"},
        }
    )


def parts_in(*shown: str) -> set[str]:
    """The parts of secrets that are in what was shown."""
    text = "\0".join(shown)
    parts = {secret[i : i + PART] for secret in SECRETS.values() for i in range(len(secret) - PART + 1)}
    return {part for part in parts if part in text}


def trace() -> bytes:
    """A turn, so that the judge is asked."""
    span = {
        "traceId": "a" * 32,
        "spanId": "b" * 16,
        "name": "chat",
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        "attributes": [
            {"key": "openinference.span.kind", "value": {"stringValue": "CHAIN"}},
            {"key": "input.value", "value": {"stringValue": "May I pay by card?"}},
            {"key": "output.value", "value": {"stringValue": "Yes."}},
        ],
    }
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def test_every_part_is_found() -> None:
    """The look finds a part of each secret, so it would find one in what is shown below."""
    assert all(parts_in(f"...{secret[7:13]}...") for secret in SECRETS.values())


@pytest.mark.parametrize("way", [*ANSWERS, "refused", "TLS", "through a proxy"])
def test_checks_that_fail(rag_monitor: Command, peer: Peer, way: str) -> None:
    """`check` and a message to the channels show no part of any secret."""
    peer.answer = ANSWERS.get(way, ANSWERS["wants a login"])
    host = "127.0.0.1:9" if way == "refused" else f"127.0.0.1:{peer.port}"
    variables: dict[str, str] = {}
    if way == "through a proxy":
        proxy = f"http://u:{quote(SECRETS['Pw'], safe='')}@{host}"
        variables = dict.fromkeys(("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"), proxy)
        host = "service.invalid"
    scheme = "https" if way == "TLS" else "http"
    rag_monitor.write("s.yaml", settings(host, {"url": "sqlite:///m.db"}, scheme=scheme))
    done = [rag_monitor("check", "-c", "s.yaml", **variables)]
    rag_monitor.ok("migrate", "-c", "s.yaml")
    done.append(rag_monitor("channels", "test", "-c", "s.yaml", **variables))
    assert "judge" in done[0].out
    assert set() == parts_in(*(text for one in done for text in (one.out, one.err)))


@pytest.mark.parametrize("way", ["closed", "no HTTP"])
def test_databases_that_fail(rag_monitor: Command, peer: Peer, way: str) -> None:
    """No verb shows a part of the password of a database, in its address, in the query of it or in a file."""
    peer.answer = ANSWERS[way]
    encoded, query = quote(SECRETS["Sp"], safe=""), quote(SECRETS["Sq"], safe="")
    address = f"postgresql+psycopg://me:{encoded}@127.0.0.1:{peer.port}/m?sslpassword={query}&connect_timeout=3"
    rag_monitor.write("password", SECRETS["Sf"])
    parts = {"host": "127.0.0.1", "port": peer.port, "user": "me", "password_file": "password", "database": "m"}
    done = []
    for store in ({"url": address}, parts, {"url": address.replace(encoded, SECRETS["Sp"][:20])}):
        rag_monitor.write("s.yaml", json.dumps({"store": store}))
        done += [rag_monitor(verb, "-c", "s.yaml") for verb in ("run", "trends")]
    assert {0} != {one.status for one in done}
    assert set() == parts_in(*(text for one in done for text in (one.out, one.err)))


@pytest.mark.parametrize("way", [*ANSWERS, "refused"])
def test_a_monitor_whose_connections_fail(rag_monitor: Command, start: Start, peer: Peer, way: str) -> None:
    """Log, pages and database of a monitor that can reach nobody show no part of any secret."""
    peer.answer = ANSWERS.get(way, b"")
    host = "127.0.0.1:9" if way == "refused" else f"127.0.0.1:{peer.port}"
    path = rag_monitor.write("s.yaml", settings(host, {"url": "sqlite:///m.db"}))
    monitor = start("-c", path)
    known = {"Authorization": f"Bearer {SECRETS['Tk']}"}
    place = re.search(r"health and metrics: http://(\S+):(\d+)/metrics", monitor.text())
    assert place
    web = (place[1], int(place[2]))

    def page(name: str) -> str:
        return send(web, "GET", name, headers=known).body.decode()

    listener, _, port = monitor.address("otlp_http").rpartition(":")
    reply = send((listener, int(port)), "POST", "/v1/traces", trace(), {**known, "Content-Type": "application/json"})
    assert 200 == reply.status
    wrong = {"Authorization": f"Bearer {SECRETS['Tk'][:-2]}", "Content-Type": "application/json"}
    assert 401 == send((listener, int(port)), "POST", "/v1/traces", trace(), wrong).status
    wait_until(lambda: "grafana" in page("/readyz") or way == "is content", "Grafana's failure", seconds=30)
    pages = [page(name) for name in ("/readyz", "/healthz", "/metrics")]
    monitor.stop()
    kept = [file.read_bytes().decode("latin-1") for file in Path(rag_monitor.folder).glob("m.db*")]
    assert kept
    assert set() == parts_in(monitor.text(), *pages, *kept)
