"""Asks an address whether it speaks HTTP/2, which Rerun's protocol is built on.

Rerun's SDK must not connect to an address that does not answer. A closed port blocks it for seconds and leaves a stream
that never delivers; a peer that accepts and stays silent blocks the process forever. A peer that answers this probe in
time is awake. The kernel accepts connections for a suspended process too, so a successful connect proves nothing.
"""

from __future__ import annotations

import contextlib
import enum
import socket
import ssl
import time

from proofstream_rerun.connections import Viewer

# RFC 9113: the client's preface (3.4), then an empty SETTINGS frame (6.5): length 0, type 4, flags 0, stream 0.
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
# A GOAWAY frame (6.8) without an error, so that the peer logs none: length 8, type 7, last stream 0, error 0.
_GOODBYE = b"\x00\x00\x08\x07\x00\x00\x00\x00\x00" + bytes(8)
_FRAME_HEADER = 9
_SETTINGS = 4


class Answer(enum.Enum):
    """The ways in which an address answers. Values complete a message that begins with the address."""

    SPEAKS = "answers"
    """It speaks HTTP/2, so a Rerun viewer or server may be there."""
    SILENT = "accepts connections but stays silent"
    """It accepts, but sends nothing in time: it is suspended, too busy, or not a viewer at all."""
    FOREIGN = "does not answer like a Rerun viewer"
    """It sends something else, or hangs up."""
    ABSENT = "cannot be reached"
    """It does not accept connections, or its name has no address."""


def probe(viewer: Viewer, *, deadline_s: float) -> Answer:
    """Ask an address how it answers. The deadline does not bound the lookup of its name."""
    ends = time.monotonic() + deadline_s
    try:
        peer = socket.create_connection((viewer.host, viewer.port), timeout=deadline_s)
    except (OSError, UnicodeError):  # UnicodeError: a name that cannot be encoded for the lookup
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
