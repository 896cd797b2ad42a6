"""What becomes of records: the acceptance cases K01, K02, K04, K07 and K08, and what the cases leave open."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deadline import wait_until
from kafka import KafkaProducer
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from monitor.model.spans import instant

if TYPE_CHECKING:
    from tests.collectors.kafka.conftest import Scene, Switch
    from tests.services.otlp_service import MakeRequest


def records(shared: Path, case: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """The records of a case: partition, key, value."""
    payload = json.loads((shared / "cases" / "payloads" / f"{case}.kafka.json").read_text())
    return [
        (
            record["partition"],
            record["key"] and record["key"].encode(),
            None if record["value_b64"] is None else base64.b64decode(record["value_b64"]),
        )
        for record in payload["records"]
    ]


def play(scene: Scene, shared: Path, case: str, topic: str) -> int:
    """Send the records of a case; return how many."""
    sent = records(shared, case)
    for partition, key, value in sent:
        scene.produce(topic, value, partition=partition, key=key)
    return len(sent)


def logs_request(*, trace_id: bytes) -> bytes:
    """One log record."""
    request = ExportLogsServiceRequest()
    log = request.resource_logs.add().scope_logs.add().log_records.add(trace_id=trace_id, span_id=b"\x01" * 8)
    log.time_unix_nano = 1_777_888_800_000_000_000
    log.body.string_value = "What is the fee?"
    return request.SerializeToString()


def test_k01_poison(scene: Scene, shared: Path, warned: Callable[[], list[str]]) -> None:
    """Three good turns are kept; three bad records are counted, told, copied with where and why, and passed."""
    topic, letters = scene.topic(), scene.topic()
    running = scene.start(topic, dead_letter=letters)
    sent = play(scene, shared, "K01-A", topic)
    running.await_records(sent)
    assert {"accepted": 3, "not_protobuf": 2, "unknown_json": 1} == running.stats.records
    assert 3 == len({span.trace_id for span in scene.spans()})
    scene.await_committed(topic, 6)
    copies = scene.consume(letters, 3)
    expected = [(offset, value) for offset, (_, _, value) in enumerate(records(shared, "K01-A")) if offset in {1, 2, 4}]
    assert expected == [(int(dict(copy.headers)["rag-monitor-offset"]), copy.value) for copy in copies]
    assert {
        "rag-monitor-reason": b"not_protobuf",
        "rag-monitor-topic": topic.encode(),
        "rag-monitor-partition": b"0",
        "rag-monitor-offset": b"1",
    } == dict(copies[0].headers)
    assert {"copied": 3} == running.stats.dead_letters
    assert (1, {}) == (running.stats.opened, running.stats.failures)
    # The records came one by one, and the log may be written once a minute.
    (line,) = warned()
    assert line.startswith(f"kafka: 1 unreadable records skipped, the last at {topic}, partition 0, offset 1: ")
    assert line.endswith("(not_protobuf)")


def test_k02_tombstone(scene: Scene, shared: Path) -> None:
    """A record without a value is counted as what it is, and the good one behind it is kept."""
    topic = scene.topic(configuration={"cleanup.policy": "compact"})
    running = scene.start(topic, dead_letter=scene.topic())
    for partition, _, value in records(shared, "K02-A"):
        scene.produce(topic, value, partition=partition, key=b"abc")
    running.await_records(2)
    assert ({"tombstone": 1, "accepted": 1}, {}) == (running.stats.records, running.stats.dead_letters)
    assert 3 == len(scene.spans())
    scene.await_committed(topic, 2)


def test_k04_split_trace(scene: Scene, shared: Path) -> None:
    """Three spans of one turn on three partitions are three fragments of one trace."""
    topic = scene.topic(3)
    running = scene.start(topic)
    running.await_records(play(scene, shared, "K04-A", topic))
    assert (3, 1) == (len(scene.spans()), len({span.trace_id for span in scene.spans()}))
    assert ["chat", "rag", "retrieve"] == sorted(span.name for span in scene.spans())


def test_k07_encodings(scene: Scene, shared: Path) -> None:
    """Protobuf and JSON, with a byte order mark or without, are told apart; Jaeger and metrics are refused."""
    topic = scene.topic()
    running = scene.start(topic)
    running.await_records(play(scene, shared, "K07-A", topic))
    assert {"accepted": 3, "unknown_json": 1, "no_valid_records": 1} == running.stats.records
    assert 3 == len({span.trace_id for span in scene.spans()})
    scene.await_committed(topic, 5)


def test_k08_event_time(scene: Scene, make_request: MakeRequest) -> None:
    """A backlog keeps its times: spans their own, and turns that have none that of their record."""
    now = datetime.now(UTC)
    then = (now - timedelta(hours=6)).replace(microsecond=123_000)
    chats, traces = scene.topic(), scene.topic()
    request = make_request(300)
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.start_time_unix_nano = span.end_time_unix_nano = int(then.timestamp()) * 1_000_000_000
    scene.produce(traces, request.SerializeToString())
    scene.produce(chats, b'{"question": "q", "answer": "a"}', timestamp=then)
    scene.produce(chats, b'{"question": "q", "answer": "a"}', timestamp=now + timedelta(minutes=30))
    running = scene.start([chats, traces])
    running.await_records(3)
    assert {then.replace(microsecond=0)} == {instant(span.start_ns) for span in scene.spans()}
    assert {frozenset()} == {span.flags for span in scene.spans()}
    old, never = sorted(turn.started_at for turn in scene.turns())
    assert then == old
    assert now <= never <= datetime.now(UTC)
    wait_until(lambda: running.stats.lag == {chats: 0, traces: 0}, "the lag to be known and gone", seconds=10)


def test_turns(scene: Scene) -> None:
    """Turns come in all their shapes; one that is produced twice is two turns, of the topic's app or their own."""
    topic = scene.topic()
    running = scene.start({topic: {"encoding": "turns", "app": "desk"}})
    line = b'{"question": "What is the fee?", "answer": "12 euros", "context": ["The fee is 12 euros."]}'
    scene.produce(topic, line, b"\xef\xbb\xbf" + line, b'{"userText": "q", "dataList": [], "responseContent": "a"}')
    scene.produce(topic, b'{"app": "shop", "messages": [{"role": "user", "content": "q"}, {"role": "assistant"}]}')
    scene.produce(topic, b'{"resourceSpans": []}', b"{")
    running.await_records(6)
    assert {"accepted": 4, "no_turn": 1, "not_json": 1} == running.stats.records
    assert ["desk", "desk", "desk", "shop"] == sorted(turn.app for turn in scene.turns())
    assert 4 == len({turn.turn_id for turn in scene.turns()})


