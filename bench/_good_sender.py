"""A good sender beside hostile clients; prints what it felt as JSON.

usage: _good_sender.py HTTP_PORT GRPC_PORT WEB_PORT SECONDS PER_SECOND CA_FILE, the last of which is empty without TLS
"""

import asyncio
import json
import socket
import ssl
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import grpc.aio
from _ingest_load import EXPORT, Bodies

HEADERS = {"content-type": "application/x-protobuf"}
PATIENCE = aiohttp.ClientTimeout(total=10)
"""As OTLP exporters have by default."""


class Felt:
    """Latencies and failures of one way to send."""

    def __init__(self) -> None:
        self.milliseconds: list[float] = []
        self.errors: Counter[str] = Counter()

    async def time(self, call: Callable[[], Awaitable[str]]) -> None:
        """Send once; what is not an empty text is an error."""
        began = time.perf_counter()
        try:
            said = await call()
        except (aiohttp.ClientError, TimeoutError) as error:
            said = type(error).__name__
        except grpc.aio.AioRpcError as error:
            said = f"{error.code().name} {error.details()}"[:100]
        self.milliseconds.append((time.perf_counter() - began) * 1000)
        if said:
            self.errors[said] += 1


class Sender:
    """What is sent, where to."""

    def __init__(self, ports: list[int], ca_file: str) -> None:
        self._http, self._grpc, self._web = ports
        self._bodies = Bodies(3, compress=False)
        self._scheme = "https" if ca_file else "http"
        self._trusted = ssl.create_default_context(cafile=ca_file) if ca_file else True
        self._credentials = grpc.ssl_channel_credentials(Path(ca_file).read_bytes()) if ca_file else None

    async def over_http(self, session: aiohttp.ClientSession) -> str:
        """Send over a session's connection."""
        url = f"{self._scheme}://localhost:{self._http}/v1/traces"
        async with session.post(url, data=self._bodies.next(), headers=HEADERS, ssl=self._trusted) as reply:
            await reply.read()
            return "" if reply.status == 200 else str(reply.status)

    async def over_grpc(self, channel: grpc.aio.Channel) -> str:
        """Send over a channel's connection."""
        await channel.unary_unary(EXPORT)(self._bodies.next(), timeout=10)
        return ""

    async def new_http(self) -> str:
        """Send over a connection of its own."""
        async with self.session() as session:
            return await self.over_http(session)

    async def new_grpc(self) -> str:
        """Send over a connection of its own."""
        async with self.channel() as channel:
            return await self.over_grpc(channel)

    async def health(self) -> str:
        """Ask for the health page over a connection of its own."""
        async with self.session() as session, session.get(f"http://localhost:{self._web}/healthz") as reply:
            return "" if reply.status == 200 else str(reply.status)

    def session(self) -> aiohttp.ClientSession:
        """Return a session of one connection, on IPv4 as the hostile are."""
        connector = aiohttp.TCPConnector(limit=1, family=socket.AF_INET)
        return aiohttp.ClientSession(timeout=PATIENCE, connector=connector)

    def channel(self) -> grpc.aio.Channel:
        """Return a channel with a connection that no other has, and no wait before it connects again."""
        where = f"localhost:{self._grpc}"
        options = (("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 100))
        if self._credentials:
            return grpc.aio.secure_channel(where, self._credentials, options)
        return grpc.aio.insecure_channel(where, options)


async def main(ports: list[int], seconds: float, per_second: float, ca_file: str) -> None:
    """Send on a fixed schedule, whatever became of what was sent before."""
    sender = Sender(ports, ca_file)
    felt = {name: Felt() for name in ("http", "grpc", "new_http", "new_grpc", "health")}
    async with sender.session() as session, sender.channel() as channel, asyncio.TaskGroup() as tasks:
        began = time.perf_counter()
        for number in range(int(seconds * per_second)):
            await asyncio.sleep(max(0.0, began + number / per_second - time.perf_counter()))
            tasks.create_task(felt["http"].time(lambda: sender.over_http(session)))
            tasks.create_task(felt["grpc"].time(lambda: sender.over_grpc(channel)))
            if number % 5 == 0:
                tasks.create_task(felt["new_http"].time(sender.new_http))
                tasks.create_task(felt["new_grpc"].time(sender.new_grpc))
                tasks.create_task(felt["health"].time(sender.health))
    print(json.dumps({name: [one.milliseconds, one.errors] for name, one in felt.items()}))


if __name__ == "__main__":
    http, grpc_, web, seconds_, rate, ca = sys.argv[1:]
    asyncio.run(main([int(http), int(grpc_), int(web)], float(seconds_), float(rate), ca))
