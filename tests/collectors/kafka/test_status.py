"""What a collector says of itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from collectors.kafka.record import RecordContent
from collectors.kafka.status import Status
from monitor.errors import MalformedPayload


class Time:
    """A clock that stands until it is told to go on."""

    def __init__(self) -> None:
        self.now = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
        self.seconds = 0.0

    def pass_by(self, seconds: float) -> None:
        """Let `seconds` go by."""
        self.now += timedelta(seconds=seconds)
        self.seconds += seconds

    def status(self) -> Status:
        """A status that goes by this clock."""
        return Status(lambda: self.now, lambda: self.seconds)


def test_silence(warned: Callable[[], list[str]]) -> None:
    """Silence is reported with the time of the last answer, once however long it lasts, until the cluster answers."""
    time = Time()
    status = time.status()
    assert {"broker": "not connected yet"} == status.health()
    status.note_answer()
    time.pass_by(30)
    assert timedelta(seconds=30) == status.note_silence("kafka:9092")
    expected = "no answer from kafka:9092 since 2026-05-04T10:00:00Z"
    assert {"broker": expected} == status.health()
    time.pass_by(30)
    assert timedelta(seconds=60) == status.note_silence("kafka:9092") == status.stats().silent_for
    assert [f"kafka: broker: {expected}"] == warned()
    status.note_answer()
    assert ({}, timedelta(0)) == (status.health(), status.stats().silent_for)


def test_stuck() -> None:
    """A thread that does not return for over a minute is a problem; one that has ended is not."""
    time = Time()
    status = time.status()
    status.note_answer()
    status.note_alive()
    time.pass_by(60)
    assert {} == status.health()
    time.pass_by(1)
    assert {"client": "the Kafka client library has not returned for 60 s; restart the monitor"} == status.health()
    status.note_alive()
    assert {} == status.health()
    time.pass_by(100)
    status.note_end()
    assert {} == status.health()


def test_unreadable_once_a_minute(warned: Callable[[], list[str]]) -> None:
    """However many records cannot be read, the log has a line a minute, with their number and where the last lies."""
    time = Time()
    status = time.status()
    error = MalformedPayload("the body is not JSON", reason="not_json")
    for offset in range(5):
        status.count_unreadable(error, f"chats, partition 0, offset {offset}", size=10)
        time.pass_by(20)
    line = "kafka: {} unreadable records skipped, the last at chats, partition 0, offset {}: the body is not JSON"
    assert [f"{line} (not_json)".format(*numbers) for numbers in ((1, 0), (3, 3))] == warned()
    assert ({"not_json": 5}, 50) == (status.stats().records, status.stats().record_bytes)


def test_left_out_once_a_minute(warned: Callable[[], list[str]]) -> None:
    """Spans that are left out of records are logged a line a minute, with the place of the latest."""
    time = Time()
    status = time.status()
    complaint = "resourceSpans[0].scopeSpans[0].spans[0]: events: found a string; allowed: an array of objects"
    for offset in range(5):
        content = RecordContent(outcome="accepted", rejected={"unreadable": 2}, complaint=complaint)
        status.count_record(content, f"chats, partition 0, offset {offset}", size=10)
        time.pass_by(20)
    status.count_record(RecordContent(outcome="accepted", rejected={"trace_id": 1}), "chats", size=10)
    line = "kafka: {} spans or log records left out, the last at chats, partition 0, offset {}: unreadable: {}"
    expected = [line.format(*numbers, complaint) for numbers in ((2, 0), (6, 3))]
    assert expected == warned()


def test_counts() -> None:
    """What is accepted, rejected and ignored adds up."""
    status = Time().status()
    status.count_record(RecordContent(outcome="accepted", rejected={"trace_id": 2}, ignored=3), "chats", size=100)
    status.count_record(RecordContent(outcome="accepted", rejected={"trace_id": 1, "span_id": 1}), "chats", size=100)
    status.count_record(RecordContent(outcome="tombstone"), "chats", size=0)
    stats = status.stats()
    assert ({"accepted": 2, "tombstone": 1}, 200) == (stats.records, stats.record_bytes)
    assert ({"trace_id": 3, "span_id": 1}, {"log_records": 3}) == (stats.rejected, stats.ignored)


def test_problems_end(warned: Callable[[], list[str]]) -> None:
    """A problem exists until it is cleared, and is logged again only if its reason is a new one."""
    status = Time().status()
    status.note_answer()
    status.report("codec", "zstd needs zstandard")
    status.report("codec", "zstd needs zstandard")
    status.report("topics", "no topic chats")
    status.note_recovery()
    assert {"topics": "no topic chats"} == status.health()
    status.report("codec", "zstd needs zstandard")
    codec, topics = "kafka: codec: zstd needs zstandard", "kafka: topics: no topic chats"
    assert [codec, topics, codec] == warned()
