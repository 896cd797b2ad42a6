"""What kafka-python raises, by what an operator must do about it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from kafka import codec

from collectors.kafka.client_types import errors

_CODECS = (
    ("snappy", codec.has_snappy, "python-snappy"),
    ("lz4", codec.has_lz4, "lz4"),
    ("zstd", codec.has_zstd, "zstandard"),
)
_ACCESS = (
    errors.AuthorizationError,
    errors.SaslAuthenticationFailedError,
    errors.UnsupportedSaslMechanismError,
    errors.IllegalSaslStateError,
)
_AT_ONCE, _SOON, _LATER = timedelta(seconds=1), timedelta(seconds=15), timedelta(minutes=1)
_PROBE = timedelta(seconds=2)
_DEFAULT_PORT = 9092


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a consumer had to be closed, or could not be opened."""

    problem: str
    """`access`, `codec`, `records` or `client`."""
    reason: str
    retry_after: timedelta
    """How long to wait at least before another consumer is opened."""


class ReopenError(Exception):
    """The consumer must be closed and another one opened at once; the message says why."""


def missing_codecs() -> dict[str, str]:
    """Return the compressions that cannot be read here, and the package that each needs."""
    return {name: package for name, present, package in _CODECS if not present()}


def failure_of(error: Exception) -> Failure | None:
    """Return what `error`, raised by a consumer or while opening one, means; None when the cluster does not answer."""
    name = type(error).__name__
    if isinstance(error, errors.UnsupportedCodecError):
        needed = [f"{codec} needs {package}" for codec, package in missing_codecs().items() if codec in str(error)]
        reason = (
            f"compressed records cannot be read ({', '.join(needed) or 'unknown codec'}); install rag-monitor[kafka]"
        )
        return Failure(problem="codec", reason=reason, retry_after=_LATER)
    if isinstance(error, errors.CorruptRecordError):
        return Failure(problem="records", reason="the checksum of a batch of records is wrong", retry_after=_LATER)
    if isinstance(error, _ACCESS):
        return Failure(problem="access", reason=f"the cluster denies access: {name}", retry_after=_SOON)
    if isinstance(error, errors.RetriableError):
        return None
    return Failure(problem="client", reason=name, retry_after=_AT_ONCE)


def absence_reason(topics: Sequence[str]) -> str:
    """Return what is wrong when the cluster names none of `topics`."""
    if len(topics) == 1:
        return f"topic {topics[0]} does not exist, or the user has no right to see it"
    return f"topics {', '.join(topics)} do not exist, or the user has no right to see them"


def unreachable_reason(servers: Sequence[str], context: ssl.SSLContext | None) -> str | None:
    """Return why none of `servers` can be connected to, as the first one fails; None as soon as one can."""
    reasons = []
    for server in servers:
        reason = _connection_error(server, context)
        if reason is None:
            return None
        reasons.append(reason)
    return reasons[0]


def _connection_error(server: str, context: ssl.SSLContext | None) -> str | None:
    host, _, port = server.rpartition(":")
    if not port.isdecimal():
        host, port = server, str(_DEFAULT_PORT)
    host = host.strip("[]")
    try:
        with socket.create_connection((host, int(port)), timeout=_PROBE.total_seconds()) as connection:
            if context is not None:
                context.wrap_socket(connection, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        return f"the certificate of the broker is not trusted: {error.verify_message}"
    except ssl.SSLError as error:
        return f"the TLS handshake failed: {error.reason}"
    except TimeoutError:
        return "the connection timed out"
    except OSError as error:
        return error.strerror or type(error).__name__
    return None
