"""Cuts connections to a peer that accepts but does not read, so that the streams that wait for it can close."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
import termios
from collections.abc import Generator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TypeAlias

from proofstream_rerun.connections import Viewer

Address: TypeAlias = tuple[str, int]

_DESCRIPTORS = Path("/dev/fd")


def addresses_of(viewer: Viewer) -> frozenset[Address]:
    """Return the addresses that a viewer's host name stands for. Looking a name up may take long."""
    with contextlib.suppress(OSError, UnicodeError):
        found = socket.getaddrinfo(viewer.host, viewer.port, type=socket.SOCK_STREAM)
        return frozenset((str(place[0]), int(place[1])) for *_, place in found)
    return frozenset()


def cut_connections(addresses: AbstractSet[Address]) -> int:
    """Shut down this process's connections to any of the addresses, and return how many.

    Rerun offers no call for it: flushing or closing a stream waits for its peer, without a limit. A connection that is
    shut down fails at once on our side, whatever the peer does.
    """
    with _open_connections() as connections:
        found = [each for each in connections if each.getpeername()[:2] in addresses]
        _shut_down(found)
        return len(found)


def cut_guests(address: Address) -> int:
    """Shut down the connections of viewers to a server in this process, and return how many.

    Those that have not read all that was sent to them are cut; all of them, where that cannot be seen.
    """
    with _open_connections() as connections:
        ours = {each.getsockname()[:2] for each in connections if each.getpeername()[:2] == address}
        guests = [
            each for each in connections if each.getsockname()[:2] == address and each.getpeername()[:2] not in ours
        ]
        found = [guest for guest in guests if _has_unsent(guest)] or guests
        _shut_down(found)
        return len(found)


@contextlib.contextmanager
def _open_connections() -> Generator[list[socket.socket]]:
    """Give copies of this process's connections, because their owner may close its own at any moment."""
    with contextlib.ExitStack() as stack:
        connections: list[socket.socket] = []
        # On a system without such a folder nothing is cut, and the streams stay open.
        for descriptor in _DESCRIPTORS.iterdir() if _DESCRIPTORS.is_dir() else ():
            with contextlib.suppress(OSError):  # closed meanwhile, or not connected
                connection = _copy_of(int(descriptor.name))
                if connection is not None:
                    stack.enter_context(connection)
                    connection.getpeername()
                    connections.append(connection)
        yield connections


def _copy_of(descriptor: int) -> socket.socket | None:
    """Return a copy of an internet connection; None for anything else."""
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        return None
    copy = os.dup(descriptor)
    try:
        connection = socket.socket(fileno=copy)
    except OSError:  # the number has come to stand for a file
        os.close(copy)
        raise
    if connection.family in {socket.AF_INET, socket.AF_INET6}:
        return connection
    connection.close()
    return None


def _has_unsent(connection: socket.socket) -> bool:
    """Return whether the kernel holds bytes that the other side has not taken."""
    count = bytearray(4)
    try:
        fcntl.ioctl(connection, termios.TIOCOUTQ, count)
    except OSError:
        return False
    return any(count)


def _shut_down(connections: list[socket.socket]) -> None:
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
