"""The openai client's requests over aiohttp: its own pool looks at every connection for every request.

Beyond some sixty calls in flight that costs more than the calls (at 256: 2.9 ms of CPU a call, 1.6 ms over aiohttp).
Failures become the exceptions that the client expects, so that a refused connection is none of a time-out.
"""

from __future__ import annotations

import asyncio

import aiohttp
import httpx2
from yarl import URL

_KEEP_IDLE_SECONDS = 15.0


class AioHttpTransport(httpx2.AsyncBaseTransport):
    """One pool of connections; made at the first request, in the loop that it comes from."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response, read whole.

        Raises:
            ConnectError, ReadError, RemoteProtocolError: of httpx2, as its own transport would.
        """
        body = await request.aread()
        try:
            async with self._pool().request(
                request.method,
                URL(str(request.url), encoded=True),
                headers=request.headers.multi_items(),
                data=body or None,
                allow_redirects=False,
            ) as response:
                content = await response.read()
                return httpx2.Response(
                    response.status, headers=list(response.raw_headers), content=content, request=request
                )
        except aiohttp.ClientConnectorError as error:
            raise httpx2.ConnectError(type(error).__name__, request=request) from None
        except (aiohttp.ClientPayloadError, aiohttp.ClientOSError, ConnectionError) as error:
            raise httpx2.ReadError(type(error).__name__, request=request) from None
        except (aiohttp.ClientError, asyncio.IncompleteReadError) as error:
            raise httpx2.RemoteProtocolError(type(error).__name__, request=request) from None

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _pool(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # How many calls run at once is the score stage's business, how long they take the client's.
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_IDLE_SECONDS),
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=True,
            )
        return self._session
