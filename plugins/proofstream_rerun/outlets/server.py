"""Runs our own server, from which viewers on this machine get everything that it keeps, at any time."""

from __future__ import annotations

import socket

import rerun as rr

from proofstream import ConfigError
from proofstream_rerun.connections import Viewer
from proofstream_rerun.sdk.recording_streams import Flushed, flush, open_layout

LOOPBACK = "127.0.0.1"
"""Connections are not authenticated and may also write, so only this machine may connect."""

USUAL_PORT = 9877
"""Not 9876, the port that viewers listen on: a viewer that is started later must find that one free."""


class Server:
    """Rerun's server within this process.

    Rerun ties a server to a stream. A stream of a recording would appear in viewers as an empty recording, so this one
    is a stream of a layout, for an application that does not exist: viewers do not list those. It never gets a row.

    Attributes:
        viewer: Its address.

    Args:
        port: The port; None for the usual one, or any free one if that is taken.
        memory: How much it keeps, in Rerun's notation, such as `256MiB`.

    Raises:
        ConfigError: The port is taken.
    """

    def __init__(self, port: int | None, *, memory: str) -> None:
        self.viewer = Viewer(LOOPBACK, _usable_port(port))
        sink = rr.GrpcServerSink(LOOPBACK, self.viewer.port, server_memory_limit=memory)
        self._stream: rr.RecordingStream | None = open_layout("proofstream-server")
        self._stream.set_sinks(sink)

    def streams(self) -> list[rr.RecordingStream]:
        """Return the stream that the server is tied to, while it is open."""
        return [] if self._stream is None else [self._stream]

    def flush(self, timeout_s: float) -> tuple[Flushed, str]:
        """Flush the server's own stream, which takes long while the server waits for a viewer."""
        return (Flushed.DONE, "") if self._stream is None else flush(self._stream, timeout_s)

    def close(self) -> None:
        """End the server. Viewers keep what they have received."""
        self._stream = None  # Rerun ends the server when the last reference to its stream is gone


def free_port(usual: int) -> int:
    """Return the usual port if it is free, else any free port.

    Raises:
        ConfigError: There is no free port.
    """
    for port in (usual, 0):
        with socket.socket() as tried:
            # Without it, connections of a run that has just ended (TIME_WAIT) would make the port look taken.
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
            f"rerun: serve:{port} is not available: the port is taken or needs privileges",
            hint="name another port, or write serve alone",
        )
    return found
