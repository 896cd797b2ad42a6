"""`rag-monitor run` that other machines may reach: encrypted, and for whom its settings name."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
import yaml
from authority import Authority
from http_request import Answer, export, send

if TYPE_CHECKING:
    from tests.e2e.conftest import Command, Start

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
TURN = (Path(__file__).parents[1] / "golden" / "otlp" / "turn.pb").read_bytes()


@pytest.mark.long
def test_all_listeners_ask(rag_monitor: Command, start: Start, tmp_path: Path) -> None:
    """The start names who may come in; who has the token or the certificate is served, until it is withdrawn."""
    servers, clients, others = (Authority(tmp_path, name) for name in ("servers", "clients", "others"))
    tokens, trusted = tmp_path / "tokens", tmp_path / "trusted.pem"
    tokens.write_text("s3cret\n")
    trusted.write_bytes(clients.ca_file.read_bytes())
    tls, auth = servers.issue("server"), {"tokens_file": str(tokens)}
    settings = {
        "store": {"url": "sqlite:///monitor.db"},
        "collectors": [
            {"kind": "otlp_http", "port": 0, "host": "::", "tls": tls, "auth": auth},
            {"kind": "otlp_grpc", "port": 0, "host": "::", "tls": {**tls, "client_ca_file": str(trusted)}},
        ],
        "web": {"port": 0, "host": "::", "tls": tls, "auth": auth},
    }
    monitor = start("-c", rag_monitor.write("asking.yaml", yaml.safe_dump(settings)))
    listeners = re.findall(
        r"^(.*): (?:listening on |https://)\[::\]:(\d+)(?:/metrics)? (.*)$", monitor.text(), re.MULTILINE
    )
    assert [
        ("otlp_http", f"(TLS; for who has a token or password ({tokens}))"),
        ("otlp_grpc", f"(TLS; for clients with a certificate of {trusted})"),
        ("health and metrics", f"(TLS; for who has a token or password ({tokens}))"),
    ] == [(name, who) for name, _, who in listeners]
    http, rpc, web = (int(port) for _, port, _ in listeners)
    trusting = ssl.create_default_context(cafile=str(servers.ca_file))
    token = {"Authorization": "Bearer s3cret"}

    def ask_web() -> Answer:
        return send(("127.0.0.1", web), "GET", "/metrics", headers=token, tls=trusting)

    pair = clients.issue("client")
    key, chain = (Path(pair[name]).read_bytes() for name in ("key_file", "cert_file"))
    credentials = grpc.ssl_channel_credentials(servers.ca_file.read_bytes(), key, chain)
    with grpc.secure_channel(f"localhost:{rpc}", credentials) as channel:
        method = channel.unary_unary(EXPORT)
        assert b"" == method(TURN, timeout=20)
        assert [200, 200] == [export(("127.0.0.1", http), TURN, token, tls=trusting).status, ask_web().status]
        tokens.write_text("another\n")
        trusted.write_bytes(others.ca_file.read_bytes())
        assert [401, 401] == [export(("127.0.0.1", http), TURN, token, tls=trusting).status, ask_web().status]
        with pytest.raises(grpc.RpcError):
            method(TURN, timeout=20)
    assert "otlp_http: refused 127.0.0.1: no valid credentials" in monitor.text()
    assert 0 == monitor.stop()
