"""Recordings are read once, with event time; what cannot be read costs nothing else."""

import gzip
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from monitor.errors import ConfigError
from monitor.model.spans import Fragment
from monitor.payloads.turn_records.fragments import decode_turns
from monitor.recordings import lines, whole

NOW = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
EVENT = datetime.fromtimestamp(1_777_888_801, UTC)
"""When the spans of `make_request` end."""

Make = Callable[..., ExportTraceServiceRequest]


def line(number: int) -> bytes:
    """Return a turn of its own."""
    return json.dumps({"query": f"q{number}", "response": "a"}).encode()


def queries(fragments: Sequence[Fragment]) -> list[str | None]:
    """Return the questions of imported turns, sorted."""
    return sorted(str(turn.query) for fragment in fragments for turn in decode_turns(fragment).turns)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder."""
    path = tmp_path / "in"
    path.mkdir()
    return path


def all_of(path: Path) -> tuple[list[Fragment], dict[str, int], list[str]]:
    """Return everything that `portions` finds."""
    fragments: list[Fragment] = []
    bad: dict[str, int] = {}
    complaints: list[str] = []
    for portion in whole.portions(path, app="shop", started_at=NOW):
        fragments += portion.fragments
        complaints += portion.complaints
        for reason, count in portion.bad.items():
            bad[reason] = bad.get(reason, 0) + count
    return fragments, bad, complaints


def test_bodies_are_dated_by_their_records(folder: Path, make_request: Make) -> None:
    """A body arrives at the latest time in it; of a body in both encodings the binary one is read."""
    body = make_request(2).SerializeToString()
    (folder / "1.traces.pb").write_bytes(body)
    (folder / "1.traces.json").write_text("not read")
    (folder / "2.traces.pb.gz").write_bytes(gzip.compress(make_request(1, first=9).SerializeToString()))
    (folder / "expected.jsonl").write_bytes(line(1))
    fragments, bad, _ = all_of(folder)
    assert ([2 * 3, 3], {}) == ([sum(f.count for f in fragments[:2]), fragments[2].count], bad)
    assert {EVENT} == {f.received_at.replace(microsecond=0) for f in fragments}


def test_lines_however_they_end(folder: Path) -> None:
    """CRLF, blank lines, a byte order mark and a last line without its end lose nothing; numbers are the file's."""
    (folder / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + line(1) + b"\r\n\r\n" + b"{oops\n" + line(2))
    fragments, bad, complaints = all_of(folder)
    assert ["q1", "q2"] == queries(fragments)
    assert {"not_json": 1} == bad
    assert ["a.jsonl:3: not JSON: line 1, column 2"] == complaints


def test_line_numbers_over_portions(folder: Path) -> None:
    """A long file comes in portions whose lines are counted through, and whose sizes add up."""
    (folder / "a.jsonl").write_bytes(b"".join(line(n) + b"\n" for n in range(1201)) + b"{oops")
    portions = list(whole.portions(folder, app="shop", started_at=NOW))
    assert [500, 500, 201] == [len(portion.fragments) for portion in portions]
    assert ("a.jsonl:1202: not JSON: line 1, column 2",) == portions[-1].complaints
    assert (folder / "a.jsonl").stat().st_size == sum(portion.size for portion in portions)
    assert 1201 == len({f.trace_id for portion in portions for f in portion.fragments})


def test_endless_line(folder: Path) -> None:
    """A line beyond all bounds is one bad record; the next one is read."""
    with (folder / "a.jsonl").open("wb") as target:
        target.write(line(1) + b"\n")
        for _ in range(lines.LONGEST // 2**20 + 1):
            target.write(b" " * 2**20)
        target.write(b"\n" + line(2) + b"\n")
    fragments, bad, _ = all_of(folder)
    assert (["q1", "q2"], {"too_large": 1}) == (queries(fragments), bad)


def test_otlp_lines(folder: Path, turn_json: bytes) -> None:
    """A line may be an OTLP/JSON request, as the Collector's file exporter writes it; metrics are of no use."""
    body = json.dumps(json.loads(turn_json), separators=(",", ":"))
    (folder / "a.jsonl").write_text(f'{body}\n{{"resourceMetrics":[]}}\n{{"resourceSpans": [{{\n', encoding="utf-8")
    fragments, bad, _ = all_of(folder)
    assert [3] == [f.count for f in fragments]
    assert {"traces"} == {f.signal for f in fragments}
    assert {"not_json": 1} == bad


@pytest.mark.parametrize(
    ("content", "name", "reason"),
    [
        (b"{", "x.traces.json", "not_json"),
        (b"\x0a\xff", "x.logs.pb", "not_protobuf"),
        (b"no gzip", "x.jsonl.gz", "not_gzip"),
        (b"no gzip", "x.traces.pb.gz", "not_compressed"),
        (gzip.compress(b"0" * (lines.LONGEST + 1)), "x.traces.json.gz", "too_large"),
        ('{"query": "q"}\n'.encode("utf-16"), "x.jsonl", "not_utf8"),
    ],
)
def test_bad_file_costs_only_itself(folder: Path, content: bytes, name: str, reason: str, make_request: Make) -> None:
    """What a file claims and is not is named and counted; the files around it are read."""
    (folder / name).write_bytes(content)
    kind = ".jsonl" if ".jsonl" in name else ".traces.pb"
    good = line(1) if kind == ".jsonl" else make_request().SerializeToString()
    (folder / f"a{kind}").write_bytes(good)
    (folder / f"z{kind}").write_bytes(good)
    fragments, bad, complaints = all_of(folder)
    assert (2, {reason: 1}) == (len(fragments), bad)
    assert complaints[0].startswith(f"{name}: ")


def test_gzip_cut_short_gives_what_it_has(folder: Path) -> None:
    """The lines before the cut are turns."""
    packed = gzip.compress(b"".join(line(n) + b"\n" for n in range(20_000)))
    (folder / "a.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    fragments, bad, _ = all_of(folder)
    assert len(fragments) > 5000
    assert {"not_gzip": 1} == bad


def test_nothing_to_read(folder: Path) -> None:
    """A path that is not there, an empty folder and a file of another kind say what is expected."""
    (folder / "notes.txt").touch()
    for path in (folder / "missing", folder, folder / "notes.txt"):
        with pytest.raises(ConfigError, match=str(path)):
            whole.files(path)
    assert (folder / "notes.txt").exists()


@pytest.mark.parametrize(("name", "turns_in_all"), [("qa", 300), ("conversation", 1381)])
def test_seed_files_once(shared: Path, name: str, turns_in_all: int) -> None:
    """The seed's own files are read whole."""
    fragments, bad, _ = all_of(shared / "data" / f"core_{name}_seed_format.jsonl")
    assert (300, turns_in_all, {}) == (len(fragments), sum(f.count for f in fragments), bad)
