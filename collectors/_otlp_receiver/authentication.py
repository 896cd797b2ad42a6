"""Who may send: bearer tokens (RFC 6750) and names with passwords (RFC 7617), compared in constant time."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import Field, SecretStr, model_validator

from monitor.errors import ConfigError, Rejected
from monitor.settings.section import Section

CHALLENGE = b'Bearer, Basic realm="rag-monitor", charset="UTF-8"'
"""What `WWW-Authenticate` says to who is not let in."""


class Auth(Section):
    """A request must carry one of the tokens, or the name and password of one of the users."""

    tokens: tuple[SecretStr, ...] = ()
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


class Access:
    """Lets requests in.

    Args:
        auth: who may send; None for anybody.
        where: the collector, for error messages.

    Raises:
        ConfigError: a file cannot be read, or names nobody.
    """

    def __init__(self, auth: Auth | None, where: str) -> None:
        self._known = tuple(_digest(known) for known in _credentials(auth, f"{where}.auth")) if auth else None

    def admit(self, authorization: bytes) -> None:
        """Return if a request with this `Authorization` field may come in; b"" when it has none.

        Raises:
            Rejected: it may not (`unauthenticated`).
        """
        if self._known is None:
            return
        presented = _digest(_canonical(authorization))
        # All are compared, so that the time does not tell which one was nearly right.
        if not sum([hmac.compare_digest(known, presented) for known in self._known]):
            raise Rejected("no valid credentials in the Authorization field", reason="unauthenticated")


def _credentials(auth: Auth, where: str) -> Iterator[bytes]:
    for token in auth.tokens:
        yield _bearer(token.get_secret_value().encode())
    if auth.tokens_file is not None:
        for line in _lines(auth.tokens_file, f"{where}.tokens_file"):
            yield _bearer(line)
    for name, password in auth.users.items():
        yield _basic(f"{name}:{password.get_secret_value()}".encode())
    if auth.users_file is not None:
        for number, line in enumerate(_lines(auth.users_file, f"{where}.users_file"), 1):
            if line.find(b":") < 1 or line.endswith(b":"):
                raise ConfigError(f"entry {number} is not `name:password`", where=f"{where}.users_file")
            yield _basic(line)


def _lines(path: Path, where: str) -> tuple[bytes, ...]:
    try:
        lines = tuple(line.strip() for line in path.read_bytes().splitlines() if line.strip())
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error.strerror}", where=where) from None
    if not lines:
        raise ConfigError(f"{str(path)!r} is empty", where=where)
    return lines


def _canonical(authorization: bytes) -> bytes:
    scheme, _, rest = authorization.strip().partition(b" ")
    match scheme.lower():
        case b"bearer":
            return _bearer(rest.strip())
        case b"basic":
            try:
                return _basic(base64.b64decode(rest.strip(), validate=True))
            except binascii.Error:
                return b""
        case _:
            return b""


def _bearer(token: bytes) -> bytes:
    return b"bearer " + token


def _basic(pair: bytes) -> bytes:
    return b"basic " + pair


def _digest(credential: bytes) -> bytes:
    """All digests are equally long: the time of `compare_digest` shows the length of its arguments."""
    return hashlib.sha256(credential).digest()