def test_logs(scene: Scene, turn_pb: bytes) -> None:
    """Log records and spans may share a topic; log records without a trace are accepted and not kept."""
    topic = scene.topic()
    running = scene.start(topic)
    scene.produce(topic, logs_request(trace_id=b"\x07" * 16), logs_request(trace_id=b""), turn_pb)
    running.await_records(3)
    assert ({"accepted": 3}, {"log_records": 1}) == (running.stats.records, running.stats.ignored)
    assert ({}, 3) == (running.stats.rejected, len(scene.spans()))
    wait_until(lambda: running.intake.stats().log_records == 1, "the log record to be stored", seconds=5)


def test_partly_rejected(scene: Scene, make_request: MakeRequest) -> None:
    """Bad spans among good ones are counted, and cost the good ones nothing."""
    request = make_request(2)
    broken = request.resource_spans[0].scope_spans[0].spans
    broken[0].trace_id, broken[1].span_id = b"", b"\x00" * 8
    topic = scene.topic()
    running = scene.start(topic)
    scene.produce(topic, request.SerializeToString())
    running.await_records(1)
    assert ({"accepted": 1}, {"trace_id": 1, "span_id": 1}) == (running.stats.records, running.stats.rejected)
    assert 4 == len(scene.spans())


def test_too_large(scene: Scene, turn_pb: bytes, warned: Callable[[], list[str]]) -> None:
    """A record over `max_record` is not even looked at; one that the dead letters' topic refuses is counted."""
    topic, letters = scene.topic(), scene.topic(configuration={"max.message.bytes": "500"})
    running = scene.start(topic, dead_letter=letters, max_record=len(turn_pb) - 1)
    scene.produce(topic, turn_pb, b"junk")
    running.await_records(2)
    assert {"too_large": 1, "not_protobuf": 1} == running.stats.records
    assert {"not_copied": 1, "copied": 1} == running.stats.dead_letters
    assert f"kafka: dead_letter: a record could not be copied to {letters}: MessageSizeTooLargeError" in warned()


def test_large_record(scene: Scene, make_request: MakeRequest) -> None:
    """A record beyond what is fetched at once, and beyond a batch, goes through."""
    topic = scene.topic(configuration={"max.message.bytes": "8000000"})
    running = scene.start(topic, max_batch=1000)
    body = make_request(1, text="x" * 900_000).SerializeToString()
    assert 2_000_000 < len(body)
    scene.produce(topic, body, compression="gzip")
    scene.produce(topic, make_request(1, first=2).SerializeToString())
    running.await_records(2)
    assert 6 == len(scene.spans())


