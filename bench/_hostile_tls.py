"""Hostile clients of TLS (RFC 8446, RFC 5246), on the listeners of both protocols."""

import os
import ssl
import struct

from _hostile_http import connects as handshakes
from _hostile_http import huge_head, idle, never_reads, slow_body, slow_head
from _hostile_link import TEXT, Attack, Link


def trusting() -> ssl.SSLContext:
    """Return a context that takes any certificate."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.set_alpn_protocols(["h2", "http/1.1"])
    return made


def hello() -> bytes:
    """Return a client's first flight."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting().wrap_bio(into, out, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return out.read()
    raise AssertionError("a handshake needs an answer")


async def unfinished(link: Link) -> None:
    """Say hello, then nothing."""
    await link.send(hello())
    await link.wait()


async def slow_hello(link: Link) -> None:
    """A hello that grows by a byte."""
    for byte in hello():
        if not link.open:
            break
        await link.send(bytes([byte]))
        await link.wait(0.5)
    await link.wait()


async def broken_hello(link: Link) -> None:
    """A hello, then garbage in records that look right."""
    await link.send(hello())
    await link.wait(0.1)
    for kind in (20, 21, 22, 23, 24):
        await link.send(struct.pack(">BHH", kind, 0x0303, 16_384) + os.urandom(16_384))
    await link.wait(1)


async def long_hello(link: Link) -> None:
    """A hello that says it is 16 MiB."""
    await link.send(struct.pack(">BHH", 22, 0x0301, 16_384) + b"\x01\xff\xff\xff" + os.urandom(16_380))
    await link.again(struct.pack(">BHH", 22, 0x0301, 16_384) + os.urandom(16_384))


async def plain(link: Link) -> None:
    """HTTP without TLS."""
    await link.send(b"POST /" + TEXT + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    await link.wait(1)


ATTACKS = {
    f"tls {listener}: {name}": Attack(run, links, listener, secure=True, context=trusting() if speaks else None)
    for listener in ("http", "grpc")
    for name, run, links, speaks in (
        ("unfinished", unfinished, 1000, False),
        ("slow hello", slow_hello, 1000, False),
        ("broken hello", broken_hello, 16, False),
        ("long hello", long_hello, 8, False),
        ("plain", plain, 16, False),
        ("handshakes", handshakes, 4, True),
        ("idle", idle, 1000, True),
        ("slow head", slow_head, 500, True),
        ("slow body", slow_body, 500, True),
        ("head of 50 MB", huge_head, 8, True),
        ("never reads", never_reads, 8, True),
    )
}
