"""Limits on size, number and time within one connection, over real sockets."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from small_server import GET, client_of, serving, until

from monitor.http_server.limits import Limits

SHORT = timedelta(milliseconds=300)
LIMITS = Limits(max_head=8 * 1024, max_fields=20, head_timeout=SHORT, rest_timeout=SHORT)
PATIENT = Limits(max_head=8 * 1024, max_fields=20)
POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "pieces",
    [
        (POST + b"X-Long: ", *[b"x" * 65536] * 800),
        (b"GET /", *[b"x" * 65536] * 800),
        (b"\r\n" * 32768,) * 800,
        (POST, *[b"X-Field: 1\r\n"] * 20, b"\r\n"),
        (POST + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 900) for n in range(10)) + b"\r\n",),
        (CHUNKED + b"1\r\nx\r\n0\r\nX-Long: ", *[b"x" * 65536] * 800),
        (CHUNKED + b"1\r\nx\r\n0\r\n" + b"X: 1\r\n" * 20 + b"\r\n",),
        (CHUNKED + b"1;extension=", *[b"x" * 65536] * 800),
    ],
    ids=["field", "path", "blank lines", "fields", "together", "trailer", "trailers", "chunk extension"],
)
async def test_large_heads_are_refused(pieces: tuple[bytes, ...]) -> None:
    """What is larger than the limit, or has more fields, is answered with 431 long before its 50 MB are through."""
    async with serving(PATIENT) as (server, refusals, _), client_of(server) as client:
        saying = asyncio.create_task(client.say(*pieces))
        reply = await client.rest()
        await saying
        # A client that still sends may see its connection reset before it sees the answer.
        assert reply == b"" or reply.startswith(b"HTTP/1.1 431 ")
        assert {"head_too_large": 1} == refusals.counts()


async def test_head_within_the_limits_is_served() -> None:
    """As many fields and bytes as are allowed are served, however slowly the client sends within the time."""
    async with serving(PATIENT) as (server, refusals, _), client_of(server) as client:
        fields = [b"X-%d: %s\r\n" % (n, b"x" * 380) for n in range(18)]
        for _ in range(3):
            await client.say(POST, *fields, b"Content-Length: 3\r\n\r\n", b"a", b"bc")
            assert (await client.answer()).endswith(b"\r\n\r\n3")
        assert {} == refusals.counts()


async def test_trailers_are_no_fields_of_the_head() -> None:
    """What follows a body in chunks is let pass, and a body may come in many pieces, also of a byte now and then."""
    chunk = b"2000\r\n" + b"x" * 8192 + b"\r\n"
    async with serving(PATIENT) as (server, refusals, _), client_of(server) as client:
        for _ in range(2):
            await client.say(CHUNKED + (chunk + b"1\r\nx\r\n") * 2000 + b"0\r\nX-Trailer: 1\r\n\r\n")
            assert (await client.answer()).endswith(b"\r\n\r\n%d" % (2000 * 8193))
        assert {} == refusals.counts()


async def test_chunks_of_a_byte_are_refused() -> None:
    """A body in pieces of a byte ends after the first thousand: it costs us what one of megabytes does."""
    async with serving(PATIENT) as (server, refusals, _), client_of(server) as client:
        saying = asyncio.create_task(client.say(CHUNKED, *[b"1\r\nx\r\n" * 10_000] * 20))
        reply = await client.rest()
        await saying
        # A client that still sends may see its connection reset before it sees the answer.
        assert reply == b"" or reply.startswith(b"HTTP/1.1 400 ")
        assert {"small_chunks": 1} == refusals.counts()


@pytest.mark.parametrize("first", [b"", GET], ids=["first request", "second request"])
async def test_slow_head_is_answered_with_408(first: bytes) -> None:
    """A head that is not whole in time ends the connection, also after requests that were answered."""
    async with serving(LIMITS) as (server, refusals, _), client_of(server) as client:
        if first:
            await client.say(first)
            await client.answer()
        await client.say(POST + b"X-Slow: ")
        assert (await client.rest()).startswith(b"HTTP/1.1 408 ")
        assert {"slow_head": 1} == refusals.counts()


async def test_head_that_never_ends() -> None:
    """A byte now and then makes no head: the time is that of the whole of it."""
    async with serving(LIMITS) as (server, refusals, _), client_of(server) as client:
        await client.say(POST + b"X-Slow: ")
        async with asyncio.timeout(20):
            while refusals.counts() != {"slow_head": 1}:
                await client.say(b"x")
                await asyncio.sleep(0.02)


async def test_silent_connection_is_closed() -> None:
    """Who connects and says nothing is sent away without a line in the log."""
    async with serving(LIMITS) as (server, refusals, _), client_of(server) as client:
        assert await client.rest() == b""
        assert {} == refusals.counts()


async def test_connection_is_kept_for_the_next_request() -> None:
    """Between requests the time for a head does not run."""
    async with serving(LIMITS) as (server, _, _), client_of(server) as client, client_of(server) as silent:
        await client.say(GET)
        await client.answer()
        await silent.rest()
        await client.say(GET)
        assert (await client.answer()).startswith(b"HTTP/1.1 200 ")


async def test_rest_of_an_answered_body_must_end() -> None:
    """Who was answered may send the rest, but not for ever."""
    async with serving(LIMITS) as (server, refusals, _), client_of(server) as client:
        await client.say(b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        assert (await client.answer()).startswith(b"HTTP/1.1 200 ")
        while refusals.counts() != {"slow_rest": 1}:
            await client.say(b"x")
            await asyncio.sleep(0.02)
        assert await client.rest() == b""


async def test_reply_that_nobody_takes() -> None:
    """A client that does not read its reply holds it for a bounded time."""
    async with serving(LIMITS) as (server, refusals, echo), client_of(server) as client:
        await client.say(GET.replace(b"/", b"/large", 1))
        await until(lambda: refusals.counts() == {"slow_reader": 1}, "the reply to be given up")
        await until(lambda: (server.connections, echo.inside) == (0, 0), "the request to end")


async def test_requests_ahead_of_their_replies() -> None:
    """A client may send some, and more once they are answered; none is read while others wait."""
    async with serving(PATIENT) as (server, refusals, echo), client_of(server) as client:
        for _ in range(3):
            echo.go_on.clear()
            await client.say(GET * 10)
            await until(lambda: echo.inside == 1, "the first to be read")
            await client.say(GET * 10)
            echo.go_on.set()
            for _ in range(20):
                assert (await client.answer()).startswith(b"HTTP/1.1 200 ")
        assert {} == refusals.counts()


@pytest.mark.parametrize("replies", ["taken", "not taken"])
async def test_requests_far_ahead_of_their_replies(replies: str) -> None:
    """Who sends thousands without waiting for a reply is sent away; each would be held in memory."""
    async with serving(PATIENT) as (server, refusals, echo), client_of(server) as client:
        saying = asyncio.create_task(client.say(*[GET * 1000] * 100))
        if replies == "taken":
            await client.rest()
        await until(lambda: refusals.counts() == {"too_far_ahead": 1}, "it to be sent away")
        await saying
        await until(lambda: (server.connections, echo.inside) == (0, 0), "the requests to end")


@pytest.mark.parametrize(
    "sent", [b"secret words\r\n\r\n", b"CONNECT secret:443 HTTP/1.1\r\nHost: secret\r\n\r\n", b"\x16\x03\x01\x02\x00"]
)
async def test_not_http(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """What is no HTTP is answered with 400; the log has a line for the first one, with the peer and nothing of it."""
    async with serving(PATIENT) as (server, refusals, _):
        for _ in range(20):
            async with client_of(server) as client:
                await client.say(sent)
                assert (await client.rest()).startswith(b"HTTP/1.1 400 ")
        assert {"not_http": 20} == refusals.counts()
    (line,) = caplog.messages
    assert line.startswith("here: refused 127.0.0.1: ")
    assert "secret" not in caplog.text


async def test_body_that_is_no_body_is_answered() -> None:
    """A request that ends in nonsense gets its answer, too."""
    async with serving(PATIENT) as (server, _, echo), client_of(server) as client:
        await client.say(CHUNKED)
        await until(lambda: echo.inside, "the request to begin")
        await client.say(b"no length\r\n")
        assert (await client.rest()).startswith(b"HTTP/1.1 400 ")
        await until(lambda: not echo.inside, "the request to end")


async def test_offer_of_another_protocol_is_passed_over() -> None:
    """A client that would rather speak HTTP/2, as Java's by default, is served in HTTP/1.1, again and again."""
    offer = POST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nok"
    async with serving(PATIENT) as (server, _, _), client_of(server) as client:
        for pieces in ((offer,), (offer[:-1], offer[-1:]), (offer + offer,)):
            await client.say(*pieces)
            for _ in range(b"".join(pieces).count(b"POST")):
                assert (await client.answer()).endswith(b"\r\n\r\n2")