def test_compression(scene: Scene, make_request: MakeRequest) -> None:
    """With rag-monitor[kafka], every compression is read."""
    topic = scene.topic()
    running = scene.start(topic)
    for number, compression in enumerate((None, "gzip", "snappy", "lz4", "zstd"), 1):
        body = make_request(1, first=number, text="fee " * 500).SerializeToString()
        scene.produce(topic, body, compression=compression)
    running.await_records(5)
    assert [1, 2, 3, 4, 5] == scene.traces()


def test_absent_dead_letters(scene: Scene) -> None:
    """Without a topic for dead letters nothing waits and health says so; it is used once it is there, until it goes."""
    topic, letters = scene.topic(), "letters"
    running = scene.start(topic, dead_letter=letters)
    scene.produce(topic, b"junk 1")
    running.await_records(1)
    assert {"dead_letter": "topic letters does not exist, or the user has no right to see it"} == running.health
    assert {"not_copied": 1} == running.stats.dead_letters
    scene.await_committed(topic, 1)
    scene.broker.create_topic(letters, partitions=1, configuration={})
    running.await_well()
    scene.produce(topic, b"junk 2")
    running.await_records(2)
    assert [b"junk 2"] == [record.value for record in scene.consume(letters, 1)]
    with scene.broker.admin() as admin:
        admin.delete_topics([letters])
        wait_until(lambda: letters not in admin.list_topics(), "the topic to go", seconds=10)
    scene.produce(topic, b"junk 3")
    running.await_records(3, seconds=40)
    assert {"not_copied": 2, "copied": 1} == running.stats.dead_letters
    scene.await_committed(topic, 3)


def test_dead_letters_wait(scene: Scene, switch: Switch, turn_pb: bytes) -> None:
    """While the cluster does not take a dead letter, no offset passes it; it is copied in the end."""
    topic, letters = scene.topic(), scene.topic()
    switch.gate.clear()
    running = scene.start(topic, through=switch, dead_letter=letters, reopen_after="60s")
    scene.produce(topic, b"junk", turn_pb)
    wait_until(lambda: switch.waiting, "the good record to be on its way into the store", seconds=10)
    scene.broker.freeze()
    switch.gate.set()
    wait_until(lambda: running.stats.refusals, "copying to fail", seconds=20)
    assert ({}, 3) == (running.stats.records, len(scene.spans()))
    scene.broker.thaw()
    running.await_records(2)
    assert [b"junk"] == [record.value for record in scene.consume(letters, 1)]
    scene.await_committed(topic, 2)


def test_transactions(scene: Scene, make_request: MakeRequest) -> None:
    """Of transactions, what was committed is read; their markers count as read, so that no lag remains."""
    topic = scene.topic()
    with KafkaProducer(bootstrap_servers=scene.broker.bootstrap, transactional_id="t") as producer:
        producer.init_transactions()
        for number, end in enumerate((producer.abort_transaction, producer.commit_transaction), 1):
            producer.begin_transaction()
            producer.send(topic, make_request(1, first=number).SerializeToString())
            producer.flush()
            end()
    running = scene.start(topic)
    running.await_no_lag(topic)
    assert ({"accepted": 1}, {2}) == (running.stats.records, set(scene.traces()))
    scene.await_committed(topic, 4)


@pytest.mark.parametrize(("since", "expected"), [("latest", [3]), ("1h", [2, 3])])
def test_start_from(scene: Scene, since: str, expected: list[int], make_request: MakeRequest) -> None:
    """A group begins where it is told, and goes on where it stopped, whatever it is told then."""
    topic = scene.topic(2)
    now = datetime.now(UTC)
    first, second, third = (make_request(1, first=number).SerializeToString() for number in (1, 2, 3))
    scene.produce(topic, first, timestamp=now - timedelta(hours=2))
    scene.produce(topic, second, timestamp=now - timedelta(minutes=30))
    running = scene.start(topic, start_from=since)
    running.await_no_lag(topic)
    running.stop()
    running = scene.start(topic, start_from="latest" if since != "latest" else "earliest")
    wait_until(lambda: running.stats.partitions, "the partitions", seconds=10)
    scene.produce(topic, third)
    wait_until(lambda: 3 in set(scene.traces()), "the last record", seconds=10)
    assert expected == scene.traces()
    scene.await_committed(topic, 3)
