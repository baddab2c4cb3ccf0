"""Checks the files for TLS that variables name, before anything is sent.

The clients would find a wrong one at the first request, and say so in OpenSSL's words or, as with an encrypted key, ask
for a password on the terminal.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from proofstream import ConfigError, safe_text


class TlsFile(msgspec.Struct, frozen=True):
    """A file, and the variable that names it."""

    path: Path
    variable: str


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """Files for TLS: the authority to trust, and our own certificate and key.

    Attributes:
        authority: The authorities' certificates.
        certificate: Our own certificate.
        key: Its key, which may also stand in the certificate's file.
    """

    authority: TlsFile | None = None
    certificate: TlsFile | None = None
    key: TlsFile | None = None

    @property
    def variables(self) -> list[str]:
        """The variables that are set."""
        return [file.variable for file in (self.authority, self.certificate, self.key) if file is not None]

    @property
    def key_path(self) -> Path | None:
        """The file with our key, if we have a certificate."""
        file = self.key or self.certificate
        return None if file is None else file.path


def checked(tls: Tls) -> Tls:
    """Return the files if a connection can use them.

    Raises:
        ConfigError: One of them is missing or unusable, or has no counterpart; the message names the variable.
    """
    for file in (tls.authority, tls.certificate, tls.key):
        if file is not None:
            _check_readable(file)
    if tls.authority is not None:
        _check_authority(tls.authority)
    if tls.certificate is not None:
        _check_pair(tls.certificate, tls.key)
    elif tls.key is not None:
        counterpart = tls.key.variable.replace("CLIENT_KEY", "CLIENT_CERTIFICATE")
        raise ConfigError(f"{tls.key.variable}: a key is of no use without {counterpart}")
    return tls


def _check_readable(file: TlsFile) -> None:
    shown = safe_text(str(file.path))
    if not file.path.exists():
        raise ConfigError(f"{file.variable}: the file {shown} does not exist")
    if not file.path.is_file():
        raise ConfigError(f"{file.variable}: {shown} is not a file")
    try:
        file.path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file.variable}: {shown} cannot be read: {error.strerror}") from None


def _check_authority(file: TlsFile) -> None:
    import ssl  # slow to load, and most receivers' variables name no files

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file.path)
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"{file.variable}: there is no certificate in {safe_text(str(file.path))}") from None


def _check_pair(certificate: TlsFile, key: TlsFile | None) -> None:
    """Check our certificate together with its key."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    is_encrypted = False

    def no_password() -> str:
        nonlocal is_encrypted
        is_encrypted = True
        return ""

    try:
        context.load_cert_chain(certificate.path, None if key is None else key.path, password=no_password)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(_fault_of_pair(certificate, key, error, is_encrypted=is_encrypted)) from None


def _fault_of_pair(certificate: TlsFile, key: TlsFile | None, error: Exception, *, is_encrypted: bool) -> str:
    """Say why a certificate and its key cannot be used."""
    shown = safe_text(str(certificate.path))
    holder = key or certificate
    if is_encrypted:
        return f"{holder.variable}: the key in {safe_text(str(holder.path))} is encrypted; give one without a password"
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        return f"{holder.variable}: the key does not belong to the certificate in {shown}"
    if not _is_certificate(certificate.path):
        return f"{certificate.variable}: there is no certificate in {shown}"
    if key is None:
        counterpart = certificate.variable.replace("CLIENT_CERTIFICATE", "CLIENT_KEY")
        return f"{certificate.variable}: there is no key in {shown}; {counterpart} names its file"
    return f"{key.variable}: there is no key in {safe_text(str(key.path))}"


def _is_certificate(path: Path) -> bool:
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except (ssl.SSLError, ValueError):
        return False
    return True
