"""Alerts as JSON to any HTTP endpoint: one POST per transition.

The body is `monitor.display.alert_document`; `docs/alerts.md` describes its keys, `docs/alert.schema.json` is its
schema.

Delivery is at least once: a receiver that must act once keys on the header `Idempotency-Key`, which is the same for
every attempt at one transition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field, SecretStr

from monitor.display.alert_document import alert_document
from monitor.model.trends import Alert
from monitor.ports import Channel
from monitor.sending.endpoint import Endpoint, json_body
from monitor.sending.sections import SecretAddress, alert_link, place, secret_endpoint
from monitor.sending.signature import signature_headers, signing_key
from monitor.settings.section import HeaderSecret, header_secret, secret


class Config(SecretAddress):
    """One endpoint. The URL may itself be a secret, so it can come from a file and is never logged."""

    authorization: HeaderSecret | None = None
    """Value of the `Authorization` header, such as `Bearer ...`."""
    authorization_file: Path | None = None
    """A file that holds it."""
    headers: Mapping[str, HeaderSecret] = Field(default_factory=dict)
    """Further headers."""
    signing_secret: SecretStr | None = None
    """`whsec_` and 24 to 64 bytes in base64: each message is signed with it as in Standard Webhooks."""
    signing_secret_file: Path | None = None
    """A file that holds it."""


def build(config: Config, name: str) -> Channel:
    """Return the channel; `name` is what its errors call it.

    Raises:
        ConfigError: there is no usable URL, or a file cannot be read.
    """
    headers = {key: value.get_secret_value() for key, value in config.headers.items()}
    where = f"{place(name)}: authorization"
    authorization = header_secret(config.authorization, config.authorization_file, where)
    if authorization is not None:
        headers["Authorization"] = authorization
    where = f"{place(name)}: signing_secret"
    signing = secret(config.signing_secret, config.signing_secret_file, None, where)
    return _Webhook(
        endpoint=secret_endpoint(config, name, headers=headers),
        key=None if signing is None else signing_key(signing, where),
        link=config.link,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Webhook:
    endpoint: Endpoint
    key: bytes | None
    """What messages are signed with; None for no signature."""
    link: str | None

    async def send(self, alert: Alert) -> None:
        """POST the alert."""
        document = alert_document(alert, link=alert_link(self.link, alert.alert_id))
        body, message_id = json_body(document), f"{alert.alert_id}:{alert.state}"
        headers = {"Idempotency-Key": message_id}
        if self.key is not None:
            headers |= signature_headers(self.key, message_id, body, now=datetime.now(UTC))
        await self.endpoint.post(body, headers)

    async def check(self) -> None:
        """See whether somebody answers there."""
        await self.endpoint.check()
