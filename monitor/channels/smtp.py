"""Alerts by mail: one a transition, and all about one incident in one thread.

Source: RFC 5321 (SMTP), 3207 (STARTTLS), 5322 (threads), 2919 (`List-Id`), 3834 (`Auto-Submitted`). A mail that is sent
again has the same `Message-ID`, by which most mailboxes drop it.
"""

from __future__ import annotations

import asyncio
import html
import logging
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import aiosmtplib
from pydantic import AfterValidator, Field, SecretStr

from monitor.display.alert_details import alert_details
from monitor.display.alert_text import explanation, headline
from monitor.errors import ConfigError, Permanent, Retryable
from monitor.model.trends import Alert, AlertState
from monitor.ports import Channel
from monitor.sending.sections import alert_link, place
from monitor.settings.section import Duration, Section, authorities, secret

log = logging.getLogger(__name__)

_PORTS = {"starttls": 587, "tls": 465, "none": 25}
_ADDRESS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+@[A-Za-z0-9.-]+")
_REFUSALS = 500
"""From this code on the server will not take the same again (RFC 5321, section 4.2.1)."""


def _address(text: str) -> str:
    if not _ADDRESS.fullmatch(text):
        raise ValueError("expected an address such as oncall@example.org, in ASCII and without a name")
    return text


Address: TypeAlias = Annotated[str, AfterValidator(_address)]


class Config(Section):
    """A server that takes mail, and who gets it."""

    host: str
    """Name of the mail server."""
    port: int | None = Field(default=None, gt=0, le=65535)
    """Null: 587 with STARTTLS, 465 with TLS, 25 with neither."""
    encryption: Literal["starttls", "tls", "none"] = "starttls"
    """`starttls`: the connection must become encrypted, or nothing is sent; `tls`: it is from the start."""
    username: str | None = None
    """For servers that want a login; not without encryption."""
    password: SecretStr | None = None
    """Its password."""
    password_file: Path | None = None
    """A file that holds it."""
    sender: Address
    """Address that mails come from; its domain is that of their ids."""
    recipients: tuple[Address, ...] = Field(min_length=1, max_length=100)
    """Addresses of those who get each mail. It counts as taken once the server takes it for one of them."""
    timeout: Duration = timedelta(seconds=30)
    """For one attempt, from connecting to the last reply."""
    ca_file: Path | None = None
    """PEM file of the authorities to trust instead of the system's."""
    link: str | None = None
    """Where people look at alerts, such as `https://monitor.example.org/alerts/{alert_id}`."""


def build(config: Config, name: str) -> Channel:
    """Return the channel; `name` is what its errors call it.

    Raises:
        ConfigError: login, password and encryption do not go together, or a file cannot be read.
    """
    where = place(name)
    password = secret(config.password, config.password_file, None, f"{where}: password")
    if (config.username is None) != (password is None):
        raise ConfigError("username and password go together; give both or neither", where=where)
    if password is not None and config.encryption == "none":
        raise ConfigError(
            "none would show the password to everybody on the way; use starttls", where=f"{where}: encryption"
        )
    trust = authorities(config.ca_file, f"{where}: ca_file") or ssl.create_default_context()
    return _Mailbox(where=where, config=config, password=password, trust=trust)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mailbox:
    where: str
    config: Config
    password: str | None
    trust: ssl.SSLContext

    async def send(self, alert: Alert) -> None:
        """Mail the alert; a recipient whom the server refuses keeps it from no other, and is counted in the log."""
        mail = _mail(alert, self.config, now=datetime.now(UTC))
        async with self._connected() as server:
            refused, _ = await server.send_message(mail)
        if refused:
            log.warning(
                "%s: the server refused %d of %d recipients", self.where, len(refused), len(self.config.recipients)
            )

    async def check(self) -> None:
        """Connect, encrypt, log in and leave; no mail is begun."""
        async with self._connected() as server:
            await server.noop()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[aiosmtplib.SMTP]:
        """Give a connection that is encrypted and logged in; its errors, and those of the work on it, are ours."""
        config = self.config
        server = aiosmtplib.SMTP(
            hostname=config.host,
            port=config.port or _PORTS[config.encryption],
            username=config.username,
            password=self.password,
            use_tls=config.encryption == "tls",
            start_tls=config.encryption == "starttls",
            tls_context=self.trust,
            timeout=config.timeout.total_seconds(),
        )
        try:
            async with asyncio.timeout(config.timeout.total_seconds()), server:
                yield server
        # None keeps the cause or its message: what a server says may repeat an address or a login.
        except aiosmtplib.SMTPRecipientsRefused as error:
            raise self._answered(min(refused.code for refused in error.recipients)) from None
        except aiosmtplib.SMTPResponseException as error:
            raise self._answered(error.code) from None
        except OSError as error:
            cause = error.__cause__ or error
            if isinstance(cause, ssl.SSLError):
                raise Retryable(f"{self.where}: TLS refused: {type(cause).__name__}") from None
            raise Retryable(f"{self.where}: no answer: {type(error).__name__}") from None
        except aiosmtplib.SMTPException:
            raise Permanent(
                f"{self.where}: the server does not offer what the settings ask for: STARTTLS or a login",
                reason="not_offered",
            ) from None

    def _answered(self, code: int) -> Retryable | Permanent:
        if code < _REFUSALS:
            return Retryable(f"{self.where}: the server answered {code}")
        return Permanent(f"{self.where}: the server answered {code}", reason=f"smtp_{code}")


def _mail(alert: Alert, config: Config, *, now: datetime) -> EmailMessage:
    domain = config.sender.rpartition("@")[2]
    mail = EmailMessage()
    mail["Subject"] = headline(alert)
    mail["From"] = f"rag-monitor <{config.sender}>"
    mail["To"] = ", ".join(config.recipients)
    mail["Date"] = format_datetime(now)
    mail["Message-ID"] = _id(alert, alert.state, domain)
    if alert.state is not AlertState.FIRING:
        first = _id(alert, AlertState.FIRING, domain)
        mail["In-Reply-To"], mail["References"] = first, first
    mail["List-Id"] = f"Alerts of rag-monitor <alerts.rag-monitor.{domain}>"
    mail["Auto-Submitted"] = "auto-generated"
    link = alert_link(config.link, alert.alert_id)
    details = alert_details(alert, link="")
    mail.set_content(_text(alert, details, link), cte="quoted-printable")
    mail.add_alternative(_page(alert, details, link), subtype="html", cte="quoted-printable")
    return mail


def _id(alert: Alert, state: AlertState, domain: str) -> str:
    return f"<{alert.alert_id}.{state}@{domain}>"


def _text(alert: Alert, details: Mapping[str, str], link: str) -> str:
    table = "\n".join(f"{key}: {value}" for key, value in details.items())
    return "\n\n".join(filter(None, (headline(alert), explanation(alert), link, table))) + "\n"


def _page(alert: Alert, details: Mapping[str, str], link: str) -> str:
    cells = ((html.escape(key), html.escape(value)) for key, value in details.items())
    rows = "".join(f"<tr><th align=left>{key}</th><td>{value}</td></tr>" for key, value in cells)
    anchor = f'<p><a href="{html.escape(link)}">Open the alert</a></p>' if link else ""
    return (
        f"<!doctype html><html><body><h3>{html.escape(headline(alert))}</h3><p>{html.escape(explanation(alert))}</p>"
        f"{anchor}<table>{rows}</table></body></html>"
    )
