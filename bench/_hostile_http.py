"""Hostile clients of HTTP/1.1 (RFC 9112), each the worst of its kind that we could think of."""

import gzip
import random
import zlib
from functools import cache

from _hostile_link import TEXT, Attack, Link

POST = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
JSON = POST.replace(b"x-protobuf", b"json")
MIB = 1 << 20
LARGEST = 20 * MIB
"""The documented `max_body`."""


def sized(head: bytes, body: bytes, *fields: bytes) -> bytes:
    """Return a whole request."""
    return head + b"".join(field + b"\r\n" for field in fields) + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def idle(link: Link) -> None:
    """Connect and say nothing."""
    await link.wait()


async def connects(link: Link) -> None:
    """Connect and leave."""
    await link.wait(0)


async def silent_after_one(link: Link) -> None:
    """Send a good request, then nothing."""
    await link.send(sized(POST, b""))
    await link.wait()


async def slow_head(link: Link) -> None:
    """Slowloris: a field that grows by a byte."""
    await link.send(POST + b"X: ")
    await link.again(b"x", every=0.5)


async def slow_body(link: Link) -> None:
    """R.U.D.Y.: a body that grows by a byte."""
    await link.send(POST + b"Content-Length: 12582912\r\n\r\n" + b"\x0a" * 60_000)
    await link.again(b"x", every=0.2)


async def declared(link: Link) -> None:
    """Declare as much as may be in flight, send a byte of it."""
    await link.send(POST + b"Content-Length: 12582912\r\n\r\n\x0a")
    await link.wait()


async def almost(link: Link) -> None:
    """Send all of a large body but its last byte."""
    await link.send(POST + b"Content-Length: 8388608\r\n\r\n", bytes(8 * MIB - 1))
    await link.wait()


