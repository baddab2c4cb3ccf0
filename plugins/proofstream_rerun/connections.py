"""Parses connections, the places that recordings go to: `spawn`, `serve`, `file:PATH`, `HOST:PORT` and Rerun's URLs.

It works without Rerun's SDK. A mistyped word is an error, and never becomes the name of a host.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from proofstream import ConfigError

FORMS = "spawn, serve, serve:PORT, file:PATH, HOST:PORT, tcp://HOST:PORT or rerun+http://HOST:PORT/proxy"
"""All forms of a connection, for error messages."""

_WORDS = ("spawn", "serve", "file")
_KNOWN_WORDS = "spawn, serve or file"
_SCHEMES = ("tcp", "rerun+http", "rerun+https", "rerun")
_TLS_SCHEMES = ("rerun", "rerun+https")
_TLS_PORT = 443
_VIEWER_PORT = 9876
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?\.?")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Spawn:
    """A viewer that we start, in a window."""


@dataclass(frozen=True, slots=True)
class Serve:
    """A server in this process, for viewers on this machine.

    Attributes:
        port: Its port; None for the usual port, or any free one if that is taken.
    """

    port: int | None = None


@dataclass(frozen=True, slots=True)
class File:
    """A file for each proof.

    Attributes:
        path: The file of the first proof; the files of later proofs go beside it, as all do if it exists.
    """

    path: Path

    def numbered(self, number: int) -> Path:
        """Return the file of the n-th proof: proof.rrd, proof-2.rrd, proof-3.rrd and so on."""
        return self.path if number == 1 else self.path.with_stem(f"{self.path.stem}-{number}")


@dataclass(frozen=True, slots=True)
class Viewer:
    """A viewer or server that the user starts, before or after us.

    Attributes:
        host: Its name or IP address, without brackets.
        port: Its port.
        tls: Whether the connection uses TLS.
    """

    host: str
    port: int
    tls: bool = False

    @property
    def address(self) -> str:
        """The host and the port, as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL that Rerun's SDK connects to."""
        return f"rerun+{'https' if self.tls else 'http'}://{self.address}/proxy"


Connection = Spawn | Serve | File | Viewer


def parse_connections(texts: Sequence[str]) -> tuple[Connection, ...]:
    """Parse all connections, and keep their order.

    Raises:
        ConfigError: One of them is malformed, or two of them name the same place.
    """
    parsed: dict[Connection, str] = {}
    for text in texts:
        connection = parse_connection(text)
        place = _place(connection)
        if place in parsed:
            also = f", as {parsed[place]!r} does" if parsed[place] != text else ""
            raise ConfigError(f"rerun: {text!r} names a place that was named before{also}", hint="name it once")
        parsed[place] = text
    return tuple(parsed)


def parse_connection(text: str) -> Connection:
    """Parse one connection.

    Raises:
        ConfigError: It is malformed; the message says why, and the hint what to write.
    """
    asked = text.strip()
    if not asked:
        raise _mistake(text, "it is empty")
    word, colon, rest = asked.partition(":")
    read = _READERS.get(word)
    if read is not None:
        return read(text, rest if colon else None)
    if rest.startswith("//"):
        return _parse_url(text, word, rest.removeprefix("//"))
    if not colon and asked.lower().endswith(".rrd"):
        raise _mistake(text, "a file is named by file:PATH", hint=f"write file:{asked}")
    return _parse_address(text, asked)


def check_files(connections: Sequence[Connection]) -> None:
    """Check that the files of `file:` connections can be written.

    Raises:
        ConfigError: A path is a folder or a device, its folder is missing, or we lack the permission to write.
    """
    for connection in connections:
        if isinstance(connection, File):
            try:
                _check_file(connection)
            except OSError as error:
                raise ConfigError(f"rerun: file:{connection.path}: {error.strerror}", hint="name another one") from None


def check_switch(environ: Mapping[str, str]) -> None:
    """Check that the environment does not switch Rerun off, because the SDK would then ignore every call.

    Raises:
        ConfigError: The variable RERUN switches it off.
    """
    value = environ.get("RERUN", "")
    if value.lower() in {"0", "false", "off"}:
        raise ConfigError(f"rerun: RERUN={value} in the environment switches Rerun off", hint="unset RERUN")


def _check_file(file: File) -> None:
    path = file.path
    if path.is_dir():
        raise ConfigError(f"rerun: file:{path} is a folder", hint=f"name a file in it: file:{path / 'proof.rrd'}")
    if path.exists() and not path.is_file():
        # Rerun would block the process until something reads from the pipe.
        raise ConfigError(f"rerun: file:{path} is a pipe or a device", hint="name a file")
    if not path.parent.is_dir():
        raise ConfigError(f"rerun: file:{path}: there is no folder {path.parent}", hint="make it first")
    if not os.access(path.parent, os.W_OK):  # an existing file is never opened: a new one is created
        raise ConfigError(f"rerun: file:{path} may not be written", hint="name another one")


