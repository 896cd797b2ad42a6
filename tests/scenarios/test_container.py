"""The container and Kubernetes recipes, run as far as a machine without either can."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
import yaml
from authority import Authority
from container import ROOT, Container, Image
from deadline import wait_until
from http_request import Answer, export, send
from judge_server import JudgeServer
from loopback import free_port
from pod import Manifest, Volumes, bytes_of, manifests, of_kind

if TYPE_CHECKING:
    from guard import Guard

KUBERNETES = ROOT / "examples" / "kubernetes"
SECRETS = {"otlp-tokens": "token-of-an-app\n", "web-tokens": "token-of-prometheus\n", "judge-key": "key-of-the-judge\n"}
TLS = ("tls.crt", "tls.key")
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@dataclass(frozen=True, slots=True)
class Desk:
    """Where a recipe is tried: ports, secrets and a judge of this test."""

    image: Image
    guard: Guard
    folder: Path
    authority: Authority
    judge: JudgeServer
    ports: dict[str, int]

    def volumes(self, documents: tuple[Manifest, ...]) -> Volumes:
        """The recipe's volumes; its settings with free ports and a judge on this machine."""
        (config,) = of_kind(documents, "ConfigMap")
        settings = yaml.safe_load(config["data"]["rag-monitor.yaml"])
        for section in (*settings["collectors"], {**settings["web"], "kind": "web"}):
            target = settings["web"] if section["kind"] == "web" else section
            target["port"] = self.ports[section["kind"]]
        settings["judge"]["base_url"] = self.judge.url
        settings["assemble"] = {"quiet": "200ms"}
        issued = self.authority.issue("server")
        tls = {name: Path(issued[key]).read_text() for name, key in zip(TLS, ("cert_file", "key_file"), strict=True)}
        return Volumes(
            self.folder,
            {config["metadata"]["name"]: {"rag-monitor.yaml": yaml.safe_dump(settings)}},
            {"rag-monitor": SECRETS, "rag-monitor-tls": tls},
        )

    def start(self, workload: Manifest, volumes: Volumes) -> Container:
        """The workload's container; it may not have begun to listen."""
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        variables = {variable["name"]: variable["value"] for variable in container.get("env", ())}
        command = self.image.command(volumes.mounts(workload), container.get("args", ()), variables)
        return Container(self.guard, command, self.folder)

    def web(self, path: str, token: str = "") -> Answer:
        """The answer of a page."""
        return send(("127.0.0.1", self.ports["web"]), "GET", path, headers=bearer(token), tls=self.trust)

    def export(self, body: bytes, token: str) -> int:
        """The status of the answer to a request."""
        return export(("127.0.0.1", self.ports["otlp_http"]), body, bearer(token), tls=self.trust).status

    def probe(self, workload: Manifest, which: str) -> bool:
        """Whether a probe of the workload succeeds, as the kubelet asks: without a certificate to trust."""
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        asked = container[which]["httpGet"]
        assert ("web", "HTTPS") == (asked["port"], asked["scheme"])
        try:
            return self.web(asked["path"]).status == 200
        except OSError:
            return False

    @property
    def trust(self) -> ssl.SSLContext:
        """What trusts the servers of this test."""
        return ssl.create_default_context(cafile=str(self.authority.ca_file))


def bearer(token: str) -> dict[str, str]:
    """The header that shows a token."""
    return {"Authorization": f"Bearer {token}"} if token else {}


@pytest.fixture
def desk(image: Image, guard: Guard, tmp_path: Path) -> Iterator[Desk]:
    """A place to try recipes at, and a judge."""
    folder = guard.folder("rag-monitor-pod-")
    folder.chmod(0o755)
    judge = JudgeServer()
    ports = {name: free_port() for name in ("otlp_http", "otlp_grpc", "web")}
    yield Desk(image, guard, folder, Authority(tmp_path, "servers"), judge, ports)
    judge.close()


def test_one_replica_on_sqlite(desk: Desk, make_turns: Callable[..., bytes]) -> None:
    """Without privileges, on a read-only root, it takes a trace, has it judged, sees new tokens and ends in time."""
    body = make_turns(1)
    documents = manifests(KUBERNETES / "sqlite.yaml")
    (workload,) = of_kind(documents, "StatefulSet")
    pod = workload["spec"]["template"]["spec"]
    volumes = desk.volumes(documents)
    container = desk.start(workload, volumes)
    try:
        wait_until(
            lambda: desk.probe(workload, "startupProbe") or not container.running(),
            "the probe at the start",
            seconds=60,
        )
        assert container.running(), container.log.read_text()
        assert (True, True) == (desk.probe(workload, "livenessProbe"), desk.probe(workload, "readinessProbe"))
        user, nothing = ["65532"] * 4, "0" * 16
        assert (user, nothing, nothing, "1", "2") == (
            container.status("Uid").split(),
            container.status("CapBnd"),
            container.status("CapEff"),
            container.status("NoNewPrivs"),
            container.status("Seccomp"),
        )
        assert (401, 200) == (desk.export(body, "wrong"), desk.export(body, "token-of-an-app"))
        credentials = grpc.ssl_channel_credentials(desk.authority.ca_file.read_bytes())
        with grpc.secure_channel(f"localhost:{desk.ports['otlp_grpc']}", credentials) as channel:
            call = channel.unary_unary(EXPORT)
            assert b"" == call(body, metadata=[("authorization", "Bearer token-of-an-app")], timeout=20)
        scored = re.compile(r'^rag_monitor_jobs_finished_total\{.*outcome="scored"\} [1-9]', re.MULTILINE)
        wait_until(
            lambda: scored.search(desk.web("/metrics", "token-of-prometheus").body.decode()),
            "the turn to be judged",
            seconds=60,
        )
        assert {"Bearer key-of-the-judge"} == {asked.headers["authorization"] for asked in desk.judge.asked}

        volumes.rotate("rag-monitor", {**SECRETS, "otlp-tokens": "new-token-of-an-app\n"})
        assert (401, 200) == (desk.export(body, "token-of-an-app"), desk.export(body, "new-token-of-an-app"))

        requested = pod["containers"][0]["resources"]["requests"]["memory"]
        assert int(container.status("VmHWM").split()[0]) * 1024 < bytes_of(requested)
        assert 0o600 == (desk.folder / "data" / "rag-monitor.db").stat().st_mode & 0o777
        assert 0 == container.stop(pod["terminationGracePeriodSeconds"]), container.log.read_text()
        assert "Traceback" not in container.log.read_text()
    finally:
        container.kill()
