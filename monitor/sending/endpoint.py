"""POSTs to an endpoint whose address may be a secret: no error and no log line names it.

A redirect is not followed, since it would carry the secret elsewhere. A proxy is used where the environment names one
(`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`).
"""

from __future__ import annotations

import json
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from monitor.errors import Permanent, Retryable
from monitor.retry import retry_after

_AGAIN = frozenset({408, 425, 429})
_UNREACHED = frozenset({407, 502, 503, 504})
_SERVER_ERRORS = 500
_PORTS = {"http": 80, "https": 443}


def json_body(document: object) -> bytes:
    """Return the document as JSON in UTF-8, without NaN."""
    return json.dumps(document, allow_nan=False).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The other side of a channel."""

    where: str
    """What errors call it, such as `channel 'ops'`."""
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with each POST."""
    timeout: timedelta
    """For one request, from connecting to the last byte."""
    trust: ssl.SSLContext | None
    """What trusts the certificates of https; None for the machine's authorities."""

    async def post(self, body: bytes, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        """Return when the other side has taken this JSON, which any 2xx status says.

        Raises:
            Retryable: no answer, 408, 425, 429 or 5xx; with the pause that the answer asks for.
            Permanent: any other status, a redirect among them; or the request cannot be made.
        """
        sent = {**self.headers, "Content-Type": "application/json", **headers}
        status, pause = await self._request("POST", sent, body)
        if status in _AGAIN or status >= _SERVER_ERRORS:
            raise Retryable(f"{self.where}: the endpoint answered {status}", retry_after=pause)
        if not 200 <= status < 300:  # noqa: PLR2004 -- RFC 9110 section 15.3
            raise Permanent(f"{self.where}: the endpoint answered {status}", reason=f"http_{status}")

    async def check(self) -> None:
        """Ask for nothing but a head, which brings nobody a message; what the endpoint makes of that is no matter.

        Raises:
            Retryable: no answer, or that of a gateway behind which nobody is.
            Permanent: the request cannot be made.
        """
        status, _ = await self._request("HEAD", {}, None)
        if status in _UNREACHED:
            raise Retryable(f"{self.where}: cannot be reached: a proxy or gateway answered {status}")

    async def _request(
        self, method: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[int, timedelta | None]:
        """Return the status of the answer, and the pause that it asks for."""
        limit = aiohttp.ClientTimeout(total=self.timeout.total_seconds())
        try:
            proxy, login = _proxy(self.url)
            is_tunnel = urlsplit(self.url).scheme == "https"
            async with (
                aiohttp.ClientSession(timeout=limit) as session,
                session.request(
                    method,
                    self.url,
                    data=body,
                    headers=headers if is_tunnel else {**headers, **login},
                    ssl=self.trust or True,
                    allow_redirects=False,
                    proxy=proxy,
                    proxy_headers=login if is_tunnel else None,
                ) as response,
            ):
                return response.status, retry_after(response.headers, datetime.now(UTC))
        # Neither the cause nor its message is kept: both hold the URL, which may be a secret.
        except aiohttp.ClientHttpProxyError as error:
            raise Retryable(f"{self.where}: the proxy answered {error.status}") from None
        except aiohttp.ClientProxyConnectionError:
            raise Retryable(f"{self.where}: cannot connect to the proxy that the environment names") from None
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
            raise Retryable(f"{self.where}: TLS refused: {type(error).__name__}") from None
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Retryable(f"{self.where}: no answer: {type(error).__name__}") from None
        except ValueError as error:
            raise Permanent(f"{self.where}: the request cannot be made", reason=type(error).__name__) from None


def _proxy(url: str) -> tuple[str | None, dict[str, str]]:
    """Return the proxy that the environment names for an address, and the header with the login there.

    aiohttp's own `trust_env` would send a login of `~/.netrc`, too, or fail because there is an authorization already.
    """
    target = urlsplit(url)
    named = getproxies().get(target.scheme)
    if not named or proxy_bypass(f"{target.hostname}:{target.port or _PORTS[target.scheme]}"):
        return None, {}
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    address = f"{proxy.scheme}://{proxy.netloc.rpartition('@')[2]}"
    if proxy.username is None:
        return address, {}
    login = b64encode(f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()).decode()
    return address, {"Proxy-Authorization": f"Basic {login}"}
