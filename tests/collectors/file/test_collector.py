"""A watched folder: its files are read while they arrive."""

import gzip
import json
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deadline import wait_until
from loop_thread import LoopThread
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.file import collector as file
from monitor.display.tables import turn_line
from monitor.errors import ConfigError, Overloaded
from monitor.model.spans import Decoded, Fragment
from monitor.model.turns import Citation, Message, Turn, turn_id
from monitor.payloads.otlp.fragments import decode_otlp
from monitor.payloads.turn_records.fragments import decode_turns
from monitor.ports import Sink
from monitor.runtime.intake import Intake
from monitor.settings.tree import IntakeSettings, plugin_config
from monitor.store.sql_store import SqlStore

NOW = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
EVENT = datetime.fromtimestamp(1_777_888_801, UTC)
"""When the spans of `make_request` end."""
QA = {"question": "q", "context": "c", "answer": "a", "ground_truth": "g"}

Make = Callable[..., ExportTraceServiceRequest]


def line(number: int) -> bytes:
    """Return a turn of its own."""
    return json.dumps({"query": f"q{number}", "response": "a"}).encode()


def stored(store: SqlStore) -> list[Fragment]:
    """Return all fragments in the store."""
    future = datetime(2100, 1, 1, tzinfo=UTC)
    traces = store.due(quiet_since=future, open_since=future, limit=1_000_000)
    return [row.fragment for rows in store.fragments(traces).values() for row in rows]


def decoded(fragments: Sequence[Fragment]) -> list[Decoded]:
    """Return what the fragments read as."""
    return [decode_turns(f) if f.signal == "turns" else decode_otlp(f) for f in fragments]


def queries(fragments: Sequence[Fragment]) -> list[str | None]:
    """Return the questions of imported turns, sorted."""
    return sorted(str(turn.query) for part in decoded(fragments) for turn in part.turns)


class Refusing:
    """A sink in front of another that is full until it is told not to be."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.full = True
        self.attempts: list[tuple[str, ...]] = []

    async def put(self, fragments: Sequence[Fragment]) -> None:
        """Pass on, or refuse."""
        self.attempts.append(tuple(f.trace_id for f in fragments))
        if self.full:
            raise Overloaded("full", retry_after=timedelta(milliseconds=20))
        await self._sink.put(fragments)


class Watching:
    """A collector in front of a store, in an event loop of its own thread."""

    def __init__(self, store: SqlStore, config: file.Config, through: Callable[[Sink], Sink]) -> None:
        self._store, self._config, self._through = store, config, through
        self._thread = LoopThread(self._watching)
        self.stop = self._thread.stop

    @asynccontextmanager
    async def _watching(self) -> AsyncIterator[None]:
        async with Intake(self._store, IntakeSettings()) as intake:
            self.sink = self._through(intake)
            self.collector = file.build(self._config, self.sink, lambda: NOW)
            async with self.collector:
                yield

    def start(self) -> "Watching":
        """Return when it watches."""
        self._thread.start()
        return self

    def until(self, condition: Callable[[file.FileStats], object], what: str) -> file.FileStats:
        """Return the first snapshot for which `condition` holds."""

        def fulfilled() -> file.FileStats | None:
            stats = self.collector.stats()
            return stats if condition(stats) else None

        stats = wait_until(fulfilled, what, seconds=20)
        assert stats is not None
        return stats

    def turns(self, count: int) -> file.FileStats:
        """Return when so many turns were stored."""
        return self.until(lambda stats: stats.stored.get("turns", 0) >= count, f"{count} turns")


Watch = Callable[..., Watching]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder to watch."""
    path = tmp_path / "in"
    path.mkdir()
    return path


@pytest.fixture
def watch(store: SqlStore, folder: Path) -> Iterator[Watch]:
    """Starts a collector on the folder; `config` is its section."""
    with ExitStack() as running:

        def start(
            config: Mapping[str, object] | None = None, *, through: Callable[[Sink], Sink] = lambda s: s
        ) -> Watching:
            section = {
                "kind": "file",
                "path": str(folder),
                "every": "20ms",
                "finished_after": "200ms",
                **(config or {}),
            }
            watching = Watching(store, plugin_config(file.Config, section, "collectors[0]"), through)
            running.callback(watching.stop)
            return watching.start()

        yield start


