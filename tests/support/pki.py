"""A certificate authority of our own, with certificates for a server on this machine and for a client."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec

_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Pki(msgspec.Struct, frozen=True):
    """The files, each in PEM.

    Attributes:
        authority: The authority's certificate.
        server: The server's certificate, for localhost, 127.0.0.1 and ::1.
        server_key: Its key.
        client: The client's certificate.
        client_key: Its key.
        encrypted_key: The same key, behind a password.
    """

    authority: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path
    encrypted_key: Path


def make_pki(folder: Path) -> Pki:
    """Make the files with OpenSSL."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=30)

    about = ("-subj", "/CN=authority", "-days", "3650", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    openssl("req", "-x509", *_EC, "-keyout", "ca.key", "-out", "ca.pem", *about)
    (folder / "names").write_text(
        "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n"
    )
    for name in ("server", "client"):
        openssl("req", *_EC, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "3650", "-extfile", "names")
        openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signed)
    openssl("pkey", "-in", "client.key", "-out", "encrypted.key", "-aes256", "-passout", "pass:x")
    names = ("ca.pem", "server.pem", "server.key", "client.pem", "client.key", "encrypted.key")
    return Pki(*(folder / name for name in names))
