"""TLS of a listener: certificate and key from files that may be renewed while we run, and who may connect."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path

from monitor.errors import ConfigError
from monitor.settings.section import Section

log = logging.getLogger(__name__)


class Tls(Section):
    """Encryption of what is received."""

    cert_file: Path
    """PEM file of our certificate, with its chain."""
    key_file: Path
    """PEM file of its key, without a password."""
    client_ca_file: Path | None = None
    """PEM file of authorities; only clients with a certificate from one of them may connect (mTLS). Null: anybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pems:
    """What the files hold."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None


class Certificates:
    """The files of one listener, read again when they change; where renewed ones are unusable, the previous stay.

    Raises:
        ConfigError: the files cannot be used.
    """

    def __init__(self, tls: Tls, where: str) -> None:
        self._tls, self._where = tls, f"{where}.tls"
        self._stamp = self._stamped()
        self._context, self._pems = self._read()

    @property
    def pems(self) -> Pems:
        """The files in use."""
        return self._pems

    def context(self) -> ssl.SSLContext:
        """Return a context whose every handshake uses the files of that moment."""

        def current(connection: ssl.SSLObject | ssl.SSLSocket, _: str | None, __: ssl.SSLContext) -> None:
            self.renew()
            connection.context = self._context

        outer, _ = self._read()
        outer.sni_callback = current
        return outer

    def renew(self) -> bool:
        """Return whether the files changed since they were last looked at and are in use now."""
        stamp = self._stamped()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self._context, self._pems = self._read()
        except ConfigError as error:
            log.warning("%s; the previous files stay in use", error)
            return False
        log.info("%s: the renewed files are in use now", self._where)
        return True

    def _stamped(self) -> tuple[tuple[int, int], ...]:
        stamps = []
        for path in (self._tls.cert_file, self._tls.key_file, self._tls.client_ca_file):
            if path is not None:
                try:
                    status = path.stat()
                except OSError:
                    stamps.append((0, 0))
                else:
                    stamps.append((status.st_ino, status.st_mtime_ns))
        return tuple(stamps)

    def _read(self) -> tuple[ssl.SSLContext, Pems]:
        tls = self._tls
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
            raise ConfigError(why or "not a PEM file of the kind", where=f"{self._where}: {doing}") from None
        return context, Pems(certificate=certificate, key=key, client_ca=client_ca)
