"""Connections to one endpoint: replies of bounded size, from no other address, and in words what is wrong with them.

What an endpoint sends is not to be trusted: it may never end, unpack to a thousand times its size, speak no HTTP, or
send the prompt on to somebody else.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator

import aiohttp
import httpx2
from openai import DefaultAioHttpClient

from monitor.errors import MonitorError, Retryable, Unusable

LARGEST_REPLY = 4 * 1024 * 1024
"""Bytes of a reply, or of a refusal; a verdict on forty sentences has some ten thousand."""

_LARGEST_COMPRESSED = 64 * 1024
"""Bytes of one that is compressed though we ask for none: gzip unpacks to a thousand times that at most."""

# How many calls run at once is the score stage's business.
_NO_LIMITS = httpx2.Limits(max_connections=0, keepalive_expiry=15.0)


class _TooLargeError(httpx2.TransportError):
    """A reply is larger than we read."""


class _RedirectedError(httpx2.TransportError):
    """The endpoint sends the prompt to another origin."""


class _Bounded(httpx2.AsyncByteStream):
    """The bytes of a response, up to a limit."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the bytes as they come; raise beyond the limit."""
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self._limit:
                raise _TooLargeError(f"a reply of more than {self._limit} bytes")
            yield chunk

    async def aclose(self) -> None:
        """Close the connection, or give it back."""
        await self._stream.aclose()


def connections(base_url: str, trust: ssl.SSLContext | None) -> httpx2.AsyncClient:
    """Return what calls to `base_url` share; it has no time-out, for a call has a deadline.

    `trust` None trusts the machine's authorities.
    """
    home = _origin(httpx2.URL(base_url))

    async def stay_home(request: httpx2.Request) -> None:
        if _origin(request.url) != home:
            raise _RedirectedError(f"it redirects to {request.url.copy_with(raw_path=b'/')}; not followed")

    async def bound(response: httpx2.Response) -> None:
        plain = response.headers.get("content-encoding", "identity") == "identity"
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream, LARGEST_REPLY if plain else _LARGEST_COMPRESSED)

    return DefaultAioHttpClient(
        timeout=None,
        limits=_NO_LIMITS,
        verify=trust or True,
        headers={"accept-encoding": "identity"},
        event_hooks={"request": [stay_home], "response": [bound]},
    )


BROKEN = (aiohttp.ClientError, httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError)
"""What a connection raises that the openai client does not translate, such as for bytes that are no HTTP."""


def failure(error: Exception, what: str) -> MonitorError:
    """Return what a broken connection means, met while doing `what`; addresses are named, nothing that was sent."""
    for cause in _causes(error):
        if isinstance(cause, _RedirectedError):
            return Unusable(f"{what}: {cause}")
        if trouble := _trouble(cause):
            return Retryable(f"{what}: {trouble}")
    return Retryable(f"{what}: no connection")


def _trouble(cause: BaseException) -> str:  # noqa: PLR0911 -- one for each way to fail
    match cause:
        case _TooLargeError():
            return str(cause)
        case aiohttp.ClientConnectorDNSError():
            return f"unknown host {cause.host}"
        case aiohttp.ClientConnectorCertificateError():
            error = cause.certificate_error
            reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else type(error).__name__
            return f"TLS: the certificate of {cause.host} is not trusted: {reason}; ca_file names authorities"
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return "TLS: no handshake; does the address begin with https though the endpoint speaks plain HTTP?"
        case ConnectionRefusedError():
            return "connection refused: nothing listens there"
        case aiohttp.ClientConnectorError() if isinstance(cause.os_error, ConnectionRefusedError):
            return f"connection refused: nothing listens at {cause.host}:{cause.port}"
        case aiohttp.ServerDisconnectedError() | ConnectionResetError():
            return "it closed the connection without an answer"
        case aiohttp.ClientResponseError():
            return "what it answers is no HTTP"
        case aiohttp.ClientPayloadError():
            return "its reply broke off"
    return ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
