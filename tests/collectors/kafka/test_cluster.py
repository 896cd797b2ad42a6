"""What the collector does while the cluster is away, silent, or not as it should be (cases K05 and K06)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from deadline import wait_until
from http_request import export
from loopback import free_port

from collectors.kafka import collector as kafka
from collectors.otlp_http import collector as otlp_http
from monitor.runtime.intake import Intake
from monitor.settings.tree import IntakeSettings

if TYPE_CHECKING:
    from guard import Guard

    from monitor.store.sql_store import SqlStore
    from tests.collectors.kafka.conftest import Scene, Switch

Bodies = Callable[[int, int], Sequence[bytes]]


def test_k05_broker_away(scene: Scene, bodies: Bodies, warned: Callable[[], list[str]]) -> None:
    """Without a broker the collector is entered all the same and says so, once; it reads as soon as there is one."""
    topic = scene.topic()
    scene.produce(topic, *bodies(1, 20))
    scene.broker.kill()
    before = f"{datetime.now(UTC):%Y-%m-%dT%H:%M}"
    running = scene.start(topic)
    wait_until(lambda: running.stats.failures.get("broker", 0) >= 3, "three attempts", seconds=15)
    assert running.health["broker"].startswith(f"no answer from {scene.broker.bootstrap} since {before}")
    assert running.health["broker"].endswith("Connection refused")
    assert 0 == running.stats.opened
    scene.broker.start()
    running.await_records(20)
    running.await_well()
    assert 1 == len([line for line in warned() if line.startswith("kafka: broker:")])


def test_k05_new_address(scene: Scene, bodies: Bodies) -> None:
    """A broker that went away in the middle and came back at another address is read on from, without a restart."""
    topic, port = scene.topic(3), free_port()
    addresses = [scene.broker.bootstrap, f"127.0.0.1:{port}"]
    running = scene.start(topic, bootstrap_servers=addresses, reopen_after="3s")
    scene.produce(topic, *bodies(1, 20), partition=1)
    running.await_records(20)
    scene.broker.stop()
    wait_until(lambda: "broker" in running.health, "the absence to be noticed", seconds=20)
    scene.broker.move(port)
    scene.produce(topic, *bodies(21, 20), partition=1)
    running.await_records(40, seconds=60)
    running.await_well()
    wait_until(lambda: scene.committed(topic, 1) == 40, "the commit", seconds=10)
    assert {1: 40} == scene.times_stored()


def test_stopped_without_cluster(scene: Scene) -> None:
    """A collector without a cluster ends when it is told to, and leaves no thread behind."""
    threads = set(threading.enumerate())
    running = scene.start("topic", bootstrap_servers=[f"127.0.0.1:{free_port()}"])
    wait_until(lambda: running.stats.failures, "the first failure", seconds=15)
    running.stop(seconds=5)
    assert set() == set(threading.enumerate()) - threads


async def test_other_collectors(store: SqlStore, turn_pb: bytes) -> None:
    """A Kafka that is not there holds up no other collector of the same event loop."""
    config = kafka.Config(bootstrap_servers=(f"127.0.0.1:{free_port()}",))
    async with (
        Intake(store, IntakeSettings()) as intake,
        kafka.build(config, intake, lambda: datetime.now(UTC)),
        otlp_http.build(otlp_http.Config(port=0), intake, lambda: datetime.now(UTC)) as http,
    ):
        began = time.monotonic()
        assert 200 == (await asyncio.to_thread(export, http.address, turn_pb)).status
        assert time.monotonic() - began < 1


def test_k05_frozen(scene: Scene, bodies: Bodies) -> None:
    """A broker frozen for longer than the session, and than `reopen_after`, is entered anew and read on from."""
    topic = scene.topic(3)
    running = scene.start(topic, reopen_after="3s")
    scene.produce(topic, *bodies(1, 20), partition=2)
    running.await_records(20)
    scene.broker.freeze()
    wait_until(lambda: "broker" in running.health, "the silence to be noticed", seconds=10)
    wait_until(lambda: running.stats.failures.get("broker"), "an attempt to enter it anew", seconds=30)
    assert running.health["broker"].endswith("brokers accept connections but do not answer")
    scene.broker.thaw()
    scene.produce(topic, *bodies(21, 20), partition=2)
    running.await_records(40, seconds=30)
    running.await_well()
    wait_until(lambda: scene.committed(topic, 2) == 40, "the commit", seconds=10)
    assert 2 <= running.stats.opened
    assert {1: 40} == scene.times_stored()


def test_membership_lost_while_held(scene: Scene, bodies: Bodies, switch: Switch) -> None:
    """Held records of a lost membership are dropped and read again in the next; each is stored once."""
    topic = scene.topic(2)
    switch.reason = "locked"
    running = scene.start(topic, through=switch, reopen_after="60s")
    scene.produce(topic, *bodies(1, 10))
    wait_until(lambda: running.stats.refusals, "a refusal", seconds=15)
    scene.broker.freeze()
    wait_until(lambda: running.stats.silent_for.total_seconds() > 3, "the session to pass", seconds=15)
    scene.broker.thaw()
    wait_until(lambda: running.stats.silent_for.total_seconds() < 1, "an answer", seconds=15)
    switch.reason = ""
    running.await_records(10, seconds=40)
    scene.await_committed(topic, 10)
    assert ({"accepted": 10}, 1) == (running.stats.records, running.stats.opened)
    assert {1: 10} == scene.times_stored()


def test_commit_fails(scene: Scene, bodies: Bodies, switch: Switch, warned: Callable[[], list[str]]) -> None:
    """A commit that the cluster does not answer is reported, survived and made up for."""
    topic = scene.topic()
    switch.gate.clear()
    running = scene.start(topic, through=switch, check_every="10s", reopen_after="60s")
    scene.produce(topic, *bodies(1, 10))
    wait_until(lambda: switch.waiting, "a batch to be on its way into the store", seconds=10)
    scene.broker.freeze()
    switch.gate.set()
    wait_until(lambda: "commit" in running.health, "the commit to fail", seconds=20)
    scene.broker.thaw()
    scene.await_committed(topic, 10)
    running.await_well()
    assert running.stats.commits["KafkaTimeoutError"] >= 1
    assert "kafka: commit: offsets cannot be committed: KafkaTimeoutError" in warned()


def test_absent_topic(scene: Scene, bodies: Bodies) -> None:
    """A topic that is not there is reported and not created; the others are read, and it as well once it is there."""
    topic, late = scene.topic(), "late"
    running = scene.start([late, topic])
    scene.produce(topic, *bodies(1, 1))
    running.await_records(1)
    assert {"topics": "topic late does not exist, or the user has no right to see it"} == running.health
    with scene.broker.admin() as admin:
        assert late not in admin.list_topics()
    scene.broker.create_topic(late, partitions=1, configuration={})
    scene.produce(late, *bodies(2, 1))
    running.await_records(2)
    running.await_well()
    with scene.broker.admin() as admin:
        admin.delete_topics([late])
    wait_until(lambda: "topics" in running.health, "the loss to be noticed", seconds=20)
    scene.produce(topic, *bodies(3, 1))
    running.await_records(3)
    assert {1: 3} == scene.times_stored()


def test_only_absent_topics(scene: Scene) -> None:
    """With no topic to read at all, the collector looks for one now and then."""
    running = scene.start("never-there")
    wait_until(lambda: running.stats.opened >= 3, "three looks", seconds=15)
    assert {"topics": "topic never-there does not exist, or the user has no right to see it"} == running.health
    assert {} == running.stats.failures
    assert scene.broker.running


def test_k06_missing_codec(scene: Scene, bodies: Bodies, guard: Guard, tmp_path: Path) -> None:
    """Without zstandard, zstd records are waited for, idly and with the package's name; with it, none was skipped."""
    topic = scene.topic()
    scene.produce(topic, *bodies(1, 5), compression="gzip")
    scene.produce(topic, *bodies(6, 5), compression="zstd")
    log = tmp_path / "log"
    settings = {"bootstrap_servers": scene.broker.bootstrap, "topics": [topic], "group_id": f"group-{topic}"}
    command = [sys.executable, Path(__file__).with_name("serve_kafka.py"), json.dumps(settings)]
    process = guard.start(
        [*command, f"sqlite:///{tmp_path / 'other.db'}", "zstandard"],
        folder=tmp_path,
        log=log,
        environment=dict(os.environ),
    )

    def last() -> Mapping[str, object]:
        lines = [line for line in log.read_text().splitlines() if line.startswith("{")]
        return json.loads(lines[-1]) if lines else {"failures": {}}

    wait_until(lambda: last()["failures"], "the records to be reached", seconds=20)
    reason = "compressed records cannot be read (zstd needs zstandard); install rag-monitor[kafka]"
    assert ({"codec": reason}, {"accepted": 5}) == (last()["health"], last()["records"])
    assert f"WARNING collectors.kafka.status kafka: codec: {reason}\n" in log.read_text()
    spent = scene.cpu_seconds(process.pid)
    scene.await_committed(topic, 5)
    began = datetime.now(UTC)
    wait_until(lambda: (datetime.now(UTC) - began).total_seconds() > 1, "a second to pass", seconds=5)
    assert scene.cpu_seconds(process.pid) - spent < 0.5
    guard.stop(process, signal.SIGTERM)
    assert ({"codec": 1}, 5) == (last()["failures"], scene.committed(topic))
    running = scene.start(topic)
    running.await_records(5)
    assert {"accepted": 5} == running.stats.records
