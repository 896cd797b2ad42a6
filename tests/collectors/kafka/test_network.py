"""A broker behind TLS, behind passwords, and at the end of a slow link."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deadline import wait_until
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType
from kafka.errors import KafkaError
from kafka_service import find_java, kafka_home
from loopback import free_port
from requirement import require_or_skip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from guard import Guard

    from tests.collectors.kafka.conftest import Scene

Bodies = Callable[[int, int], "Sequence[bytes]"]

TOPIC = "otlp_spans"
PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"
CLUSTER_ID = "cmFnbW9uaXRvcnRlc3RzMQ"
LONG = "RAG_MONITOR_KAFKA_LOAD" in os.environ
CONFIGURATION = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAIN
listeners=PLAIN://{here}:{plain},SLOW://{here}:{slow},SASL://{here}:{sasl},TLS://{here}:{tls},CONTROLLER://{here}:{controller}
advertised.listeners=PLAIN://{here}:{plain},SLOW://{here}:{link},SASL://localhost:{sasl},TLS://localhost:{tls}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT,SLOW:PLAINTEXT,SASL:SASL_SSL,TLS:SSL
listener.name.sasl.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.sasl.plain.sasl.jaas.config={plain_login} required user_alice="open sesame" user_bob="open sesame";
listener.name.sasl.scram-sha-512.sasl.jaas.config={scram_login} required;
listener.name.tls.ssl.client.auth=required
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:alice;User:CN=client
ssl.keystore.type=PEM
ssl.keystore.location={folder}/broker.keystore.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
log.dirs={folder}/data
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=500
"""


class SlowLink:
    """Forwards connections to a port, at leisure."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", free_port()))
        self.port: int = self._listener.getsockname()[1]
        self.delay_seconds = 0.0
        """How much longer an answer takes."""
        self._closed = threading.Event()
        self._open: list[socket.socket] = [self._listener]

    def start(self, to: int) -> None:
        """Forward from now on."""
        threading.Thread(target=self._accept, args=(to,), daemon=True).start()

    def close(self) -> None:
        """Close all connections."""
        self._closed.set()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self, to: int) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", to))
                self._open += (near, far)
                threading.Thread(target=self._pump, args=(near, far), daemon=True).start()
                threading.Thread(target=self._pump, args=(far, near), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._closed.wait(self.delay_seconds / 2)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


@dataclass(frozen=True)
class Guarded:
    """A broker with a topic of one partition, and its addresses."""

    folder: Path
    link: SlowLink
    plain: str
    slow: str
    sasl: str
    tls: str

    @property
    def trust(self) -> Mapping[str, str]:
        """Settings that trust its authority."""
        return {"ca_file": str(self.folder / "ca.pem")}

    def grow(self) -> int:
        """Add a partition to the topic; return how many there are then."""
        with KafkaAdminClient(bootstrap_servers=self.plain) as admin:
            count = len(admin.describe_topics([TOPIC])[0]["partitions"]) + 1
            admin.create_partitions({TOPIC: count})
        return count

    def produce(self, *values: bytes, partition: int = 0) -> None:
        """Return when the broker has acknowledged `values`."""
        with KafkaProducer(bootstrap_servers=self.plain, acks="all") as producer:
            for sent in [producer.send(TOPIC, value, partition=partition) for value in values]:
                sent.get(timeout=20)


def openssl(folder: Path, *arguments: str) -> None:
    """Run openssl in `folder`."""
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def certify(folder: Path) -> None:
    """Make an authority, and certificates of it for the broker and for a client."""
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    openssl(folder, "req", "-x509", *new, "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    for name in ("broker", "client"):
        subject = ("-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost")
        openssl(folder, "req", *new[:-2], *subject, "-keyout", f"{name}.key", "-out", f"{name}.csr")
        sign = ("-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2", "-copy_extensions", "copy")
        openssl(folder, "x509", "-req", "-in", f"{name}.csr", *sign, "-out", f"{name}.pem")
    keystore = (folder / "broker.key").read_text() + (folder / "broker.pem").read_text()
    (folder / "broker.keystore.pem").write_text(keystore)


@pytest.fixture(scope="module")
def guarded(guard: Guard) -> Iterator[Guarded]:
    """A running broker with all four listeners."""
    java, home = find_java(), kafka_home()
    if java is None or not any(home.glob("libs/kafka_2.13-*.jar")) or shutil.which("openssl") is None:
        require_or_skip("kafka", f"needs Java, openssl, and Apache Kafka in {home}/libs (run `make services`)")
    folder = guard.folder("rag-monitor-guarded-kafka-")
    certify(folder)
    with ExitStack() as closing:
        link = SlowLink()
        closing.callback(link.close)
        ports = {name: free_port() for name in ("controller", "plain", "slow", "sasl", "tls")}
        properties = folder / "server.properties"
        filled = {**ports, "here": "127.0.0.1", "link": link.port, "folder": folder}
        properties.write_text(CONFIGURATION.format(**filled, plain_login=PLAIN_LOGIN, scram_login=SCRAM_LOGIN))
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        run = [java, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{home / 'libs'}/*"]
        scram = "SCRAM-SHA-512=[name=alice,password=open sesame]"
        format_arguments = ["format", "--standalone", "--cluster-id", CLUSTER_ID, "--config", properties]
        subprocess.run(
            [*run, "kafka.tools.StorageTool", *format_arguments, "--add-scram", scram],
            cwd=folder,
            env=environment,
            check=True,
            capture_output=True,
        )
        broker = guard.start(
            [*run, "kafka.Kafka", properties], folder=folder, log=folder / "log", environment=environment
        )
        closing.callback(guard.stop, broker, 9)
        link.start(ports["slow"])
        plain = f"127.0.0.1:{ports['plain']}"

        def answers() -> bool:
            assert broker.poll() is None, (folder / "log").read_text()
            with suppress(KafkaError), KafkaAdminClient(bootstrap_servers=plain, bootstrap_timeout_ms=500) as admin:
                admin.create_topics({TOPIC: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
                return True
            return False

        wait_until(answers, "the guarded broker", seconds=60)
        yield Guarded(
            folder,
            link=link,
            plain=plain,
            slow=f"127.0.0.1:{link.port}",
            sasl=f"localhost:{ports['sasl']}",
            tls=f"localhost:{ports['tls']}",
        )


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A group of the test's own."""
    return request.node.name


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_password(scene: Scene, mechanism: str, guarded: Guarded, bodies: Bodies, group: str) -> None:
    """A password, here from a file, opens a broker whose certificate the given authority vouches for."""
    secret = guarded.folder / "password"
    secret.write_text("open sesame\n")
    guarded.produce(*bodies(1, 2))
    running = scene.start(
        TOPIC,
        bootstrap_servers=guarded.sasl,
        group_id=group,
        tls=guarded.trust,
        sasl={"mechanism": mechanism, "username": "alice", "password_file": str(secret)},
    )
    running.await_records(2)
    running.await_well()