async def huge_head(link: Link) -> None:
    """A field of 50 MB."""
    await link.send(POST + b"X: ")
    for _ in range(50):
        if link.open:
            await link.send(TEXT * (MIB // len(TEXT)))
    await link.send(b"\r\n\r\n")
    await link.wait(5)


async def many_fields(link: Link) -> None:
    """5,000 fields."""
    await link.send(POST + b"".join(b"X-%d: %s\r\n" % (n, TEXT) for n in range(5000)) + b"\r\n")
    await link.wait(5)


async def folded(link: Link) -> None:
    """A field continued over and over (obs-fold), which ends no line."""
    await link.send(POST + b"X: a\r\n")
    await link.again(b" b\r\n\t" + TEXT + b"\r\n")


async def long_target(link: Link) -> None:
    """A request target of 1 MB."""
    await link.send(b"POST /" + TEXT * (MIB // len(TEXT)) + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    await link.wait(5)


async def small_chunks(link: Link) -> None:
    """3 MB in chunks of a byte."""
    await link.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
    for _ in range(300):
        if link.open:
            await link.send(b"1\r\nx\r\n" * 10_000)
    await link.send(b"0\r\n\r\n")
    await link.wait(5)


async def chunk_extensions(link: Link) -> None:
    """Chunks of a byte with extensions of 1 MB."""
    await link.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
    await link.again(b"1;x=" + b"y" * MIB + b"\r\nx\r\n")


async def trailers(link: Link) -> None:
    """Fields after the last chunk, without end."""
    await link.send(POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n")
    await link.again((b"X-Trailer: " + TEXT + b"\r\n") * 1000)


async def chunk_size(link: Link) -> None:
    """A chunk of as many bytes as 64 bits can say, then one whose size does not end."""
    await link.send(POST + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n" + TEXT)
    await link.wait(0.5)
    await link.again(b"0" * 65_536)


@cache
def bomb(encoding: str) -> bytes:
    """A gigabyte of zeros, compressed."""
    if encoding == "gzip":
        return gzip.compress(bytes(16 * MIB)) * 64
    packer = zlib.compressobj()
    first, again = (packer.compress(bytes(16 * MIB)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first + again * 63


async def gzip_bomb(link: Link) -> None:
    """1 MB that is a gigabyte."""
    await link.send(sized(POST, bomb("gzip"), b"Content-Encoding: gzip"))
    await link.wait(5)


async def deflate_bomb(link: Link) -> None:
    """The same in one stream."""
    await link.send(sized(POST, bomb("deflate"), b"Content-Encoding: deflate"))
    await link.wait(5)


async def gzip_garbage(link: Link) -> None:
    """Bytes after the end of what was compressed; encodings upon encodings."""
    await link.send(sized(POST, gzip.compress(TEXT) + TEXT * 100, b"Content-Encoding: gzip"))
    await link.wait(0.5)
    await link.send(sized(POST, gzip.compress(TEXT), b"Content-Encoding: " + b"gzip, " * 1000 + b"gzip"))
    await link.wait(1)


async def pipelined(link: Link) -> None:
    """A thousand requests at once, whose answers are read."""
    await link.again(sized(POST, b"") * 1000, every=0.2)


async def never_reads(link: Link) -> None:
    """Requests without end, whose answers are not read."""
    link.deaf()
    await link.again(sized(POST, TEXT) * 100)


async def expects(link: Link) -> None:
    """Wait for 100 Continue, then send nothing."""
    await link.send(POST + b"Expect: 100-continue\r\nContent-Length: 1000000\r\n\r\n")
    await link.wait()


async def methods(link: Link) -> None:
    """What no exporter says: other methods, absolute and other targets, other hosts and none, other versions."""
    odd = [b"%s /v1/traces HTTP/1.1\r\nHost: x\r\n\r\n" % one for one in (b"HEAD", b"OPTIONS", b"TRACE", b"GET", TEXT)]
    odd += [
        b"POST http://" + TEXT + b"/v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        b"CONNECT " + TEXT + b":443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/traces HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        b"POST /v1/traces HTTP/1.1\r\nHost: a\r\nHost: " + TEXT + b"\r\nContent-Length: 0\r\n\r\n",
        b"POST /../../etc/passwd?" + TEXT + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        b"POST /v1/traces HTTP/1.0\r\nContent-Length: 0\r\n\r\n",
        b"POST /v1/traces HTTP/9.9\r\nHost: x\r\n\r\n",
        b"GET /\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: \r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    ]
    await link.send(random.choice(odd))  # noqa: S311 -- no secret
    await link.wait(0.5)


async def smuggles(link: Link) -> None:
    """Requests of which two readers could make two different things (RFC 9112, 6.3)."""
    inner = b"POST /v1/traces HTTP/1.1\r\nHost: " + TEXT + b"\r\nContent-Length: 0\r\n\r\n"
    odd = (
        POST + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + inner,
        POST + b"Content-Length: 5, 5\r\n\r\n" + inner,
        POST + b"Content-Length: +5\r\n\r\n" + inner,
        POST + b"Content-Length: -1\r\n\r\n" + inner,
        POST + b"Content-Length: 99999999999999999999999999\r\n\r\n" + inner,
        POST + b"Transfer-Encoding: xchunked\r\n\r\n" + inner,
        POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + inner,
        POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + inner,
        POST + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + inner,
        POST.replace(b"\r\n", b"\n") + b"Content-Length: 0\n\n" + inner,
        POST + b"X: a\rContent-Length: 9\r\n\r\n" + inner,
        POST + b"X\x00: \x00" + TEXT + b"\r\nContent-Length: 0\r\n\r\n" + inner,
        POST + b": empty\r\nContent-Length: 0\r\n\r\n" + inner,
    )
    await link.send(random.choice(odd))  # noqa: S311 -- no secret
    await link.wait(0.5)


async def garbage(link: Link) -> None:
    """Bytes that are nothing."""
    await link.send(random.randbytes(100_000))  # noqa: S311 -- no secret
    await link.wait(1)


async def empty_records(link: Link) -> None:
    """As many empty records as the largest body holds: ten million."""
    await link.send(POST + b"Content-Length: %d\r\n\r\n" % LARGEST, b"\x0a\x00" * (LARGEST // 2))
    await link.wait(20)


async def empty_fields(link: Link) -> None:
    """One span with as many empty attributes."""
    await link.send(sized(POST, around(b"\x4a\x00" * (LARGEST // 2 - 100))))
    await link.wait(20)


def around(span: bytes) -> bytes:
    """Return a request of one span, whose lengths take four bytes each."""
    for tag in (b"\x12", b"\x12", b"\x0a"):
        bits = (len(span) >> shift & 0x7F | (0x80 if shift < 21 else 0) for shift in (0, 7, 14, 21))
        span = tag + bytes(bits) + span
    return span


async def deep_json(link: Link) -> None:
    """Brackets in brackets, a megabyte deep."""
    await link.send(sized(JSON, b'{"resourceSpans":' + b"[" * MIB))
    await link.wait(5)


async def wide_json(link: Link) -> None:
    """Millions of empty records as JSON."""
    await link.send(sized(JSON, b'{"resourceSpans":[' + b"{}," * (6 * MIB) + b"{}]}"))
    await link.wait(20)


async def long_numbers(link: Link) -> None:
    """Numbers of a million digits."""
    await link.send(sized(JSON, b'{"resourceSpans":[{"x":' + b"9" * MIB + b',"y":1e' + b"9" * MIB + b"}]}"))
    await link.wait(5)


async def web_pages(link: Link) -> None:
    """Ask for the pages over and over."""
    await link.again(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 10, every=0.1)


ATTACKS = {
    "idle": Attack(idle, 10_000, "http"),
    "connects": Attack(connects, 16, "http", reset=True),
    "silent after a request": Attack(silent_after_one, 2000, "http"),
    "slow head": Attack(slow_head, 2000, "http"),
    "slow body": Attack(slow_body, 1000, "http"),
    "declared, never sent": Attack(declared, 1000, "http"),
    "all but the last byte": Attack(almost, 16, "http"),
    "head of 50 MB": Attack(huge_head, 16, "http"),
    "5,000 fields": Attack(many_fields, 16, "http"),
    "folded field": Attack(folded, 16, "http"),
    "target of 1 MB": Attack(long_target, 16, "http"),
    "chunks of a byte": Attack(small_chunks, 8, "http"),
    "chunk extensions": Attack(chunk_extensions, 8, "http"),
    "endless trailers": Attack(trailers, 8, "http"),
    "chunk sizes": Attack(chunk_size, 8, "http"),
    "gzip bomb": Attack(gzip_bomb, 8, "http"),
    "deflate bomb": Attack(deflate_bomb, 8, "http"),
    "garbage after gzip": Attack(gzip_garbage, 16, "http"),
    "pipelined": Attack(pipelined, 4, "http"),
    "never reads": Attack(never_reads, 16, "http"),
    "expects 100": Attack(expects, 1000, "http"),
    "odd requests": Attack(methods, 64, "http"),
    "smuggled requests": Attack(smuggles, 64, "http"),
    "garbage": Attack(garbage, 16, "http"),
    "empty records": Attack(empty_records, 4, "http"),
    "empty attributes": Attack(empty_fields, 4, "http"),
    "deep JSON": Attack(deep_json, 8, "http"),
    "wide JSON": Attack(wide_json, 4, "http"),
    "long numbers": Attack(long_numbers, 4, "http"),
    "web: idle": Attack(idle, 3000, "web"),
    "web: slow head": Attack(slow_head, 1000, "web"),
    "web: head of 50 MB": Attack(huge_head, 16, "web"),
    "web: pages": Attack(web_pages, 8, "web"),
    "web: never reads": Attack(never_reads, 16, "web"),
}
