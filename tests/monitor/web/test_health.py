"""Health pages over a real socket."""

import asyncio
import http.client
import json
import ssl
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from authority import Authority
from http_request import send

from monitor.access.gate import gate
from monitor.access.refusals import Refusals
from monitor.errors import ConfigError
from monitor.http_server.server import Server
from monitor.settings.listener import Listener
from monitor.settings.tree import WebSettings
from monitor.telemetry import Gauge, Telemetry
from monitor.web.health import HealthPages

ANYBODY = gate(Listener(), "web", lambda: datetime.now(UTC)).access


def get(address: tuple[str, int], path: str, method: str = "GET") -> tuple[int, str, bytes]:
    """Return status, content type and body."""
    answer = send(address, method, path)
    return answer.status, answer.headers["content-type"], answer.body


async def test_pages() -> None:
    """Liveness, readiness with reasons and metrics are answered; anything else is refused."""
    telemetry = Telemetry("test")
    telemetry.watch("jobs", lambda: [Gauge(name="jobs", value=3)], description="Jobs waiting")
    problems: dict[str, str] = {}
    pages = HealthPages(
        ANYBODY,
        listening=lambda: True,
        problems=lambda: problems,
        metrics=telemetry.render,
        metrics_type=telemetry.content_type,
    )
    async with Server(
        pages, host="127.0.0.1", port=0, where="web", refusals=Refusals("web", lambda: datetime.now(UTC))
    ) as server:
        assert (await asyncio.to_thread(get, server.address, "/healthz"))[0] == 200
        assert (await asyncio.to_thread(get, server.address, "/readyz"))[0] == 200
        problems["store"] = "storage_full"
        status, _, body = await asyncio.to_thread(get, server.address, "/readyz")
        assert (status, json.loads(body)) == (503, {"ready": False, "problems": {"store": "storage_full"}})
        status, kind, body = await asyncio.to_thread(get, server.address, "/metrics")
        assert (status, kind.split(";")[0]) == (200, "text/plain")
        assert b"\nrag_monitor_jobs 3.0\n" in body
        assert (await asyncio.to_thread(get, server.address, "/", "GET"))[0] == 404
        hints = (await asyncio.to_thread(send, server.address, "GET", "/metrics")).headers
        assert hints["x-content-type-options"] == "nosniff"
        assert (await asyncio.to_thread(get, server.address, "/metrics", "POST"))[0] == 405
    telemetry.close()


async def test_replies_do_not_wait() -> None:
    """A reply of two packets is not held back for the client's delayed acknowledgement, on a loop of the stdlib too."""
    pages = HealthPages(ANYBODY, listening=lambda: True, problems=dict, metrics=bytes, metrics_type="text/plain")
    async with Server(
        pages, host="127.0.0.1", port=0, where="web", refusals=Refusals("web", lambda: datetime.now(UTC))
    ) as server:
        reader, writer = await asyncio.open_connection(*server.address)
        took = []
        for _ in range(60):
            began = time.perf_counter()
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"ok\n")
            took.append(time.perf_counter() - began)
        writer.close()
        await writer.wait_closed()
    # The first acknowledgements of a connection are not delayed.
    assert min(took[-20:]) < 0.03


async def test_taken_port_is_a_config_error() -> None:
    """A port in use is told with its key path instead of ending the process."""
    pages = HealthPages(ANYBODY, listening=lambda: True, problems=dict, metrics=bytes, metrics_type="text/plain")
    async with Server(
        pages, host="127.0.0.1", port=0, where="web", refusals=Refusals("web", lambda: datetime.now(UTC))
    ) as server:
        again = Server(
            pages,
            host="127.0.0.1",
            port=server.address[1],
            where="web",
            refusals=Refusals("web", lambda: datetime.now(UTC)),
        )
        with pytest.raises(ConfigError, match=r"^web: cannot listen on 127\.0\.0\.1:\d+: "):
            await again.__aenter__()


async def test_pages_that_ask_who_one_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With `auth`, others get the status of health and readiness, no reasons and no metrics; TLS encrypts it all."""
    authority = Authority(tmp_path, "web")
    section = {"port": 0, "tls": authority.issue("web"), "auth": {"tokens": ["s3cret"]}}
    stands_before = gate(WebSettings.model_validate(section), "web", lambda: datetime.now(UTC))
    pages = HealthPages(
        stands_before.access,
        listening=lambda: True,
        problems=lambda: {"store": "storage_full"},
        metrics=lambda: b"rag_monitor_jobs 3.0\n",
        metrics_type="text/plain",
    )
    trusting = ssl.create_default_context(cafile=str(authority.ca_file))
    async with Server(
        pages,
        host="127.0.0.1",
        port=0,
        where="web",
        refusals=stands_before.refusals,
        certificates=stands_before.certificates,
    ) as server:

        async def ask(path: str, token: str = "") -> tuple[int, bytes]:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            answer = await asyncio.to_thread(send, server.address, "GET", path, b"", headers, tls=trusting)
            if answer.status == 401:
                assert "Bearer" in answer.headers["www-authenticate"]
            return answer.status, answer.body

        assert (200, b"ok\n") == await ask("/healthz")
        assert (503, b'{"ready":false}\n') == await ask("/readyz")
        assert (503, b'{"ready":false,"problems":{"store":"storage_full"}}\n') == await ask("/readyz", "s3cret")
        assert (200, b"rag_monitor_jobs 3.0\n") == await ask("/metrics", "s3cret")
        refused = 401, b"no valid credentials in the Authorization field\n"
        assert [refused] * 3 == [await ask("/metrics"), await ask("/metrics", "wr0ng"), await ask("/readyz", "wr0ng")]
        with pytest.raises((OSError, http.client.HTTPException)):
            await asyncio.to_thread(get, server.address, "/healthz")
    assert {"unauthenticated": 3, "tls_handshake": 1} == stands_before.refusals.counts()
    assert "web: refused 127.0.0.1: no valid credentials in the Authorization field" in caplog.messages
