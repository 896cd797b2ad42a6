"""A mail server on loopback that keeps what it takes."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any, cast

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from loopback import free_port

PASSWORD = "hunter2"


class MailServer(Controller):
    """Takes mail on 127.0.0.1; with a certificate, only over TLS, and only after a login."""

    def __init__(self, tls: ssl.SSLContext | None, *, from_the_start: bool) -> None:
        self.mails: list[EmailMessage] = []
        self.envelopes: list[Envelope] = []
        self.replies: dict[str, str] = {}
        """What is answered instead of taking: by recipient, by `DATA`, or by `AUTH`."""
        self._tls = tls
        options: dict[str, Any] = {}
        if tls is not None:
            options = {"authenticator": self._authenticate, "auth_require_tls": not from_the_start}
            if not from_the_start:
                options |= {"auth_required": True, "tls_context": tls, "require_starttls": True}
        super().__init__(
            self, hostname="127.0.0.1", port=free_port(), ssl_context=tls if from_the_start else None, **options
        )

    def _authenticate(self, _server: SMTP, _session: Session, _envelope: Envelope, _kind: str, login: Any) -> Any:
        wanted = LoginPassword(b"monitor", PASSWORD.encode())
        return AuthResult(success=login == wanted, handled=False)

    async def handle_RCPT(  # noqa: N802 -- aiosmtpd's name
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Take or refuse a recipient."""
        if refusal := self.replies.get(address):
            return refusal
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 -- likewise
        """Take or refuse a mail."""
        if refusal := self.replies.get("DATA"):
            return refusal
        self.envelopes.append(envelope)
        content = cast("bytes", envelope.original_content)
        self.mails.append(cast("EmailMessage", message_from_bytes(content, policy=policy.default)))
        return "250 OK"


Serve = Callable[..., MailServer]


@pytest.fixture
def serve_mail() -> Iterator[Serve]:
    """Start mail servers that end with the test; without a certificate they speak no TLS."""
    servers: list[MailServer] = []

    def serve(certificate: dict[str, str] | None = None, *, from_the_start: bool = False) -> MailServer:
        tls = None
        if certificate is not None:
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.load_cert_chain(certificate["cert_file"], certificate["key_file"])
        server = MailServer(tls, from_the_start=from_the_start)
        server.start()
        servers.append(server)
        return server

    yield serve
    for server in servers:
        server.stop()
