"""What stands before one listener: TLS, credentials, and the count of those who were refused."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.access.credentials import Access
from monitor.access.refusals import Refusals
from monitor.access.tls import Application, Certificates
from monitor.ports import Clock
from monitor.settings.listener import Listener


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The parts, made by `gate`."""

    refusals: Refusals
    access: Access
    certificates: Certificates | None
    """None where nothing is encrypted."""


def gate(listener: Listener, where: str, clock: Clock, *, application: Application = "http/1.1") -> Gate:
    """Return what stands before a listener; `where` names it in errors and the log.

    Raises:
        ConfigError: a file cannot be used.
    """
    refusals = Refusals(where, clock)
    return Gate(
        refusals=refusals,
        access=Access(listener.auth, where, refusals),
        certificates=Certificates(listener.tls, where, application) if listener.tls else None,
    )
