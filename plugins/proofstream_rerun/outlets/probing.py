"""Asks whether somebody at an address speaks HTTP/2, which is what Rerun's protocol runs over.

Rerun's SDK must not be let loose on an address where nobody answers: connecting to a closed port blocks for seconds and
leaves a stream that never delivers, and a peer that accepts and stays silent blocks the process for ever. A peer that
answers here within its deadline is awake: one that is stopped lets its kernel accept, and says nothing.
"""

from __future__ import annotations

import contextlib
import enum
import socket
import ssl
import time

from proofstream_rerun.connections import Viewer

# RFC 9113: the client's preface (3.4), then a SETTINGS frame (6.5) that is empty: length 0, type 4, flags 0, stream 0.
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
# A GOAWAY frame (6.8) that says that nothing was wrong: length 8, type 7, last stream 0, error 0.
_GOODBYE = b"\x00\x00\x08\x07\x00\x00\x00\x00\x00" + bytes(8)
_FRAME_HEADER = 9
_SETTINGS = 4


class Answer(enum.Enum):
    """How an address answers."""

    SPEAKS = "answers"
    """It speaks HTTP/2, so a Rerun viewer or server may be there."""
    SILENT = "accepts and says nothing"
    """It accepts, and says nothing in time: it is stopped, or too busy, or something else altogether."""
    FOREIGN = "does not answer as a Rerun viewer does"
    """It says something else."""
    ABSENT = "cannot be reached"
    """Nobody accepts."""


def probe(viewer: Viewer, *, deadline_s: float) -> Answer:
    """Ask an address; looking its name up is not bounded by the deadline."""
    ends = time.monotonic() + deadline_s
    try:
        peer = socket.create_connection((viewer.host, viewer.port), timeout=deadline_s)
    except (OSError, UnicodeError):  # a name that no encoding fits is no name either
        return Answer.ABSENT
    with contextlib.closing(peer):
        try:
            return _greet(_under_tls(peer, viewer) if viewer.tls else peer, ends)
        except TimeoutError:
            return Answer.SILENT
        except OSError:
            return Answer.FOREIGN


def _under_tls(peer: socket.socket, viewer: Viewer) -> socket.socket:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2"])
    return context.wrap_socket(peer, server_hostname=viewer.host)


def _greet(peer: socket.socket, ends: float) -> Answer:
    with contextlib.closing(peer):
        peer.sendall(_HELLO)
        header = b""
        while len(header) < _FRAME_HEADER:
            peer.settimeout(max(ends - time.monotonic(), 0.001))
            more = peer.recv(_FRAME_HEADER - len(header))
            if not more:
                return Answer.FOREIGN
            header += more
        if header[3] != _SETTINGS:
            return Answer.FOREIGN
        with contextlib.suppress(OSError):
            peer.sendall(_GOODBYE)
        return Answer.SPEAKS
