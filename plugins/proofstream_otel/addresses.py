"""Takes the address of a receiver or a proxy apart, and says why a text cannot be one.

An address may hold a password, so no message quotes one as it is: `without_secrets` does.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

import msgspec

from proofstream import ConfigError, safe_text

SCHEMES = ("http", "https", "grpc", "grpcs")
"""OTLP over HTTP or gRPC, each in plain text and with TLS."""

TLS_SCHEMES = ("https", "grpcs")

_QUOTES = ("'", '"')
_LONGEST_PORT = 65535
_BAD_HOST = re.compile(r"[\s\\<>\"'{}|^`*]|^\.|\.\.")


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A URL that can be one, taken apart.

    Attributes:
        scheme: The scheme, in lower case.
        host: The host's name or number, without brackets.
        port: The port, or None if the URL names none.
        url: The URL without user and password.
        authorization: The value of an Authorization header, from user and password; empty without them.
    """

    scheme: str
    host: str
    port: int | None
    url: str
    authorization: str

    @property
    def uses_tls(self) -> bool:
        """Whether the scheme asks for TLS."""
        return self.scheme in TLS_SCHEMES

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine, where no proxy is asked."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback
        except ValueError:
            return False

    def target(self, default_port: int) -> str:
        """Return host and port as gRPC wants them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port or default_port}"


def parse(url: str, origin: str, schemes: tuple[str, ...] = SCHEMES) -> Address:
    """Take a URL apart.

    Args:
        url: The URL.
        origin: The setting or variable that it came from, for the message.
        schemes: The schemes that it may have.

    Raises:
        ConfigError: It cannot be an address; the message says why, in one line and without secrets.
    """
    fault = fault_of(url, schemes)
    if fault is not None:
        raise ConfigError(f"{origin}: {fault}")
    parts = urlsplit(url)
    userinfo, _, place = parts.netloc.rpartition("@")
    return Address(
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=parts.port,
        url=urlunsplit(parts._replace(netloc=place)),
        authorization=_basic(userinfo),
    )


def fault_of(url: str, schemes: tuple[str, ...] = SCHEMES) -> str | None:
    """Say in one line, without secrets, why a URL cannot be an address; None if it can."""
    shown = _shown(url)
    if url[:1] in _QUOTES or url[-1:] in _QUOTES:
        return f"{shown} has a quotation mark at its end; leave the marks out (some readers of env files keep them)"
    if any(char.isspace() or not char.isprintable() for char in url):
        return f"{shown!r} has white space or control characters in it"
    if "://" not in url:
        return f"{shown!r} has no scheme; write {schemes[0]}://{shown.lstrip('/')}"
    scheme = url.partition("://")[0].lower()
    if scheme not in schemes:
        known = ", ".join(f"{known}://" for known in schemes)
        return f"{shown!r} does not begin with {' or '.join(known.rsplit(', ', 1))}"
    try:
        parts = urlsplit(url)
    except ValueError:
        return f"{shown!r} has brackets that do not enclose an IPv6 address"
    return _fault_of_place(parts, shown)


def _fault_of_place(parts: SplitResult, shown: str) -> str | None:
    """Say why host and port cannot be right; None if they can."""
    place = parts.netloc.rpartition("@")[2]
    if place.count(":") > 1 and not place.startswith("["):
        return f"{shown!r} has an IPv6 address without brackets; write {parts.scheme}://[::1]:4318, for example"
    host = parts.hostname
    if not host:
        return f"{shown!r} has no host"
    try:
        host.encode("idna")
        is_name = not _BAD_HOST.search(host)
    except UnicodeError:
        is_name = False
    if not is_name:
        return f"{shown!r} has a host that is no host's name"
    try:
        fits = parts.port is None or 0 < parts.port <= _LONGEST_PORT
    except ValueError:
        fits = False
    return None if fits else f"{shown!r} has a port that is not a number from 1 to {_LONGEST_PORT}"


def without_secrets(url: str) -> str:
    """Return a URL that can be an address without user, password and query, as one harmless line."""
    parts = urlsplit(url)
    return safe_text(urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")))


def _shown(url: str) -> str:
    """Return the same of a text that need not be a URL: in doubt, more is left out."""
    scheme, mark, rest = url.rpartition("://") if url.count("://") == 1 else ("", "", url)
    place = re.split(r"[?#]", rest.rpartition("@")[2])[0]
    return safe_text(f"{scheme}{mark}{place}")


def _basic(userinfo: str) -> str:
    if not userinfo:
        return ""
    user, _, password = userinfo.partition(":")
    pair = f"{unquote(user)}:{unquote(password)}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"