def _place(connection: Connection) -> Connection:
    """Return the connection with its file's folder resolved, so that two spellings of one place are equal.

    The file itself is not resolved: a link is a name in use, and its target is not ours to replace.
    """
    if not isinstance(connection, File):
        return connection
    return File(connection.path.parent.resolve() / connection.path.name)


def _mistake(text: str, problem: str, *, hint: str | None = None) -> ConfigError:
    return ConfigError(f"rerun: {text!r} is not a connection: {problem}", hint=hint or f"write {FORMS}")


def _read_spawn(text: str, rest: str | None) -> Connection:
    if rest is not None:
        raise _mistake(text, "spawn stands alone", hint="write spawn, or HOST:PORT for a viewer that is running")
    return Spawn()


def _read_serve(text: str, rest: str | None) -> Connection:
    if rest is None:
        return Serve()
    return Serve(_port(text, rest, example="serve:9877"))


def _read_file(text: str, rest: str | None) -> Connection:
    if not rest or rest != rest.strip():
        raise _mistake(text, "it names no file", hint="write file:proof.rrd")
    if rest.startswith("//"):
        raise _mistake(text, "a path stands right after file:", hint=f"write file:/{rest.lstrip('/')}")
    try:
        path = Path(rest).expanduser()
    except RuntimeError as error:
        raise _mistake(text, str(error)) from None
    if not path.name:
        raise _mistake(text, "it names no file", hint=f"write file:{path / 'proof.rrd'}")
    return File(path)


_READERS: dict[str, Callable[[str, str | None], Connection]] = {
    "spawn": _read_spawn,
    "serve": _read_serve,
    "file": _read_file,
}


def _parse_url(text: str, scheme: str, rest: str) -> Viewer:
    if scheme in {"http", "https"}:
        raise _mistake(text, f"{scheme}:// is not a scheme of Rerun", hint=f"write rerun+{scheme}://{rest}")
    if scheme not in _SCHEMES:
        raise _mistake(text, f"{scheme}:// is not a known scheme")
    authority, _, path = rest.partition("/")
    if path not in {"", "proxy"} or (path and scheme == "tcp"):
        raise _mistake(text, f"/{path} is not a known path", hint=f"leave /{path} out")
    tls = scheme in _TLS_SCHEMES
    host, port = _split_host(text, authority)
    if port is None and tls:
        return Viewer(host, _TLS_PORT, tls=True)
    return Viewer(host, _port(text, port, example=f"{scheme}://{Viewer(host, _VIEWER_PORT).address}"), tls=tls)


def _parse_address(text: str, asked: str) -> Viewer:
    host, port = _split_host(text, asked)
    # 0.7 catches one wrong letter, or two swapped ones, in words this short.
    meant = difflib.get_close_matches(host.lower(), _WORDS, n=1, cutoff=0.7)
    if meant:
        raise _mistake(text, f"{host} is not {_KNOWN_WORDS}", hint=_suggestion(meant[0], host, port))
    if port is None:
        hint = f"write {Viewer(host, _VIEWER_PORT).address} for a viewer there"
        raise _mistake(text, f"it is not {_KNOWN_WORDS}, and has no port", hint=hint)
    return Viewer(host, _port(text, port, example=Viewer(host, _VIEWER_PORT).address))


def _suggestion(word: str, host: str, port: str | None) -> str:
    likely = f"did you mean {word}{':' + port if port and word != 'spawn' else ''}?"
    return likely if port is None or not port.isdecimal() else f"{likely} A host of that name is tcp://{host}:{port}"


def _split_host(text: str, authority: str) -> tuple[str, str | None]:
    """Split an authority into its host and the text after the colon; None without a colon."""
    if authority.startswith("["):
        host, bracket, port = authority[1:].partition("]")
        if not bracket or not _is_address(host, ipaddress.IPv6Address) or (port and not port.startswith(":")):
            raise _mistake(text, "an IPv6 address is written [ADDRESS]:PORT", hint="write [::1]:9876")
        return host, port[1:] if port else None
    host, colon, port = authority.rpartition(":") if ":" in authority else (authority, "", "")
    if ":" in host:
        raise _mistake(text, "an IPv6 address is written in brackets", hint="write [::1]:9876")
    if not _is_host(host):
        raise _mistake(text, f"{host!r} is not a host name" if host else "it names no host")
    return host, port if colon else None


def _is_host(text: str) -> bool:
    """Return whether this can be a host name or an IPv4 address.

    As in URLs, a host whose last label is a number must be an IPv4 address.
    """
    if _NUMBER.fullmatch(text.removesuffix(".").rpartition(".")[2]):
        return _is_address(text, ipaddress.IPv4Address)
    return _HOST.fullmatch(text) is not None


def _is_address(text: str, kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return "%" not in text  # Rerun does not accept IPv6 zones


def _port(text: str, port: str | None, *, example: str) -> int:
    if not port:
        raise _mistake(text, "it has no port", hint=f"write {example}")
    if not (port.isascii() and port.isdecimal()) or not 1 <= int(port) <= _LAST_PORT:
        raise _mistake(text, f"{port!r} is not a port", hint=f"a port is a number from 1 to {_LAST_PORT}")
    return int(port)
