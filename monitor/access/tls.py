"""TLS of a listener: certificate and key from files that may be renewed while we run, and who may connect."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from monitor.access.renewed_files import RenewedFiles
from monitor.errors import ConfigError
from monitor.settings.listener import Tls


@dataclass(frozen=True, slots=True, kw_only=True)
class Pems:
    """What the files hold."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None


class Certificates:
    """The files of one listener, read again when they change.

    Raises:
        ConfigError: the files cannot be used.
    """

    def __init__(self, tls: Tls, where: str) -> None:
        where = f"{where}.tls"
        files = [file for file in (tls.cert_file, tls.key_file, tls.client_ca_file) if file is not None]
        self._files = RenewedFiles(files, lambda: _read(tls, where), where)

    def pems(self) -> Pems:
        """Return what the files hold now."""
        return self._files.content()[1]

    def context(self) -> ssl.SSLContext:
        """Return a context whose every handshake uses the files of that moment."""

        def current(connection: ssl.SSLObject | ssl.SSLSocket, _: str | None, __: ssl.SSLContext) -> None:
            connection.context = self._files.content()[0]

        outer = self._files.content()[0]
        outer.sni_callback = current
        return outer


def _read(tls: Tls, where: str) -> tuple[ssl.SSLContext, Pems]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    doing = f"reading cert_file {str(tls.cert_file)!r} and key_file {str(tls.key_file)!r}"
    try:
        # An empty password, so that OpenSSL does not ask for one at the terminal.
        context.load_cert_chain(tls.cert_file, tls.key_file, password=b"")
        certificate, key = tls.cert_file.read_bytes(), tls.key_file.read_bytes()
        client_ca = None
        if tls.client_ca_file is not None:
            doing = f"reading client_ca_file {str(tls.client_ca_file)!r}"
            context.load_verify_locations(tls.client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
            client_ca = tls.client_ca_file.read_bytes()
    except OSError as error:  # of which ssl.SSLError is one
        why = error.reason if isinstance(error, ssl.SSLError) and error.reason else error.strerror
        raise ConfigError(why or "not a PEM file of the kind", where=f"{where}: {doing}") from None
    return context, Pems(certificate=certificate, key=key, client_ca=client_ca)
