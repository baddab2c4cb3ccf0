"""A server of our own, for viewers of this machine: whoever opens it gets everything that it keeps, at any time."""

from __future__ import annotations

import socket

import rerun as rr

from proofstream import ConfigError
from proofstream_rerun.connections import Viewer
from proofstream_rerun.sdk.recording_streams import open_layout

LOOPBACK = "127.0.0.1"
"""Whoever can connect can read everything and write, too, so nobody else's machine is let in."""

USUAL_PORT = 9877
"""Not the port that viewers listen on, 9876: a viewer that is started by itself must not meet us there."""


class Server:
    """Rerun's server within this process.

    It belongs to a stream that never gets a row. That of a recording would be listed as one more, empty recording, so
    it is that of a layout for an application that does not exist, which viewers keep to themselves.

    Attributes:
        viewer: Its address.

    Args:
        port: The port; None for the usual one, or another if that is taken.
        memory: How much it keeps, as Rerun reads it.

    Raises:
        ConfigError: The port is taken.
    """

    def __init__(self, port: int | None, *, memory: str) -> None:
        self.viewer = Viewer(LOOPBACK, _usable_port(port))
        sink = rr.GrpcServerSink(LOOPBACK, self.viewer.port, server_memory_limit=memory)
        self._stream: rr.RecordingStream | None = open_layout("proofstream-server")
        self._stream.set_sinks(sink)

    def streams(self) -> list[rr.RecordingStream]:
        """The stream that it belongs to, while it is open."""
        return [] if self._stream is None else [self._stream]

    def close(self) -> None:
        """End it: viewers keep what they have."""
        self._stream = None


def free_port(usual: int) -> int:
    """The usual port if nobody listens there, else any that is free."""
    for port in (usual, 0):
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((LOOPBACK, port))
            except OSError:
                continue
            return int(tried.getsockname()[1])
    raise ConfigError("rerun: this machine has no free port")


def _usable_port(port: int | None) -> int:
    found = free_port(port or USUAL_PORT)
    if port not in {None, found}:
        raise ConfigError(
            f"rerun: serve:{port} cannot be had: the port is taken or not for everybody",
            hint="name another one, or write serve alone",
        )
    return found
