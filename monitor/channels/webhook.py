"""Alerts as JSON to any HTTP endpoint: one POST per transition.

The body is `monitor.display.alert_document`; `docs/alerts.md` describes its keys, `docs/alert.schema.json` is its
schema.

A proxy is used where the environment names one (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`).

Delivery is at least once: a receiver that must act once keys on the header `Idempotency-Key`, which is the same for
every attempt at one transition.
"""

from __future__ import annotations

import json
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from pydantic import Field, SecretStr

from monitor.display.alert_document import alert_document
from monitor.errors import ConfigError, Permanent, Retryable
from monitor.model.trends import Alert
from monitor.ports import Channel
from monitor.retry import retry_after
from monitor.settings.section import Duration, Section, authorities, secret

_AGAIN = frozenset({408, 425, 429})
_UNREACHED = frozenset({407, 502, 503, 504})
_SERVER_ERRORS = 500
_PORTS = {"http": 80, "https": 443}


class Config(Section):
    """One endpoint. The URL may itself be a secret, so it can come from a file and is never logged."""

    url: SecretStr | None = None
    """`https://host/path`."""
    url_file: Path | None = None
    """A file that holds it, for addresses that are secret."""
    authorization: SecretStr | None = None
    """Value of the `Authorization` header, such as `Bearer ...`."""
    authorization_file: Path | None = None
    """A file that holds it."""
    headers: Mapping[str, SecretStr] = Field(default_factory=dict)
    """Further headers."""
    timeout: Duration = timedelta(seconds=10)
    """For one attempt, from connecting to the last byte."""
    ca_file: Path | None = None
    """PEM file of the authorities to trust instead of the system's."""
    link: str | None = None
    """Where people look at alerts, such as `https://monitor.example.org/alerts/{alert_id}`."""


def build(config: Config, name: str) -> Channel:
    """Return the channel; `name` is what its errors call it.

    Raises:
        ConfigError: there is no usable URL, or a file cannot be read.
    """
    where = f"channel {name!r}"
    url = secret(config.url, config.url_file, None, f"{where}: url")
    if url is None:
        raise ConfigError("missing; give url or url_file", where=f"{where}: url")
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        raise ConfigError("not an http:// or https:// address", where=f"{where}: url")
    headers = {key: value.get_secret_value() for key, value in config.headers.items()}
    authorization = secret(config.authorization, config.authorization_file, None, f"{where}: authorization")
    if authorization is not None:
        headers["Authorization"] = authorization
    return _Webhook(
        where=where,
        url=url,
        headers=headers,
        timeout=config.timeout,
        trust=authorities(config.ca_file, f"{where}: ca_file"),
        link=config.link or "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Webhook:
    where: str
    url: str
    headers: Mapping[str, str]
    timeout: timedelta
    trust: ssl.SSLContext | None
    link: str

    async def send(self, alert: Alert) -> None:
        """POST the alert; a redirect is not followed, since it would carry the secret elsewhere."""
        document = alert_document(alert, link=self.link.replace("{alert_id}", alert.alert_id))
        headers = {
            **self.headers,
            "Content-Type": "application/json",
            "Idempotency-Key": f"{alert.alert_id}:{alert.state}",
        }
        status, pause = await self._request("POST", headers, json.dumps(document, allow_nan=False).encode())
        if status in _AGAIN or status >= _SERVER_ERRORS:
            raise Retryable(f"{self.where}: the endpoint answered {status}", retry_after=pause)
        if not 200 <= status < 300:  # noqa: PLR2004 -- RFC 9110 section 15.3
            raise Permanent(f"{self.where}: the endpoint answered {status}", reason=f"http_{status}")

    async def check(self) -> None:
        """Ask for nothing but a head, which brings nobody a message; what the endpoint makes of that is no matter."""
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