def test_wrong_password(scene: Scene, guarded: Guarded, group: str, warned: Callable[[], list[str]]) -> None:
    """A wrong password is told of as a possibility, since the client library misses the refusal; and without it."""
    sasl = {"mechanism": "PLAIN", "username": "alice", "password": "open barley"}
    running = scene.start(TOPIC, bootstrap_servers=guarded.sasl, group_id=group, sasl=sasl, tls=guarded.trust)
    wait_until(lambda: "since" in running.health["broker"], "the refusal", seconds=20)
    assert running.health["broker"].endswith("; the user name or the password may be wrong")
    assert not any("barley" in line for line in warned())


def test_no_rights(scene: Scene, guarded: Guarded, group: str) -> None:
    """A user who may see the topic, and neither read it nor join the group, is told of."""
    with KafkaAdminClient(bootstrap_servers=guarded.plain) as admin:
        topic = ResourcePattern(ResourceType.TOPIC, TOPIC)
        admin.create_acls([ACL("User:bob", "*", ACLOperation.DESCRIBE, ACLPermissionType.ALLOW, topic)])
    sasl = {"mechanism": "PLAIN", "username": "bob", "password": "open sesame"}
    running = scene.start(TOPIC, bootstrap_servers=guarded.sasl, group_id=group, sasl=sasl, tls=guarded.trust)
    wait_until(lambda: "access" in running.health, "the refusal", seconds=20)
    assert {"access": "the cluster denies access: GroupAuthorizationFailedError"} == running.health
    assert {"access": 1} == running.stats.failures


def test_unknown_authority(scene: Scene, guarded: Guarded, group: str) -> None:
    """A certificate of an authority that is not trusted is refused, and that is told."""
    running = scene.start(TOPIC, bootstrap_servers=guarded.tls, group_id=group, tls={})
    wait_until(lambda: "since" in running.health["broker"], "the refusal", seconds=20)
    assert (
        "the certificate of the broker is not trusted: unable to get local issuer certificate"
        in running.health["broker"]
    )


def test_no_tls_there(scene: Scene, guarded: Guarded, group: str) -> None:
    """TLS to a listener without it is told of as that."""
    running = scene.start(TOPIC, bootstrap_servers=guarded.plain, group_id=group, tls={})
    wait_until(lambda: "since" in running.health["broker"], "the failure", seconds=20)
    assert "the TLS handshake failed: " in running.health["broker"]


def test_client_certificate(scene: Scene, guarded: Guarded, bodies: Bodies, group: str) -> None:
    """A broker that asks for a certificate gets one."""
    guarded.produce(*bodies(1, 2))
    files: Mapping[str, str] = {
        **guarded.trust,
        "cert_file": str(guarded.folder / "client.pem"),
        "key_file": str(guarded.folder / "client.key"),
    }
    running = scene.start(TOPIC, bootstrap_servers=guarded.tls, group_id=group, tls=files)
    running.await_records(2)


@pytest.mark.parametrize("idle", [False, True] if LONG else [False])
def test_slow_link(scene: Scene, idle: bool, guarded: Guarded, bodies: Bodies, group: str) -> None:  # noqa: FBT001
    """Where answers take longer than a poll, kafka-python forgets a rebalance; the group is then entered anew."""
    running = scene.start(
        TOPIC,
        bootstrap_servers=guarded.slow,
        group_id=group,
        start_from="latest",
        session_timeout="2s",
        reopen_after="2s",
    )
    running.await_no_lag(TOPIC)
    guarded.link.delay_seconds = 0.3
    partitions = guarded.grow()
    numbers = itertools.count(100 * partitions)

    def entered_anew() -> bool:
        if not idle:
            guarded.produce(*bodies(next(numbers), 1))
        return running.stats.opened >= 2

    wait_until(entered_anew, "the rebalance to be forgotten, and that noticed", seconds=30)
    guarded.link.delay_seconds = 0
    wait_until(lambda: running.stats.partitions == partitions, "the new partition", seconds=20)
    guarded.produce(*bodies(next(numbers), 1), partition=partitions - 1)
    running.await_records(next(numbers) - 100 * partitions, seconds=20)
    running.await_no_lag(TOPIC)
    running.await_well()
    assert {} == running.stats.failures
