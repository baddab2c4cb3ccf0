"""Listens on local sockets. Each connection is a session of its own."""

from __future__ import annotations

import errno
import ipaddress
import itertools
import os
import re
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from proofstream.contracts import Feed, SourceRequest
from proofstream.errors import SourceError, UsageError
from proofstream.sources.lines import LineReader
from proofstream.sources.listening import Server
from proofstream.sources.pacing import StopFlag
from proofstream.sources.shedding import BulkLines
from proofstream.wire import LineDecoder

# Larger than the number of connections that a burst of provers makes, so that none of them is refused by the system.
_BACKLOG = 512
_TCP = re.compile(r"tcp://(?P<host>\[[^]]+]|[^][:/@?#]+):(?P<port>[^:/?#]+)")
_PORT = re.compile(r"[0-9]{1,5}")
_LARGEST_PORT = 65535
_TCP_EXAMPLE = "for example tcp://127.0.0.1:7777"


class _Listener:
    """What both kinds of listening source share."""

    def __init__(self, request: SourceRequest, decoder: LineDecoder, bulk: BulkLines) -> None:
        self._request = request
        self._decoder = decoder
        self._bulk = bulk
        self._stop = StopFlag()

    def stop(self) -> None:
        """Make `run` return soon."""
        self._stop.set()

    def _serve(self, feed: Feed, listener: socket.socket, address: str, name_peer: Callable[[Any], str]) -> None:
        feed.announce(f"listening on {address}")
        Server(
            feed,
            listener,
            address=address,
            name_peer=name_peer,
            make_reader=lambda: LineReader(self._decoder, self._request.max_line_bytes),
            bulk=self._bulk,
            once=self._request.once,
            stopped=lambda: bool(self._stop) or feed.stopping,
        ).serve()


class TcpSource(_Listener):
    """Listens on a port of this machine, at `tcp://HOST:PORT`. Port 0 takes a free one.

    Raises:
        UsageError: The address does not have that form, or is not a loopback address.
    """

    def __init__(self, request: SourceRequest, decoder: LineDecoder, bulk: BulkLines) -> None:
        super().__init__(request, decoder, bulk)
        self._host, self._port = _parse_tcp(request.uri)

    def run(self, feed: Feed) -> None:
        """Listen until stopped.

        Raises:
            SourceError: The address is in use or cannot be bound.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            listener.bind((self._host, self._port))
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            hint = "use another port, or port 0, which takes a free one" if error.errno == errno.EADDRINUSE else None
            raise SourceError(f"cannot listen on {self._request.uri}: {error.strerror}", hint=hint) from error
        self._serve(feed, listener, f"tcp://{_shown(listener.getsockname())}", lambda peer: f"from {_shown(peer)}")


def _shown(address: tuple[Any, ...]) -> str:
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _parse_tcp(uri: str) -> tuple[str, int]:
    parts = _TCP.fullmatch(uri)
    if parts is None:
        raise UsageError(f"{uri}: expected tcp://HOST:PORT", hint=_TCP_EXAMPLE)
    port = parts["port"]
    if not _PORT.fullmatch(port) or int(port) > _LARGEST_PORT:
        raise UsageError(f"{uri}: the port must be a number from 0 to {_LARGEST_PORT}", hint=_TCP_EXAMPLE)
    return _loopback(uri, parts["host"].strip("[]").lower()), int(port)


def _loopback(uri: str, host: str) -> str:
    # Not resolved: the answer might be an address that other machines can reach.
    if host == "localhost":
        return "127.0.0.1"
    with suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return host
    raise UsageError(
        f"{uri}: connections are not authenticated, so only loopback addresses are allowed",
        hint="use 127.0.0.1, localhost or [::1], and a tunnel or an OpenTelemetry Collector between machines",
    )


class UnixSource(_Listener):
    """Listens on a Unix socket, at `unix:PATH`. Replaces a socket that a dead process left there.

    Raises:
        UsageError: The path is missing.
    """

    def __init__(self, request: SourceRequest, decoder: LineDecoder, bulk: BulkLines) -> None:
        super().__init__(request, decoder, bulk)
        if not request.rest:
            raise UsageError(f"{request.uri}: expected unix:PATH")
        self._path = Path(request.rest.removeprefix("//"))

    def run(self, feed: Feed) -> None:
        """Listen until stopped. Removes the socket's file at the end.

        Raises:
            SourceError: Another file is at the path, another process listens there, or the socket cannot be created.
        """
        _clear(self._path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(str(self._path))
            listener.listen(_BACKLOG)
            ours = self._path.stat()
        except OSError as error:
            listener.close()
            raise _no_socket(self._path, error) from error
        try:
            numbers = itertools.count(1)
            self._serve(feed, listener, f"unix:{self._path}", lambda _: f"connection {next(numbers)}")
        finally:
            _remove(self._path, ours)


def _clear(path: Path) -> None:
    """Remove a socket that no process listens on, to make room for ours."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise _no_socket(path, error) from error
    if not stat.S_ISSOCK(mode):
        raise SourceError(f"cannot listen on unix:{path}: it exists and is not a socket", hint="remove it first")
    # Connecting is the only way to tell a dead socket: its file outlives its process.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        result = probe.connect_ex(str(path))
    if result != errno.ECONNREFUSED:
        # EAGAIN: alive, with a full backlog.
        if result in {0, errno.EAGAIN}:
            raise SourceError(f"cannot listen on unix:{path}: another process listens there", hint="use another path")
        raise SourceError(f"cannot listen on unix:{path}: {os.strerror(result)}")
    path.unlink(missing_ok=True)


def _no_socket(path: Path, error: OSError) -> SourceError:
    """Return the error that explains why the socket cannot be created."""
    # Python's own check of the path's length sets no errno.
    if error.errno in (None, errno.ENAMETOOLONG):
        length = len(os.fsencode(path))
        why = f"a socket's path may have about 100 bytes, and this one has {length}"
        return SourceError(f"cannot listen on unix:{path}: {why}", hint="use a shorter path, such as unix:proofs.sock")
    if error.errno == errno.ENOENT:
        return SourceError(f"cannot listen on unix:{path}: there is no folder {path.parent}")
    return SourceError(f"cannot listen on unix:{path}: {error.strerror}")


def _remove(path: Path, ours: os.stat_result) -> None:
    # Only our own file: another process may have replaced it.
    with suppress(OSError):
        if os.path.samestat(path.lstat(), ours):
            path.unlink()
