"""A certificate authority whose certificates are files."""

from pathlib import Path

import trustme


class Authority:
    """A certificate authority and the files it wrote."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self._ca = folder, trustme.CA()
        self.ca_file = folder / f"{name}-ca.pem"
        self._ca.cert_pem.write_to_path(str(self.ca_file))

    def issue(self, name: str) -> dict[str, str]:
        """Write a certificate for 127.0.0.1 and its key; return the settings that name them."""
        issued = self._ca.issue_cert("127.0.0.1", "localhost")
        cert_file, key_file = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        cert_file.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(str(key_file))
        return {"cert_file": str(cert_file), "key_file": str(key_file)}
