"""Frames of HTTP/2 are followed one by one, however the bytes come."""

from __future__ import annotations

import pytest
from http2_client import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    call_fields,
    fields,
    frame,
)

from collectors.otlp_grpc.frames import Frames

BEGIN = PREFACE + frame(SETTINGS, 0, 0)
CALL = frame(HEADERS, 0, 1, fields([("x", "y" * 56)])) + frame(CONTINUATION, END_HEADERS, 1, fields([("x", "y" * 36)]))
MESSAGE = frame(DATA, 1, 1, b"x" * 5000)
PADDED, PRIORITY = 0x08, 0x20
SIZES = pytest.mark.parametrize("size", [1, 7, 9, 10, 100, 100_000])


def refusals(sent: bytes, size: int) -> set[str | None]:
    """Return what is said of the pieces of this size, all of which come within a second."""
    frames = Frames(most_bytes=120, most_fields=10, most_small=20, most_resets=10)
    return {frames.refusal(sent[at : at + size], 5.0) for at in range(0, len(sent), size)}


@SIZES
def test_calls_within_the_limits(size: int) -> None:
    """Each call has the limits to itself, and messages do not count."""
    assert {None} == refusals(BEGIN + (CALL + MESSAGE) * 30, size)


@SIZES
@pytest.mark.parametrize(
    "too_much",
    [
        frame(HEADERS, END_HEADERS, 1, b"x" * 112),
        frame(HEADERS, 0, 1) + frame(CONTINUATION, 0, 1) * 13,
        frame(HEADERS, 0, 1, b"x" * 60) + frame(CONTINUATION, 0, 1, b"x" * 43),
        frame(HEADERS, 0, 1, b"x" * 60) + frame(CONTINUATION, END_HEADERS, 1, b"x" * 43),
    ],
)
def test_more_bytes_of_fields(size: int, too_much: bytes) -> None:
    """More than the limit is noticed at the head of the frame that goes over it."""
    assert "head_too_large" in refusals(BEGIN + CALL + MESSAGE + too_much, size)


TEN = [
    b"\x82" * 10,
    fields([("x", "y")] * 10),
    b"\x41\x01a" * 10,
    b"\x0f\x80\x01\x01a" * 10,
    b"\x3f\xe1\x1f" + b"\xff\x80\x01" * 9,
    # A name that looks like ten fields more.
    b"\x00\x0a" + b"\x82" * 10 + b"\x00" + b"\x82" * 9,
]


@SIZES
@pytest.mark.parametrize("block", TEN, ids=range(len(TEN)))
def test_number_of_fields(size: int, block: bytes) -> None:
    """Fields are counted in all their forms, each call's for itself; one byte may stand for kilobytes."""
    allowed = frame(HEADERS, END_HEADERS, 1, block)
    split = frame(HEADERS, 0, 3, block[:5]) + frame(CONTINUATION, END_HEADERS, 3, block[5:])
    padded = frame(HEADERS, PADDED | PRIORITY | END_HEADERS, 5, b"\0" + b"\xff" * 5 + block)
    assert {None} == refusals(BEGIN + allowed + split + padded, size)
    assert "head_too_large" in refusals(BEGIN + frame(HEADERS, END_HEADERS, 1, block + b"\x82"), size)


def test_call_of_an_ordinary_client() -> None:
    """What clients send has few fields."""
    frames = Frames(most_bytes=64 * 1024, most_fields=128, most_small=1000, most_resets=200)
    call = frame(HEADERS, END_HEADERS, 1, fields([*call_fields("/x"), ("authorization", "Bearer " + "x" * 4000)]))
    assert frames.refusal(BEGIN + call + MESSAGE, 0.0) is None


@SIZES
@pytest.mark.parametrize(
    "small",
    [
        frame(PING, 0, 0, b"whatever"),
        frame(SETTINGS, 0, 0),
        frame(DATA, 0, 1),
        frame(DATA, 0, 1, b"x"),
    ],
    ids=["PING", "SETTINGS", "empty DATA", "DATA of a byte"],
)
def test_frames_that_carry_nothing(size: int, small: bytes) -> None:
    """A bounded number of them may come in a second."""
    assert {None} == refusals(BEGIN + small * 19, size)
    assert "small_frames" in refusals(BEGIN + small * 20, size)


@SIZES
def test_calls_given_up(size: int) -> None:
    """Fewer of them may come in a second than of other frames."""
    given_up = CALL + frame(RST_STREAM, 0, 1, b"\0\0\0\x08")
    assert {None} == refusals(BEGIN + given_up * 10, size)
    assert "resets" in refusals(BEGIN + given_up * 11, size)


def test_next_second() -> None:
    """Later ones count anew."""
    frames = Frames(most_bytes=120, most_fields=10, most_small=20, most_resets=10)
    pings = frame(PING, 0, 0, b"whatever") * 19
    resets = frame(RST_STREAM, 0, 1, b"\0\0\0\x08") * 10
    sent = ((BEGIN + pings, 5.0), (pings, 6.0), (resets, 7.5), (resets, 8.5))
    assert [None] * 4 == [frames.refusal(piece, at) for piece, at in sent]


@SIZES
@pytest.mark.parametrize("sent", [b"POST / HTTP/1.1\r\n\r\n", PREFACE[:-1] + b"x", b"\x16\x03\x01"])
def test_not_http2(sent: bytes, size: int) -> None:
    """What does not begin as HTTP/2 does is noticed at its first byte that differs."""
    assert "not_http" in refusals(sent, size)