def test_missing_folder(tmp_path: Path) -> None:
    """A folder that is not there is an error of the settings, at the start."""
    config = plugin_config(file.Config, {"kind": "file", "path": str(tmp_path / "none")}, "collectors[0]")
    with pytest.raises(ConfigError, match=r"file\.path: no folder '.*none' to watch"):
        file.build(config, Refusing(Refusing), lambda: NOW)  # type: ignore[arg-type]


def test_former_setting(tmp_path: Path) -> None:
    """The former name of a setting is refused with the present one."""
    with pytest.raises(ConfigError, match=r"^collectors\[0\]: .*settle is called finished_after now$"):
        plugin_config(file.Config, {"kind": "file", "path": str(tmp_path), "settle": "1s"}, "collectors[0]")


def test_every_shape_of_a_turn(watch: Watch, folder: Path, store: SqlStore) -> None:
    """QA lines, query and response, conversations, Spring's request and printed turns arrive, dated by the clock."""
    trace, span = "0123456789abcdef0123456789abcdef", "0123456789abcdef"
    printed = Turn(
        turn_id=turn_id(trace, span),
        trace_id=trace,
        span_id=span,
        app="helpdesk",
        query="printed",
        history=(Message(role="user", content="before"),),
        citations=(Citation(id="1", content="c", score=0.5, score_kind="distance", rank=1, used=True),),
        response="a",
        started_at=NOW - timedelta(days=3),
        ended_at=NOW - timedelta(days=3),
        dialect="import",
    )
    chat = [
        {"role": "user", "content": "chat"},
        {"role": "assistant", "content": "a", "context": {"citations": [{"id": "1", "title": "t", "content": "c"}]}},
    ]
    records = [
        json.dumps(QA),
        json.dumps({"query": "query", "response": "a"}),
        json.dumps({"messages": chat}),
        json.dumps({"userText": "spring", "dataList": [{"text": "c"}], "responseContent": "a"}),
        turn_line(printed),
    ]
    (folder / "a.jsonl").write_text("".join(f"{record}\n" for record in records), encoding="utf-8")
    watch({"app": "shop"}).turns(5)
    fragments = stored(store)
    assert ["chat", "printed", "q", "query", "spring"] == queries(fragments)
    assert {NOW} == {f.received_at for f in fragments}
    by_query = {turn.query: turn for part in decoded(fragments) for turn in part.turns}
    assert printed == by_query["printed"]
    assert ("shop", NOW, "g") == (by_query["q"].app, by_query["q"].started_at, by_query["q"].ground_truth)
    assert ["c", "c", "c"] == [by_query[q].citations[0].content for q in ("q", "chat", "spring")]  # type: ignore[index]


def test_bodies_packed_and_plain(watch: Watch, folder: Path, make_request: Make, turn_json: bytes) -> None:
    """Requests as protobuf and JSON, packed or not, are stored beside lines of turns."""
    (folder / "1.traces.pb").write_bytes(make_request(2).SerializeToString())
    (folder / "2.traces.json.gz").write_bytes(gzip.compress(turn_json))
    (folder / "3.jsonl.gz").write_bytes(gzip.compress(line(1) + b"\n" + line(2)))
    (folder / "notes.txt").write_text("not ours", encoding="utf-8")
    (folder / ".4.jsonl").write_bytes(line(3))
    watching = watch()
    stats = watching.until(lambda s: s.stored == {"traces": 9, "turns": 2}, "all of it")
    assert (3, {}) == (stats.files, stats.bad)


def test_growing_file(watch: Watch, folder: Path, store: SqlStore) -> None:
    """Only complete lines are taken, each once, and a line that is still being written when its end comes."""
    path = folder / "a.jsonl"
    half = line(2)
    path.write_bytes(line(1) + b"\n" + half[:7])
    watching = watch({"finished_after": "1h"})
    watching.turns(1)
    with path.open("ab") as target:
        target.write(half[7:] + b"\n")
    watching.turns(2)
    with path.open("ab") as target:
        target.write(line(3) + b"\n")
    stats = watching.turns(3)
    assert ({"turns": 3}, {}) == (stats.stored, stats.bad)
    assert ["q1", "q2", "q3"] == queries(stored(store))


def test_last_line_without_its_end(watch: Watch, folder: Path, store: SqlStore) -> None:
    """A file that rests is finished: its last line counts, and counts once when its end comes after all."""
    path = folder / "a.jsonl"
    path.write_bytes(line(1))
    watching = watch()
    watching.turns(1)
    with path.open("ab") as target:
        target.write(b"\n" + line(2) + b"\n")
    watching.turns(3)
    assert ["q1", "q2"] == queries(stored(store))


