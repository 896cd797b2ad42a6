"""Requests that are small on the wire and large in memory are refused before they are read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from monitor.errors import MalformedPayload
from monitor.payloads.otlp.bounds import MAX_PARTS, bound_json, bound_protobuf
from monitor.payloads.otlp.fragments import Encoding, OtlpSignal, split_otlp
from monitor.payloads.otlp.wire import framed

MIB = 1 << 20
PAIRS = {"traces": 9, "logs": 6}


def request(record: bytes) -> bytes:
    """A request of one record."""
    return framed(1, framed(2, framed(2, record)))


def hollow(signal: OtlpSignal) -> dict[str, bytes]:
    """Bodies of 3 MB that hold nothing, by what they hold so much of."""
    many = b"\x0a\x00" * 1_500_000
    pair = PAIRS[signal]
    return {
        "resources": many,
        "scopes": framed(1, b"\x12\x00" * 1_500_000),
        "records": framed(1, framed(2, b"\x12\x00" * 1_500_000)),
        "attributes": request(framed(pair, b"") * 1_500_000),
        "values of an array": request(framed(pair, framed(2, framed(5, many)))),
        "pairs of a map": request(framed(pair, framed(2, framed(6, many)))),
        "maps of an array": request(framed(pair, framed(2, framed(5, framed(1, framed(6, many)))))),
        "attributes of the resource": framed(1, framed(1, many)),
        "attributes of the scope": framed(1, framed(2, framed(1, b"\x1a\x00" * 1_500_000))),
    }


@pytest.mark.long
@pytest.mark.parametrize("signal", ["traces", "logs"])
@pytest.mark.parametrize("what", hollow("traces"))
def test_millions_of_empty_messages(signal: OtlpSignal, what: str) -> None:
    """Wherever they are, they are counted before anything is made of them."""
    body = hollow(signal)[what]
    with pytest.raises(MalformedPayload) as caught:
        split_otlp(body, signal, received_at=datetime.now(UTC), encoding="protobuf")
    assert "too_many_records" == caught.value.reason


@pytest.mark.parametrize("field", [b"{},", b"[],"])
def test_millions_of_empty_objects(field: bytes) -> None:
    """As JSON, too."""
    body = b'{"resourceSpans":[' + field * MAX_PARTS + b"{}]}"
    with pytest.raises(MalformedPayload) as caught:
        split_otlp(body, "traces", received_at=datetime.now(UTC), encoding="json")
    assert "too_many_records" == caught.value.reason


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
def test_large_requests(encoding: Encoding) -> None:
    """Large texts are no many messages, nor are those of few bytes that hold none."""
    if encoding == "json":
        bound_json(b'{"resourceSpans":[{"x":"' + b"\n" * 10 * MIB + b'"}]}')
        return
    bound_protobuf(request(framed(5, b"\n\x00" * 5 * MIB)), "traces")
    bound_protobuf(request(framed(9, framed(1, b"key") + framed(2, framed(1, b"text"))) * 300_000), "traces")


@pytest.mark.parametrize("body", [b"\xff" * 3 * MIB, b"\x0a\xff\xff", b"\x0a", b"\x0b\x0c", b"\x0a\x7f\x12"])
def test_no_protobuf(body: bytes) -> None:
    """What is none is left to its parser."""
    bound_protobuf(body, "traces")
