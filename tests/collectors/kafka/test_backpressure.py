"""A sink that cannot take records now: they wait, nothing is skipped, and the group is not held up (case K03)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from deadline import wait_until

if TYPE_CHECKING:
    from tests.collectors.kafka.conftest import Running, Scene, Switch

Bodies = Callable[[int, int], Sequence[bytes]]


def await_refusals(running: Running, count: int) -> None:
    """Return when the sink has refused that many batches."""
    wait_until(lambda: running.stats.refusals >= count, f"{count} refusals", seconds=20)


def test_unavailable(scene: Scene, bodies: Bodies, switch: Switch) -> None:
    """While the store refuses, nothing is committed and no partition lost; then the same records are kept, once."""
    topic = scene.topic(3)
    switch.reason = "storage_full"
    running = scene.start(topic, through=switch, max_batch=1)
    for partition in range(3):
        scene.produce(topic, *bodies(10 * partition + 1, 10), partition=partition)
    await_refusals(running, 1)
    assert ({}, 3) == (running.stats.records, running.stats.partitions)
    assert [None] * 3 == [scene.committed(topic, partition) for partition in range(3)]
    wait_until(lambda: running.stats.lag == {topic: 30}, "the lag", seconds=10)
    switch.reason = ""
    running.await_records(30)
    assert ({1: 30}, {"accepted": 30}) == (scene.times_stored(), running.stats.records)
    running.await_no_lag(topic)
    scene.await_committed(topic, 10, 10, 10)
    assert (1, {}) == (running.stats.opened, running.stats.failures)


def test_k03_rebalance_while_held(scene: Scene, bodies: Bodies, switch: Switch) -> None:
    """A store slower than the session lets a second member in at once; each record is stored once, none is lost."""
    topic = scene.topic(2)
    for partition in range(2):
        scene.produce(topic, *bodies(50 * partition + 1, 50), partition=partition)
    switch.gate.clear()
    slow = scene.start(topic, through=switch, max_poll_interval="2s")
    wait_until(lambda: switch.waiting, "a batch to be on its way into the store", seconds=10)
    quick = scene.start(topic, max_poll_interval="2s")
    wait_until(lambda: (slow.stats.partitions, quick.stats.partitions) == (1, 1), "the rebalance", seconds=10)
    quick.await_records(50)
    assert ({}, {"accepted": 50}) == (slow.stats.records, quick.stats.records)
    switch.gate.set()
    slow.await_no_lag(topic)
    assert {1: 100} == scene.times_stored()
    scene.await_committed(topic, 50, 50)
    assert ({}, {}) == (slow.stats.failures, quick.stats.failures)


def test_taken_away_while_held(scene: Scene, bodies: Bodies, switch: Switch) -> None:
    """What the store refuses one member is dropped there once another has its partition, which keeps it."""
    topic = scene.topic(8)
    switch.reason = "unreachable"
    refused = scene.start(topic, through=switch, max_batch=1)
    wait_until(lambda: refused.stats.partitions == 8, "all partitions", seconds=10)
    for partition in range(8):
        scene.produce(topic, *bodies(10 * partition + 1, 10), partition=partition)
    await_refusals(refused, 1)
    other = scene.start(topic)
    wait_until(lambda: (refused.stats.partitions, other.stats.partitions) == (4, 4), "the rebalance", seconds=10)
    other.await_records(40)
    assert ({}, {1: 40}) == (refused.stats.records, scene.times_stored())
    switch.reason = ""
    refused.await_records(40)
    assert ({"accepted": 40}, {"accepted": 40}) == (refused.stats.records, other.stats.records)
    assert {1: 80} == scene.times_stored()


def test_stop_while_refused(scene: Scene, bodies: Bodies, switch: Switch) -> None:
    """A collector that is stopped while the store refuses ends soon; the next one reads what was not kept."""
    topic = scene.topic()
    scene.produce(topic, *bodies(1, 10))
    switch.reason = "locked"
    running = scene.start(topic, through=switch)
    await_refusals(running, 1)
    running.stop(seconds=5)
    assert (None, {}) == (scene.committed(topic), running.stats.records)
    scene.start(topic).await_records(10)
    assert {1: 10} == scene.times_stored()


def test_stop_while_storing(scene: Scene, bodies: Bodies, switch: Switch) -> None:
    """A batch on its way into the store when the collector is stopped is finished and committed."""
    topic = scene.topic()
    scene.produce(topic, *bodies(1, 10))
    switch.gate.clear()
    running = scene.start(topic, through=switch)
    wait_until(lambda: switch.waiting, "a batch to be on its way into the store", seconds=10)
    running.ask_to_stop()
    wait_until(lambda: running.stats.partitions == 1, "the collector to wait", seconds=5)
    switch.gate.set()
    running.stop()
    assert ({"accepted": 10}, 10) == (running.stats.records, scene.committed(topic))
    assert {1: 10} == scene.times_stored()
