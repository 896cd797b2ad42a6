"""Apache Kafka for the test session: one real broker in KRaft mode that tests may stop, kill, freeze and restart.

Nothing is downloaded here: `make services` puts the broker's jars where `kafka_broker` looks for them.
"""

import base64
import gc
import itertools
import os
import re
import secrets
import shutil
import signal
import subprocess
import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import pytest
from deadline import wait_until
from guard import Guard, ServerEndedError
from loopback import accepts, free_port
from requirement import require_or_skip

with warnings.catch_warnings():
    # kafka-python 3.0.12 reads its schemas, all at import, by importlib.resources.read_text, which Python 3.11 and 3.12
    # call deprecated. A filter in pyproject.toml would not do: `-W error` outranks it.
    warnings.filterwarnings("ignore", "(open|read)_text is deprecated", DeprecationWarning)
    from kafka import KafkaAdminClient

_HOME_VARIABLE = "RAG_MONITOR_KAFKA_HOME"
_JAVA_NEEDED = 17
_READY_SECONDS = 90.0
_PORTS_TRIED = 3
_ENVIRONMENT = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
_CONFIGURATION = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=500
log.cleaner.dedupe.buffer.size=8388608
"""
_BROKER = pytest.StashKey["KafkaBroker"]()


class KafkaBroker:
    """A broker on 127.0.0.1 that keeps its data until the session ends, and its port unless it is moved.

    It creates no topic by itself.
    """

    def __init__(self, java: Path, home: Path, guard: Guard) -> None:
        self._guard = guard
        self._java = java
        self._home = home
        self._folder = guard.folder("rag-monitor-kafka-")
        (self._folder / "tmp").mkdir()
        self._log = self._folder / "kafka.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._frozen = False
        # A Kafka UUID is 16 bytes in base64url; the fixed beginning keeps it from being read as an option ("-...").
        self._cluster_id = base64.urlsafe_b64encode(b"rag" + secrets.token_bytes(13)).decode().rstrip("=")
        self.port = self._controller_port = 0
        self._create()
        self.version = self._version()

    @property
    def bootstrap(self) -> str:
        """The address for `bootstrap_servers`, "127.0.0.1:PORT"; the same after a restart, not after a move."""
        return f"127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        """Whether the broker process is there, frozen or not."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the broker on its data and port unless it runs; returns when it answers requests."""
        if self.running:
            return
        self._end(signal.SIGKILL)
        self._process = self._guard.start(
            self._command("kafka.Kafka", self._folder / "server.properties"),
            folder=self._folder,
            log=self._log,
            environment=_ENVIRONMENT,
        )
        wait_until(self._accepts, f"Apache Kafka on port {self.port}", seconds=_READY_SECONDS)
        with self.admin() as admin:
            wait_until(lambda: self._answers(admin), f"our Kafka on port {self.port}", seconds=_READY_SECONDS)

    def stop(self) -> None:
        """Shut the broker down in order (SIGTERM); returns when its process is gone."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the broker process (SIGKILL); returns when it is gone."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop the broker if it runs and start it again, with its data and port."""
        self.stop()
        self.start()

    def move(self, port: int) -> None:
        """Stop the broker and start it on another port, with its data: what `bootstrap` says changes."""
        self.stop()
        self._configure(port, self._controller_port)
        self.start()

    def freeze(self) -> None:
        """Stop the process in its tracks (SIGSTOP): connections stay open and nothing is answered."""
        if self._process is None or not self.running:
            raise RuntimeError("freezing the Kafka broker: it is not running")
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)
        self._frozen = True

    def thaw(self) -> None:
        """Let a frozen process go on (SIGCONT); does nothing where it is not frozen."""
        if self._frozen and self._process is not None:
            self._process.send_signal(signal.SIGCONT)
        self._frozen = False

    def heal(self) -> None:
        """Undo what a test left behind: thaw the broker, or start it if it is down."""
        self.thaw()
        self.start()

    def admin(self) -> KafkaAdminClient:
        """A new admin client; use it in a `with` block. It reconnects within 0.2 s of a restart."""
        return KafkaAdminClient(bootstrap_servers=self.bootstrap, reconnect_backoff_max_ms=200)

    def create_topic(self, name: str, *, partitions: int, configuration: Mapping[str, str]) -> None:
        """Create the topic `name`; returns when each of its partitions has a leader."""
        options = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(configuration)}
        with self.admin() as admin:
            admin.create_topics({name: options}, wait_for_metadata=True)

    def _create(self) -> None:
        for _ in range(_PORTS_TRIED - 1):
            with suppress(ServerEndedError):
                return self._create_on(free_port(), free_port())
            # The data folder holds the controller's address, so other ports need a new one.
            shutil.rmtree(self._folder / "data")
        return self._create_on(free_port(), free_port())

    def _create_on(self, port: int, controller_port: int) -> None:
        self._configure(port, controller_port)
        self._format()
        self.start()

    def _configure(self, port: int, controller_port: int) -> None:
        self.port, self._controller_port = port, controller_port
        properties = _CONFIGURATION.format(port=port, controller=controller_port, folder=self._folder)
        (self._folder / "server.properties").write_text(properties)

    def _format(self) -> None:
        properties = self._folder / "server.properties"
        arguments = ("format", "--standalone", "--cluster-id", self._cluster_id, "--config", properties)
        storage_tool = subprocess.run(
            self._command("kafka.tools.StorageTool", *arguments),
            cwd=self._folder,
            env=_ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
        if storage_tool.returncode:
            said = storage_tool.stdout + storage_tool.stderr
            raise RuntimeError(f"formatting Kafka's data folder: it ended with\n{said}")

    def _command(self, main_class: str, *arguments: str | Path) -> tuple[str | Path, ...]:
        log_level = "-Dorg.slf4j.simpleLogger"
        return (
            self._java,
            "-Xmx512m",
            # The serial collector and the quick compiler alone: 1.6 s to start instead of 1.8 s on two cores.
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
            f"-Djava.io.tmpdir={self._folder / 'tmp'}",
            f"{log_level}.defaultLogLevel=warn",
            f"{log_level}.log.org.apache.kafka.common.utils=info",
            f"{log_level}.showDateTime=true",
            f"{log_level}.dateTimeFormat=HH:mm:ss.SSS",
            "-cp",
            f"{self._home / 'libs'}/*",
            main_class,
            *arguments,
        )

    def _accepts(self) -> bool:
        if not self.running:
            raise ServerEndedError(f"starting Apache Kafka on port {self.port}: it ended with\n{self._log.read_text()}")
        return accepts(self.port)

    def _answers(self, admin: KafkaAdminClient) -> bool:
        # The broker of somebody else may hold the port while ours is about to fail on it.
        return self._accepts() and admin.describe_cluster()["cluster_id"] == self._cluster_id

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._guard.stop(self._process, how)
            self._process = None
        self._frozen = False

    def _version(self) -> str:
        log = self._log.read_text()
        if (said := re.search(r"Kafka version: (\S+)", log)) is None:
            raise RuntimeError(f"reading the broker's version: no 'Kafka version' in its log\n{log}")
        return said[1]


class TopicFactory(Protocol):
    """What `kafka_topic` gives."""

    def __call__(self, partitions: int = 1, *, configuration: Mapping[str, str] = ...) -> str:
        """The name of a new topic, unique in the session, each of whose partitions has a leader.

        `configuration` is the topic's own, such as {"max.message.bytes": "1000"}.
        """


def find_java() -> Path | None:
    """The `java` of JAVA_HOME, else of PATH, if it is Java 17 or newer."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        return None
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', answer)
    return Path(java) if version is not None and int(version[1]) >= _JAVA_NEEDED else None


def kafka_home() -> Path:
    """Where the broker's `libs` are expected: RAG_MONITOR_KAFKA_HOME, else .cache/kafka in the repository."""
    return Path(os.environ.get(_HOME_VARIABLE) or Path(__file__).parents[2] / ".cache" / "kafka").absolute()


@pytest.fixture(scope="session")
def kafka_broker(guard: Guard, request: pytest.FixtureRequest) -> Iterator[KafkaBroker]:
    """The session's Kafka broker; thawed, or started again, after a test that left it otherwise."""
    home = kafka_home()
    if not any(home.glob("libs/kafka_2.13-*.jar")):
        require_or_skip(
            "kafka", f"Apache Kafka not found in {home}/libs (run `make services`, or set {_HOME_VARIABLE})"
        )
    java = find_java()
    if java is None:
        require_or_skip("kafka", f"Java {_JAVA_NEEDED} or newer not found (looked in JAVA_HOME, then on PATH)")
    broker = KafkaBroker(java, home, guard)
    request.config.stash[_BROKER] = broker
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def kafka_topic(kafka_broker: KafkaBroker) -> TopicFactory:
    """Makes topics: `kafka_topic(4)` is the name of a new topic with four partitions."""
    numbers = itertools.count(1)

    def create(partitions: int = 1, *, configuration: Mapping[str, str] = MappingProxyType({})) -> str:
        name = f"topic-{next(numbers)}"
        kafka_broker.create_topic(name, partitions=partitions, configuration=configuration)
        return name

    return create


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let no test that uses the broker fail for the sockets that kafka-python drops."""
    for item in items:
        if uses_broker(item):
            # kafka-python 3.0.12 closes no socket whose connection was refused (net/inet.py, `connect`).
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Heal the broker before the fixtures of a test are torn down, so that its clients can say goodbye."""
    if (broker := item.config.stash.get(_BROKER, None)) is not None:
        broker.heal()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool | None, bool | None]:
    """Collect dropped sockets while the warnings of their own test are in force.

    After teardown, since the log records that pytest keeps until then hold errors whose frames hold the sockets.
    """
    done = yield
    if uses_broker(item):
        gc.collect()
    return done


def uses_broker(item: pytest.Item) -> bool:
    """Whether the test asks for `kafka_broker`, itself or by another fixture."""
    return "kafka_broker" in getattr(item, "fixturenames", ())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which Kafka the tests ran against."""
    if (broker := config.stash.get(_BROKER, None)) is not None:
        terminalreporter.write_line(f"service: Apache Kafka {broker.version} on {broker.bootstrap}")
