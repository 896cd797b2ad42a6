"""Header fields of HTTP/2 are followed frame by frame, however the bytes come."""

from __future__ import annotations

import pytest
from http2_client import CONTINUATION, DATA, END_HEADERS, HEADERS, PREFACE, SETTINGS, frame

from collectors.otlp_grpc.header_blocks import HeaderBlocks

BEGIN = PREFACE + frame(SETTINGS, 0, 0)
CALL = frame(HEADERS, 0, 1, b"x" * 60) + frame(CONTINUATION, END_HEADERS, 1, b"x" * 40)
MESSAGE = frame(DATA, 1, 1, b"x" * 5000)


def are_short(sent: bytes, size: int) -> bool:
    """Return whether all pieces of this size were."""
    blocks = HeaderBlocks(118)
    return all(blocks.are_short(sent[at : at + size]) for at in range(0, len(sent), size))


@pytest.mark.parametrize("size", [1, 7, 9, 10, 100, 100_000])
def test_calls_within_the_limit(size: int) -> None:
    """Each call has the limit to itself, and messages do not count."""
    assert are_short(BEGIN + (CALL + MESSAGE) * 3, size)


@pytest.mark.parametrize("size", [1, 7, 9, 10, 100, 100_000])
@pytest.mark.parametrize(
    "too_much",
    [
        frame(HEADERS, END_HEADERS, 1, b"x" * 110),
        frame(HEADERS, 0, 1) + frame(CONTINUATION, 0, 1) * 13,
        frame(HEADERS, 0, 1, b"x" * 60) + frame(CONTINUATION, 0, 1, b"x" * 41),
        frame(HEADERS, 0, 1, b"x" * 60) + frame(CONTINUATION, END_HEADERS, 1, b"x" * 41),
    ],
)
def test_calls_over_the_limit(size: int, too_much: bytes) -> None:
    """More than the limit is noticed at the head of the frame that goes over it."""
    assert not are_short(BEGIN + CALL + MESSAGE + too_much, size)
