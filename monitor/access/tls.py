"""TLS of a listener: certificate and key from files that may be renewed while we run, and who may connect."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Literal

from monitor.errors import ConfigError
from monitor.settings.listener import Tls
from monitor.settings.renewed_files import RenewedFiles
from monitor.settings.text_file import read_whole

Application = Literal["http/1.1", "h2"]
"""What is spoken over TLS, by its name in ALPN (RFC 7301)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What the files held at one moment."""

    context: ssl.SSLContext
    client_ca: bytes | None
    """The authorities that clients are trusted by; None for any client."""


class Certificates:
    """The files of one listener, read again when they change. Sessions of before a change are not resumed.

    Raises:
        ConfigError: the files cannot be used.
    """

    def __init__(self, tls: Tls, where: str, application: Application = "http/1.1") -> None:
        where = f"{where}.tls"
        files = [file for file in (tls.cert_file, tls.key_file, tls.client_ca_file) if file is not None]
        self._files = RenewedFiles(files, lambda: _read(tls, where, application), where)

    def now(self) -> Loaded:
        """Return what the files hold now."""
        return self._files.content()

    def trusts(self, client_ca: bytes | None) -> bool:
        """Return whether clients that these authorities vouched for are trusted still."""
        return client_ca is None or client_ca == self.now().client_ca


def _read(tls: Tls, where: str, application: Application) -> Loaded:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([application])
    doing = f"reading cert_file {str(tls.cert_file)!r} and key_file {str(tls.key_file)!r}"
    try:
        # An empty password, so that OpenSSL does not ask for one at the terminal.
        context.load_cert_chain(tls.cert_file, tls.key_file, password=b"")
        client_ca = None
        if tls.client_ca_file is not None:
            doing = f"reading client_ca_file {str(tls.client_ca_file)!r}"
            client_ca = read_whole(tls.client_ca_file)
            context.load_verify_locations(tls.client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
            # A resumed session shows no certificate. Python cannot turn off the resumption by number of TLS 1.2.
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.num_tickets = 0
    except OSError as error:  # of which ssl.SSLError is one
        why = error.reason if isinstance(error, ssl.SSLError) and error.reason else error.strerror
        raise ConfigError(why or "not a PEM file of the kind", where=f"{where}: {doing}") from None
    return Loaded(context=context, client_ca=client_ca)
