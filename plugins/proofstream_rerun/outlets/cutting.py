"""Cuts connections to a peer that accepts but does not read, so that the streams that wait for it can close."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
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
    try:
        descriptors = [int(entry.name) for entry in _DESCRIPTORS.iterdir()]
    except OSError:  # a system without such a folder: the streams stay open
        return 0
    return sum(_cut(descriptor, addresses) for descriptor in descriptors)


def _cut(descriptor: int, addresses: AbstractSet[Address]) -> bool:
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
        # On a copy: Rerun may close its own at any moment, and the number may then stand for something else.
        with _copy_of(descriptor) as connection:
            if connection.family not in {socket.AF_INET, socket.AF_INET6}:
                return False
            if tuple(connection.getpeername()[:2]) not in addresses:
                return False
            connection.shutdown(socket.SHUT_RDWR)
            return True
    except OSError:  # closed meanwhile, or not connected
        return False


def _copy_of(descriptor: int) -> socket.socket:
    copy = os.dup(descriptor)
    try:
        return socket.socket(fileno=copy)
    except OSError:  # the number has come to stand for a file
        os.close(copy)
        raise
