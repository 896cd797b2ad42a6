"""Unpacking, with and without the optional libraries."""

from __future__ import annotations

import gzip
import subprocess
import sys
import zlib

import pytest

from monitor.errors import MalformedPayload, Rejected
from monitor.payloads.compression import CODINGS, Coding, unpacked

TEXT = b"The fee is 12 euros. " * 500


def _packed(coding: Coding) -> bytes:
    match coding:
        case "gzip":
            return gzip.compress(TEXT)
        case "deflate":
            return zlib.compress(TEXT)
        case _:
            zstd = pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
            packed: bytes = zstd.compress(TEXT)
            return packed


@pytest.mark.parametrize("coding", CODINGS)
def test_limit(coding: Coding) -> None:
    """A body of exactly the limit is unpacked, one byte more is refused, and so is one that ends early."""
    body = _packed(coding)
    assert TEXT == unpacked(body, coding, most=len(TEXT))
    with pytest.raises(Rejected):
        unpacked(body, coding, most=len(TEXT) - 1)
    for cut in (1, len(body) // 2, len(body) - 1):
        with pytest.raises(MalformedPayload):
            unpacked(body[:cut], coding, most=len(TEXT))


@pytest.mark.parametrize("coding", CODINGS)
def test_several_streams(coding: Coding) -> None:
    """Streams one after the other are one body, and the limit is of all of them together."""
    body = _packed(coding) * 3
    assert TEXT * 3 == unpacked(body, coding, most=3 * len(TEXT))
    with pytest.raises(Rejected):
        unpacked(body, coding, most=3 * len(TEXT) - 1)
    with pytest.raises(MalformedPayload):
        unpacked(body + b"more", coding, most=3 * len(TEXT))


@pytest.mark.parametrize("place", [-8, -4])
def test_damaged_gzip(place: int) -> None:
    """A wrong checksum or length is noticed."""
    body = bytearray(_packed("gzip"))
    body[place] ^= 1
    with pytest.raises(MalformedPayload):
        unpacked(bytes(body), "gzip", most=len(TEXT))


def test_without_extras() -> None:
    """Without the optional libraries gzip and deflate are unpacked all the same, and zstd is not offered."""
    script = (
        "import gzip, sys, zlib\n"
        "sys.modules.update({'isal': None, 'backports': None, 'compression': None})\n"
        "from monitor.payloads.compression import CODINGS, unpacked\n"
        "assert CODINGS == ('gzip', 'deflate'), CODINGS\n"
        "assert unpacked(gzip.compress(b'words') * 2, 'gzip', most=10) == b'wordswords'\n"
        "assert unpacked(zlib.compress(b'words'), 'deflate', most=5) == b'words'\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.mark.parametrize("body", [b"x", b"[]", b"hello", b"\n\x10\n\x00", b'{"a":1}', b'{"resourceSpans":[]}', TEXT])
@pytest.mark.parametrize("coding", CODINGS)
def test_never_packed(coding: Coding, body: bytes) -> None:
    """A body that was never packed is told as that, however short, and not as one that was cut."""
    with pytest.raises(MalformedPayload, match=f"^the body is not {coding}"):
        unpacked(body, coding, most=len(TEXT))


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("kept", [3, 30])
def test_cut_short(coding: Coding, kept: int) -> None:
    """A body of which the end is missing is told as cut short."""
    with pytest.raises(MalformedPayload, match=f"^the {coding} body is cut short$"):
        unpacked(_packed(coding)[:kept], coding, most=len(TEXT))
