"""The acceptance cases of reception, W01 to W16, as far as they end in the store."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from monitor.model.spans import Span, instant
from monitor.payloads.otlp.fragments import OtlpSignal, decode_otlp, split_otlp

if TYPE_CHECKING:
    from http_request import Answer

    from tests.services.otlp_service import Running, Serve, Switch

pytestmark = pytest.mark.shared


@pytest.fixture(scope="session")
def payloads(shared: Path) -> Path:
    """Where the requests of the cases are."""
    return shared / "cases" / "payloads"


def play(running: Running, payloads: Path, case: str) -> list[Answer]:
    """Send the requests of a case, assert the statuses it names, and return the replies."""
    script = json.loads((payloads / f"{case}.http.json").read_text())
    replies = []
    for request in script["requests"]:
        body = (
            (payloads / request["body_file"]).read_bytes() if "body_file" in request else request["body_text"].encode()
        )
        headers = dict(request["headers"])
        content_type = headers.pop("Content-Type")
        path = request.get("path", "/v1/traces")
        replies.append(running.post(body, path=path, content_type=content_type, headers=headers))
    expected = script["expect"].get("status", [200] * len(replies))
    assert expected == [reply.status for reply in replies]
    return replies


def by_id(running: Running) -> dict[tuple[str, str], Span]:
    """Return the spans of the store, each once."""
    return {(span.trace_id, span.span_id): span for span in running.spans()}


def find(running: Running, name: str) -> Span:
    """Return the one span of that name."""
    (span,) = [span for span in running.spans() if span.name == name]
    return span


def test_w01_ids(running: Running, payloads: Path) -> None:
    """Upper-case hexadecimal ids in JSON and bytes in protobuf name the same three spans."""
    play(running, payloads, "W01-A")
    spans = by_id(running)
    assert {"48b60e580acc6afaf70506939c29a576"} == {trace for trace, _ in spans}
    assert (6, 3) == (len(running.spans()), len(spans))
    for key in spans:
        first, second = (span for span in running.spans() if (span.trace_id, span.span_id) == key)
        assert first == second


def test_w02_int64(running: Running, payloads: Path) -> None:
    """An int64 is read from a string and from a number."""
    play(running, payloads, "W02-A")
    attributes = find(running, "chat").attributes
    assert (812, 31) == (attributes["llm.token_count.prompt"], attributes["llm.token_count.completion"])


def test_w03_enums(running: Running, payloads: Path) -> None:
    """A kind may be missing or a name."""
    (reply,) = play(running, payloads, "W03-A")
    assert {} == json.loads(reply.body)
    assert [0, 0, 2] == sorted(span.kind for span in running.spans())


def test_w04_content_type(running: Running, payloads: Path) -> None:
    """A charset after the content type changes nothing."""
    (reply,) = play(running, payloads, "W04-A")
    assert ("application/json", b"{}") == (reply.headers["content-type"], reply.body)
    assert 3 == len(running.spans())


def test_w05_gzip(running: Running, payloads: Path) -> None:
    """A gzip body is unpacked."""
    play(running, payloads, "W05-A")
    assert 3 == len(running.spans())


def test_w07_response_encoding(running: Running, payloads: Path) -> None:
    """Protobuf is answered in protobuf, with no byte on full success."""
    (reply,) = play(running, payloads, "W07-A")
    assert ("application/x-protobuf", b"") == (reply.headers["content-type"], reply.body)


def test_w08_not_utf8(running: Running, payloads: Path) -> None:
    """Both turns of a batch with one bad byte are kept; the byte reads as U+FFFD."""
    play(running, payloads, "W08-A")
    assert 2 == len({span.trace_id for span in running.spans()})
    repaired = [span for span in running.spans() if "text_repaired" in span.flags]
    assert "Where is caf\ufffd?" in {value for span in repaired for value in span.attributes.values()}


def test_w09_empty(running: Running, payloads: Path) -> None:
    """Empty requests succeed, without partial success, and store nothing."""
    assert [b"{}"] * 4 + [b""] == [reply.body for reply in play(running, payloads, "W09-A")]
    assert [] == running.spans()


def test_w10_bad_ids(running: Running, payloads: Path) -> None:
    """Three spans with bad ids are rejected by number; the good turn behind them is kept."""
    (reply,) = play(running, payloads, "W10-A")
    partial = json.loads(reply.body)["partialSuccess"]
    assert "3" == partial["rejectedSpans"]
    assert 0 < len(partial["errorMessage"]) < 200
    assert ["chat", "rag", "retrieve"] == sorted(span.name for span in running.spans())


def test_w11_degenerate_attributes(running: Running, payloads: Path) -> None:
    """Attributes without a value, empty lists and maps, and NaN are read as what they are."""
    (reply,) = play(running, payloads, "W11-A")
    assert b"{}" == reply.body
    attributes = find(running, "chat").attributes
    assert (None, None, None, (), {}) == tuple(
        attributes[name] for name in ("no.value", "null.value", "empty.any", "empty.list", "empty.map")
    )
    assert isinstance(attributes["nan"], float)
    assert math.isnan(attributes["nan"])


def test_w11_attributes_of_the_wrong_type(running: Running, shared: Path) -> None:
    """A span whose attributes or events are no arrays is rejected and its place named; the good one is kept."""
    (reply,) = play(running, shared / "cases" / "round2" / "payloads", "W11-B")
    message = (
        "2 of 3 records rejected: 2 with content that cannot be read; the first at"
        " resourceSpans[0].scopeSpans[0].spans[0]: events: found a string; allowed: an array of objects"
    )
    assert {"rejectedSpans": "2", "errorMessage": message} == json.loads(reply.body)["partialSuccess"]
    assert ["rag"] == [span.name for span in running.spans()]


def test_w12_times(running: Running, payloads: Path) -> None:
    """A root without times is dated by its children, a span without end by its start; both are flagged."""
    play(running, payloads, "W12-A")
    retrieve, chat, root = (find(running, name) for name in ("retrieve", "chat", "rag"))
    assert (retrieve.start_ns, chat.start_ns) == (root.start_ns, root.end_ns)
    assert 1777888800130000000 == chat.start_ns == chat.end_ns
    assert [False, True, True] == ["time_repaired" in span.flags for span in (retrieve, chat, root)]


def test_w12_times_of_a_lone_root(running: Running, payloads: Path) -> None:
    """A root without times that arrives alone is dated by its arrival."""
    request = json.loads((payloads / "W12-A.json").read_text())
    scope = request["resourceSpans"][0]["scopeSpans"][0]
    scope["spans"] = [span for span in scope["spans"] if span["name"] == "rag"]
    assert 200 == running.post(json.dumps(request).encode(), content_type="application/json").status
    root = find(running, "rag")
    assert timedelta(0) <= datetime.now(UTC) - instant(root.start_ns) < timedelta(minutes=1)


def test_w13_back_pressure(serve: Serve, switch: Switch, payloads: Path) -> None:
    """While the store refuses: 503 and Retry-After, nothing kept; later 200, and the turn is there once."""
    running = serve(through=switch)
    switch.reason = "locked"
    body = (payloads / "W13-A.json").read_bytes()
    refused = running.post(body, content_type="application/json")
    assert 503 == refused.status
    assert refused.headers["retry-after"].isdigit()
    assert [] == running.spans()
    switch.reason = ""
    assert 200 == running.post(body, content_type="application/json").status
    assert 3 == len(running.spans())


def test_w14_partial_success(running: Running, payloads: Path) -> None:
    """One bad span of four is rejected by number, as a string in JSON, with a message."""
    (reply,) = play(running, payloads, "W14-A")
    partial = json.loads(reply.body)["partialSuccess"]
    assert "1" == partial["rejectedSpans"]
    assert partial["errorMessage"]
    assert 3 == len(running.spans())


def test_w16_nul(running: Running, payloads: Path) -> None:
    """NULs become U+FFFD, and the spans that held them flagged."""
    body = (payloads / "W16-A.json").read_bytes()
    assert b"\\u0000" in body
    assert 200 == running.post(body, content_type="application/json").status
    values = [value for span in running.spans() for value in span.attributes.values() if isinstance(value, str)]
    assert not [value for value in values if "\0" in value]
    assert any("text_repaired" in span.flags for span in running.spans())


def test_captures(running: Running, shared: Path) -> None:
    """Every request that real instrumentation sent is accepted whole, and all of its records can be read."""
    bodies = sorted((shared / "captures").glob("*/*.pb"))
    assert len(bodies) > 100
    for body in bodies:
        path = "/v1/logs" if body.name.endswith(".logs.pb") else "/v1/traces"
        reply = running.post(body.read_bytes(), path=path)
        assert (200, b"") == (reply.status, reply.body), body
    assert [] == [decoded.unread for decoded in running.decoded() if decoded.unread]
    assert {} == running.http.stats().rejected


def test_captures_in_both_encodings(shared: Path) -> None:
    """A request reads the same from its JSON as from its protobuf."""
    now = datetime.now(UTC)
    compared = 0
    for body in sorted((shared / "captures").glob("*/*.pb")):
        written = body.with_suffix(".json")
        if not written.exists():
            continue
        signal: OtlpSignal = "logs" if body.name.endswith(".logs.pb") else "traces"
        from_pb, from_json = (split_otlp(path.read_bytes(), signal, received_at=now) for path in (body, written))
        assert (from_pb.accepted, from_pb.ignored) == (from_json.accepted, from_json.ignored), body
        for pb, text in zip(from_pb.fragments, from_json.fragments, strict=True):
            assert decode_otlp(pb) == decode_otlp(text), body
        compared += 1
    assert compared > 100
