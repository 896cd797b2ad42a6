"""How many connections are let in, and who has to leave for others: over real sockets."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from authority import Authority
from small_server import GET, Client, client_of, serving, until

from monitor.access.tls import Certificates
from monitor.http_server.limits import Limits
from monitor.http_server.server import Server
from monitor.settings.listener import Tls

POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"


async def served(client: Client) -> bool:
    """Whether a request is answered with 200; False when the connection was closed."""
    await client.say(GET)
    try:
        return (await client.answer()).startswith(b"HTTP/1.1 200 ")
    except (asyncio.IncompleteReadError, ConnectionError):
        return False


async def crowd(stack: AsyncExitStack, server: Server, count: int, *, address: str = "127.0.0.1") -> list[Client]:
    """Clients that are connected and say nothing."""
    before = server.connections
    clients = [await stack.enter_async_context(client_of(server, address=address)) for _ in range(count)]
    await until(lambda: server.connections == before + count, "the crowd to be in")
    return clients


async def served_at_last(stack: AsyncExitStack, server: Server) -> Client:
    """Return a newcomer once one is served, which stays: who is idle has a moment before it must give way."""
    async with asyncio.timeout(20):
        while True:
            newcomer = await stack.enter_async_context(client_of(server))
            if await served(newcomer):
                return newcomer


async def test_idle_clients_of_a_peer_give_way() -> None:
    """Where a peer has all it may have, its newcomers come in for those that did nothing for longest."""
    async with serving(Limits(max_connections_per_peer=5)) as (server, refusals, _), AsyncExitStack() as stack:
        regular = await stack.enter_async_context(client_of(server))
        assert await served(regular)
        silent = await crowd(stack, server, 4)
        for _ in range(4):
            assert await served(regular)
            await served_at_last(stack, server)
        assert [b""] * 4 == [await asyncio.wait_for(client.rest(), 20) for client in silent]
        assert await served(regular)
        assert refusals.counts()["gave_way"] == 4


async def test_regulars_stay() -> None:
    """A client that was served keeps its connection through any number of silent ones, however long it is idle."""
    limits = Limits(max_connections_per_peer=20, head_timeout=timedelta(seconds=1.5))
    async with serving(limits) as (server, refusals, _), AsyncExitStack() as stack:
        regular = await stack.enter_async_context(client_of(server))
        assert await served(regular)
        early = await stack.enter_async_context(client_of(server))
        assert b"" == await asyncio.wait_for(early.rest(), 20)
        for _ in range(60):
            last = await stack.enter_async_context(client_of(server))
        assert await served(last)
        assert refusals.counts()["gave_way"] > 0
        assert await served(regular)


async def test_others_come_in_beside_a_crowd() -> None:
    """A peer that fills the listener makes room for another one, who keeps its place."""
    limits = Limits(max_connections=6, max_connections_per_peer=6)
    async with serving(limits) as (server, refusals, _), AsyncExitStack() as stack:
        await crowd(stack, server, 6, address="127.0.0.2")
        await served_at_last(stack, server)
        assert {"gave_way"} <= refusals.counts().keys() <= {"gave_way", "full"}


async def test_busy_clients_do_not_give_way(caplog: pytest.LogCaptureFixture) -> None:
    """While all wait for their answers nobody is sent away for a newcomer, who is told to come back."""
    async with serving(Limits(max_connections=3)) as (server, refusals, echo), AsyncExitStack() as stack:
        echo.go_on.clear()
        clients = await crowd(stack, server, 3)
        for client in clients:
            await client.say(GET)
        await until(lambda: echo.inside == 3, "three requests")
        async with client_of(server) as newcomer:
            assert (await newcomer.rest()).startswith(b"HTTP/1.1 503 ")
        echo.go_on.set()
        assert all([(await client.answer()).startswith(b"HTTP/1.1 200 ") for client in clients])
        assert {"full": 1} == refusals.counts()
    assert "here: 3 of 3 connections are open (max_connections), 3 of them from 127.0.0.1" in caplog.messages
    assert "here: refused 127.0.0.1: 3 connections are open (max_connections)" in caplog.messages


async def test_bodies_that_do_not_come_give_way() -> None:
    """Who sends a head and a byte of its body now and then keeps nobody out."""
    async with serving(Limits(max_connections=2)) as (server, _, echo), AsyncExitStack() as stack:
        for client in await crowd(stack, server, 2):
            await client.say(POST)
        await until(lambda: echo.inside == 2, "two requests")
        await served_at_last(stack, server)
        await until(lambda: echo.inside <= 1, "a request to end")


async def test_full_listener_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """At four fifths of the connections there is one line, and another one only when it had become emptier."""
    async with serving(Limits(max_connections=10)) as (server, _, _):
        for _ in range(2):
            async with AsyncExitStack() as stack:
                await crowd(stack, server, 9)
            await until(lambda: not server.connections, "the crowd to be gone")
    assert ["here: 8 of 10 connections are open (max_connections), 8 of them from 127.0.0.1"] * 2 == caplog.messages


async def test_half_a_handshake(tmp_path: Path) -> None:
    """Over TLS a client that never finishes its handshake is sent away in time, and gives way before."""
    limits = Limits(max_connections=2, head_timeout=timedelta(milliseconds=300))
    certificates = Certificates(Tls.model_validate(Authority(tmp_path, "server").issue("server")), "here")
    async with serving(limits, certificates=certificates) as (server, refusals, _), AsyncExitStack() as stack:
        for client in await crowd(stack, server, 2):
            await client.say(b"\x16\x03\x01")
        await until(lambda: server.connections == 0, "both to be sent away")
        assert {"tls_handshake": 2} == refusals.counts()


async def test_flood_of_silent_clients(caplog: pytest.LogCaptureFixture) -> None:
    """However fast they come, each gets in for an older one, and none keeps the server from its end."""
    async with serving(Limits(max_connections_per_peer=50)) as (server, refusals, _):
        with ExitStack() as stack:
            # All of them are there before the server has its turn.
            for _ in range(250):
                stack.enter_context(socket.create_connection(server.address, timeout=10))
            await until(lambda: sum(refusals.counts().values()) == 200, "the last one to be in")
            assert {"gave_way": 200} == refusals.counts()
    assert "graceful shutdown exceeded" not in caplog.text


@contextmanager
def no_descriptor_left(spare: int = 0) -> Iterator[None]:
    """Lets this process open `spare` files more, while entered."""
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + spare, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_no_descriptor_is_left(caplog: pytest.LogCaptureFixture) -> None:
    """A process without room for a connection says so, and accepts again when it has room, without a busy loop."""
    async with serving(Limits()) as (server, refusals, _):
        with socket.create_connection(server.address, timeout=10) as client:
            with no_descriptor_left():
                await until(lambda: refusals.counts().get("descriptors"), "a connection that cannot be accepted")
                assert 1 == refusals.counts()["descriptors"]
            client.setblocking(False)  # noqa: FBT003 -- the standard library's
            await asyncio.get_running_loop().sock_sendall(client, GET)
            answer = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 65536), 20)
        assert answer.startswith(b"HTTP/1.1 200 ")
    assert "here: refused anybody: cannot accept connections: Too many open files" in caplog.messages


CROWD = """
import resource, socket, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
crowd = [socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30) for _ in range(400)]
print("there", flush=True)
sys.stdin.read()
"""


def descriptors_in_use() -> int:
    """How many this process has, with the one that it takes to count them."""
    return len(list(Path("/dev/fd").iterdir()))


async def test_descriptors_are_left_to_others() -> None:
    """However many come, a listener that reserves descriptors leaves them to one that does not."""
    with no_descriptor_left(spare=80):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        async with (
            serving(Limits(reserved_descriptors=20, max_connections=1000, max_connections_per_peer=1000)) as (
                senders,
                refusals,
                _,
            ),
            serving(Limits()) as (pages, _, _),
        ):
            crowd = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                CROWD,
                str(senders.address[1]),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            assert crowd.stdout
            try:
                assert b"there\n" == await asyncio.wait_for(crowd.stdout.readline(), 60)
                await until(lambda: refusals.counts().get("gave_way", 0) > 200, "the crowd to be in")
                assert descriptors_in_use() <= most - 10
                async with client_of(pages) as client:
                    assert await served(client)
            finally:
                crowd.kill()
                await crowd.wait()
