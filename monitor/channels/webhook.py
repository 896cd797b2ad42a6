"""Alerts as JSON to any HTTP endpoint: one POST per transition.

The body is `monitor.display.alert_document`; `docs/alerts.md` describes its keys, `docs/alert.schema.json` is its
schema.

Delivery is at least once: a receiver that must act once keys on the header `Idempotency-Key`, which is the same for
every attempt at one transition.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from pydantic import Field, SecretStr

from monitor.display.alert_document import alert_document
from monitor.errors import ConfigError, Permanent, Retryable
from monitor.model.trends import Alert
from monitor.ports import Channel
from monitor.retry import retry_after
from monitor.settings.section import Duration, Section, secret

_AGAIN = frozenset({408, 425, 429})
_SERVER_ERRORS = 500


class Config(Section):
    """One endpoint. The URL may itself be a secret, so it can come from a file and is never logged."""

    url: SecretStr | None = None
    """`https://host/path`."""
    url_file: Path | None = None
    authorization: SecretStr | None = None
    """Value of the `Authorization` header, such as `Bearer ...`."""
    authorization_file: Path | None = None
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
        trust=_trust(config.ca_file, where),
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
        status, pause = await self._post(alert)
        if status in _AGAIN or status >= _SERVER_ERRORS:
            raise Retryable(f"{self.where}: the endpoint answered {status}", retry_after=pause)
        if not 200 <= status < 300:  # noqa: PLR2004 -- RFC 9110 section 15.3
            raise Permanent(f"{self.where}: the endpoint answered {status}", reason=f"http_{status}")

    async def check(self) -> None:
        """Connect, with TLS where the URL says so, and hang up."""
        parts = urlsplit(self.url)
        secure = parts.scheme == "https"
        try:
            async with asyncio.timeout(self.timeout.total_seconds()):
                _, writer = await asyncio.open_connection(
                    parts.hostname,
                    parts.port or (443 if secure else 80),
                    ssl=(self.trust or ssl.create_default_context()) if secure else None,
                )
                writer.close()
                await writer.wait_closed()
        # As in `_post`: the message would hold the host.
        except (TimeoutError, OSError) as error:
            raise Retryable(f"{self.where}: cannot connect: {type(error).__name__}") from None

    async def _post(self, alert: Alert) -> tuple[int, timedelta | None]:
        headers = {
            **self.headers,
            "Content-Type": "application/json",
            "Idempotency-Key": f"{alert.alert_id}:{alert.state}",
        }
        document = alert_document(alert, link=self.link.replace("{alert_id}", alert.alert_id))
        limit = aiohttp.ClientTimeout(total=self.timeout.total_seconds())
        try:
            async with (
                aiohttp.ClientSession(timeout=limit) as session,
                session.post(
                    self.url,
                    data=json.dumps(document, allow_nan=False).encode(),
                    headers=headers,
                    ssl=self.trust or True,
                    allow_redirects=False,
                ) as response,
            ):
                return response.status, retry_after(response.headers, datetime.now(UTC))
        # Neither the cause nor its message is kept: both hold the URL, which may be a secret.
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
            raise Retryable(f"{self.where}: TLS refused: {type(error).__name__}") from None
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Retryable(f"{self.where}: no answer: {type(error).__name__}") from None
        except ValueError as error:
            raise Permanent(f"{self.where}: the request cannot be made", reason=type(error).__name__) from None


def _trust(ca_file: Path | None, where: str) -> ssl.SSLContext | None:
    if ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"cannot read authorities from {str(ca_file)!r}: {error}", where=f"{where}: ca_file"
        ) from None
