"""Sections of listeners: where one listens, over TLS or not, and who may come in."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

from pydantic import Field, SecretStr, model_validator

from monitor.settings.section import HeaderSecret, Section

LOCALHOST = "localhost"
"""The loopback addresses of both families, those that the machine has."""


class Tls(Section):
    """Encryption of what is received. The files are read again when they change."""

    cert_file: Path
    """PEM file of our certificate, with its chain."""
    key_file: Path
    """PEM file of its key, without a password."""
    client_ca_file: Path | None = None
    """PEM file of authorities; only clients with a certificate from one of them may connect (mTLS, over TLS 1.3). Null:
    anybody."""


class Auth(Section):
    """A request must carry one of the tokens, or the name and password of one of the users.

    The files are read again when they change.
    """

    tokens: tuple[HeaderSecret, ...] = ()
    """Bearer tokens; several, so that senders can change to a new one before the old one goes."""
    tokens_file: Path | None = None
    """File of further bearer tokens, one a line."""
    users: Mapping[str, SecretStr] = Field(default_factory=dict)
    """Passwords by name, for HTTP Basic authentication."""
    users_file: Path | None = None
    """File of further users, `name:password`, one a line."""

    @model_validator(mode="after")
    def _lets_somebody_in(self) -> Auth:
        if not (self.tokens or self.tokens_file or self.users or self.users_file):
            raise ValueError("names nobody; give tokens, tokens_file, users or users_file, or leave auth out")
        if any(not secret.get_secret_value() for secret in (*self.tokens, *self.users.values())):
            raise ValueError("a token or password is empty")
        if any(not name or ":" in name for name in self.users):
            raise ValueError("a user's name is empty or holds a colon")
        return self


class Listener(Section):
    """What listeners have in common."""

    host: str = Field(default=LOCALHOST, min_length=1)
    """Address to listen on: `localhost` for 127.0.0.1 and ::1, `0.0.0.0` for all of IPv4, `::` for all of both
    families, or one of the machine's own."""
    tls: Tls | None = None
    """Null: what is sent is not encrypted."""
    auth: Auth | None = None
    """Who may send; null for anybody."""
    open: bool = False
    """Said where anybody may come in from other machines; without it, a `host` that they reach needs `auth` or
    `tls.client_ca_file`."""

    @model_validator(mode="after")
    def _says_who_may_come_in(self) -> Listener:
        asks = self.auth or (self.tls and self.tls.client_ca_file)
        if self.open and asks:
            raise ValueError("open: true lets anybody in, and auth or tls.client_ca_file does not; keep one")
        if not (self.open or asks or _is_of_this_machine(self.host)):
            raise ValueError(
                "host can be reached from other machines, and nothing says who may come in; give auth or "
                "tls.client_ca_file, or `open: true` for anybody"
            )
        return self


def _is_of_this_machine(host: str) -> bool:
    try:
        return host == LOCALHOST or ip_address(host).is_loopback
    except ValueError:
        return False