def test_packed_file_being_copied(watch: Watch, folder: Path, store: SqlStore) -> None:
    """A packed file is taken as far as it goes and finished when the rest is there."""
    packed = gzip.compress(b"".join(line(n) + b"\n" for n in range(20_000)))
    path = folder / "a.jsonl.gz"
    path.write_bytes(packed[: len(packed) // 2])
    watching = watch()
    watching.turns(1000)
    with path.open("ab") as target:
        target.write(packed[len(packed) // 2 :])
    stats = watching.turns(20_000)
    assert {"turns": 20_000} == stats.stored
    assert 20_000 == len(stored(store))


def test_body_being_written(watch: Watch, folder: Path, make_request: Make) -> None:
    """Half a request is no bad request: it is read when it is whole."""
    body = make_request(5).SerializeToString()
    path = folder / "1.traces.pb"
    path.write_bytes(body[:-7])
    (folder / "2.jsonl").write_bytes(line(1) + b"\n")
    watching = watch({"finished_after": "1s"})
    # Files are read in order, so the request has been tried by then.
    assert {"turns": 1} == watching.turns(1).stored
    path.write_bytes(body)
    stats = watching.until(lambda s: "traces" in s.stored, "the request")
    assert ({"traces": 15, "turns": 1}, {}) == (stats.stored, stats.bad)


def test_what_stays_unreadable_is_counted_once(watch: Watch, folder: Path) -> None:
    """A file that rests and still is not what its name says is bad; it is looked at again only when it changes."""
    (folder / "1.traces.pb").write_bytes(b"\x0a\xff")
    (folder / "2.logs.json").write_bytes(b"{")
    (folder / "3.jsonl.gz").write_bytes(gzip.compress(line(1) * 1000)[:-9])
    (folder / "4.jsonl").write_bytes(b"{oops")
    watching = watch()
    expected = {"not_protobuf": 1, "not_json": 2, "not_gzip": 1}
    watching.until(lambda s: s.bad == expected, "four complaints")
    (folder / "5.jsonl").write_bytes(line(2) + b"\n")
    assert expected == watching.turns(1).bad
    (folder / "1.traces.pb").write_bytes(b"\x0a\xff\xff")
    watching.until(lambda s: s.bad == {**expected, "not_protobuf": 2}, "one more")


def test_bad_lines_are_told_by_place(watch: Watch, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A bad line is logged as file and line, a few of them, and all are counted; nothing they say is repeated."""
    secret = b'{"question": ["top secret"]}\n'
    (folder / "a.jsonl").write_bytes(line(1) + b"\n" + secret * 30 + line(2) + b"\n")
    with caplog.at_level(logging.WARNING, logger="collectors"):
        stats = watch().turns(2)
        assert {"wrong_shape": 30} == stats.bad
    messages = [record.getMessage() for record in caplog.records if record.name == "collectors.file.collector"]
    assert [f"a.jsonl:{n}:" for n in range(2, 12)] == [message.split(" ")[0] for message in messages]
    assert "secret" not in caplog.text


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs Linux's /proc")
def test_unreadable_file_stops_no_other(watch: Watch, folder: Path) -> None:
    """A file that cannot be opened is counted once; those behind it are read."""
    # Opening it fails for root, too, whom permissions do not stop.
    (folder / "a.jsonl").symlink_to("/proc/self/mem")
    (folder / "b.jsonl").write_bytes(line(1) + b"\n")
    watching = watch()
    watching.turns(1)
    (folder / "c.jsonl").write_bytes(line(2) + b"\n")
    assert {"unreadable_file": 1} == watching.turns(2).bad


def test_refusing_store_loses_and_skips_nothing(watch: Watch, folder: Path, store: SqlStore) -> None:
    """While the store refuses, the same portion is put again and health says so; then all goes on in order."""
    (folder / "a.jsonl").write_bytes(b"".join(line(n) + b"\n" for n in range(700)))
    watching = watch(through=Refusing)
    sink = watching.sink
    assert isinstance(sink, Refusing)
    wait_until(lambda: len(sink.attempts) > 3, "several attempts", seconds=20)
    assert {"store": "overloaded"} == watching.collector.health()
    assert 1 == len(set(sink.attempts))
    sink.full = False
    stats = watching.turns(700)
    assert stats.refused >= 3
    assert {} == watching.collector.health()
    assert 700 == len(stored(store))


def test_stopping_while_the_store_refuses(watch: Watch, folder: Path) -> None:
    """A collector that waits for the store stops at once."""
    (folder / "a.jsonl").write_bytes(line(1) + b"\n")
    watching = watch(through=Refusing)
    sink = watching.sink
    assert isinstance(sink, Refusing)
    wait_until(lambda: sink.attempts, "an attempt", seconds=20)
    watching.stop()
    assert {} == watching.collector.stats().stored


def test_reading_again_after_a_restart(watch: Watch, folder: Path, store: SqlStore) -> None:
    """A restart reads everything again, which the store knows already."""
    (folder / "a.jsonl").write_bytes(line(1) + b"\n" + line(1) + b"\n")
    first = watch()
    first.turns(2)
    first.stop()
    watch().turns(2)
    assert ["q1", "q1"] == queries(stored(store))


def test_renamed_file_goes_on_where_it_was(watch: Watch, folder: Path) -> None:
    """Rotation does not make old lines new ones."""
    path = folder / "a.jsonl"
    path.write_bytes(line(1) + b"\n")
    watching = watch({"finished_after": "1h"})
    watching.turns(1)
    path.rename(folder / "b.jsonl")
    with (folder / "b.jsonl").open("ab") as target:
        target.write(line(2) + b"\n")
    assert {"turns": 2} == watching.turns(2).stored


def test_file_written_anew_is_read_anew(watch: Watch, folder: Path, store: SqlStore) -> None:
    """The same file with other content, longer than before, is not mistaken for one that has grown."""
    path = folder / "a.jsonl"
    path.write_bytes(line(1) + b"\n")
    watching = watch({"finished_after": "1h"})
    watching.turns(1)
    with path.open("r+b") as target:
        target.write(line(2) + b"\n" + line(3) + b"\n")
    watching.turns(3)
    assert ["q1", "q2", "q3"] == queries(stored(store))


def test_file_cut_back_is_read_anew(watch: Watch, folder: Path, store: SqlStore) -> None:
    """A long file that was cut to a part of itself and goes on differently is read from its beginning."""
    path = folder / "a.jsonl"
    first = b"".join(line(n) + b"\n" for n in range(3000))
    path.write_bytes(first)
    watching = watch({"finished_after": "1h"})
    watching.turns(3000)
    with path.open("r+b") as target:
        target.truncate(len(first) - 1000)
        target.seek(0, os.SEEK_END)
        target.write(b"\n" + line(9999) + b"\n")
    watching.until(lambda s: s.bad, "the line that was cut")
    assert "q9999" in queries(stored(store))


def test_finished_files_are_deleted(watch: Watch, folder: Path) -> None:
    """`done: delete` removes what was stored whole and rests; what had bad records stays for somebody to look at."""
    (folder / "good.jsonl").write_bytes(line(1) + b"\n")
    (folder / "bad.jsonl").write_bytes(line(2) + b"\n{oops\n")
    watching = watch({"done": "delete"})
    watching.until(lambda s: s.deleted == 1 and s.stored.get("turns") == 2, "one file to go")
    assert ["bad.jsonl"] == [path.name for path in folder.iterdir()]


def test_folder_that_went_away(watch: Watch, folder: Path) -> None:
    """While the folder cannot be read health says so; when it is back, so are its files."""
    watching = watch()
    folder.rename(folder.with_name("elsewhere"))
    wait_until(watching.collector.health, "a problem", seconds=20)
    assert {"folder": "No such file or directory"} == watching.collector.health()
    folder.with_name("elsewhere").rename(folder)
    (folder / "a.jsonl").write_bytes(line(1) + b"\n")
    watching.turns(1)
    assert {} == watching.collector.health()


def test_name_that_is_no_text(watch: Watch, folder: Path) -> None:
    """A file name of odd bytes names its turns all the same."""
    path = os.fsdecode(os.fsencode(folder) + b"/caf\xe9.jsonl")
    Path(path).write_bytes(line(1) + b"\n")
    assert {"turns": 1} == watch().turns(1).stored


def test_seed_files_watched(watch: Watch, folder: Path, shared: Path, store: SqlStore) -> None:
    """The seed's own files arrive whole."""
    for name in ("qa", "conversation"):
        content = (shared / "data" / f"core_{name}_seed_format.jsonl").read_bytes()
        (folder / f"{name}.jsonl").write_bytes(content)
    stats = watch().turns(1681)
    assert ({"turns": 1681}, {}) == (stats.stored, stats.bad)
    assert 600 == len(stored(store))
