"""Who may send: bearer tokens (RFC 6750) and names with passwords (RFC 7617), compared in constant time."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Iterator
from pathlib import Path

from monitor.access.refusals import Refusals
from monitor.errors import ConfigError, Rejected
from monitor.header_fields import problem_of_value
from monitor.settings.listener import Auth
from monitor.settings.renewed_files import RenewedFiles
from monitor.settings.text_file import read_whole

CHALLENGE = b'Bearer, Basic realm="rag-monitor", charset="UTF-8"'
"""What `WWW-Authenticate` says to who is not let in."""
_WHY = "no valid credentials in the Authorization field"


class Access:
    """Lets requests in.

    Args:
        auth: who may send; None for anybody.
        where: the listener, for error messages.
        refusals: is told of those who are not let in.

    Raises:
        ConfigError: a file cannot be read, or names nobody.
    """

    def __init__(self, auth: Auth | None, where: str, refusals: Refusals) -> None:
        self._refusals = refusals
        self._known = _known(auth, f"{where}.auth") if auth else None

    def admit(self, authorization: bytes, peer: str) -> None:
        """Return if a request with this `Authorization` field may come in; b"" when it has none.

        Raises:
            Rejected: it may not (`unauthenticated`).
        """
        if not self.admits(authorization):
            self._refusals.refused("unauthenticated", peer, _WHY)
            raise Rejected(_WHY, reason="unauthenticated")

    def admits(self, authorization: bytes) -> bool:
        """Return whether a request with this `Authorization` field may come in; tells nobody."""
        if self._known is None:
            return True
        presented = _digest(_canonical(authorization))
        # All are compared, so that the time does not tell which one was nearly right.
        return bool(sum([hmac.compare_digest(known, presented) for files in self._known for known in files.content()]))


def _known(auth: Auth, where: str) -> tuple[RenewedFiles[tuple[bytes, ...]], ...]:
    """Return the digests of what lets somebody in. Each file on its own: a broken one keeps no other from changing."""
    known = [RenewedFiles((), lambda: tuple(map(_digest, _written(auth))), where)]
    for file, read, key in ((auth.tokens_file, _tokens, "tokens_file"), (auth.users_file, _users, "users_file")):
        if file is not None:
            known.append(_file_of(file, read, f"{where}.{key}"))
    return tuple(known)


def _file_of(path: Path, read: Callable[[Path, str], Iterator[bytes]], where: str) -> RenewedFiles[tuple[bytes, ...]]:
    return RenewedFiles((path,), lambda: tuple(map(_digest, read(path, where))), where)


def _written(auth: Auth) -> Iterator[bytes]:
    for token in auth.tokens:
        yield _bearer(token.get_secret_value().encode())
    for name, password in auth.users.items():
        yield _basic(f"{name}:{password.get_secret_value()}".encode())


def _tokens(path: Path, where: str) -> Iterator[bytes]:
    for number, line in enumerate(_lines(path, where), 1):
        if problem := problem_of_value(line.decode(errors="replace")):
            raise ConfigError(f"entry {number} {problem}", where=where)
        yield _bearer(line)


def _users(path: Path, where: str) -> Iterator[bytes]:
    for number, line in enumerate(_lines(path, where), 1):
        if line.find(b":") < 1 or line.endswith(b":"):
            raise ConfigError(f"entry {number} is not `name:password`", where=where)
        yield _basic(line)


def _lines(path: Path, where: str) -> tuple[bytes, ...]:
    try:
        lines = tuple(line.strip() for line in read_whole(path).splitlines() if line.strip())
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
