"""The interface between the queue and a receiver: one attempt to deliver a request, and the receiver's reply.

The official OTLP exporters do not serve here. They never read the reply, so a partial success looks like a success.
They retry inside `export`, where the deadline of our exit cannot reach. Their clients and transports, which would leave
those decisions to us, are private.
"""

from __future__ import annotations

import socket
import ssl
from typing import Protocol

import msgspec

from proofstream import safe_text
from proofstream_otel.addresses import Address

NO_TLS = "no TLS is spoken there; for plain text the endpoint begins with {scheme}://"
TLS_ONLY = "TLS is spoken there; with TLS the endpoint begins with {scheme}s://"
TRUST = "OTEL_EXPORTER_OTLP_CERTIFICATE names a file with the authority to trust"


OURS = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _CLIENT_KEY name its files"
PERHAPS_OURS = f"if it wants a certificate of ours: {OURS}"

_PROBE_S = 1.0


def speaks_tls(address: Address, default_port: int) -> bool:
    """Return whether a receiver that broke a connection in plain text completes a handshake of TLS instead."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent
    context.set_alpn_protocols(["h2", "http/1.1"])
    place = address.host, address.port or default_port
    try:
        with (
            socket.create_connection(place, _PROBE_S) as plain,
            context.wrap_socket(plain, server_hostname=address.host),
        ):
            return True
    except (OSError, ValueError):
        return False


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one attempt.

    Attributes:
        accepted: Whether the receiver accepted the request.
        reason: Why it did not, or its message if it did, in one harmless line; may be empty.
        retryable: Whether another attempt may be accepted.
        retry_after_s: Seconds that the receiver asks to wait before the next attempt; 0 if it does not ask.
        rejected: Items that it refused to keep although it accepted the request.
        unsupported: Whether it does not know this signal at all.
    """

    accepted: bool
    reason: str = ""
    retryable: bool = False
    retry_after_s: float = 0.0
    rejected: int = 0
    unsupported: bool = False

    def __post_init__(self) -> None:
        """Make the reason safe to log: a receiver writes it."""
        msgspec.structs.force_setattr(self, "reason", safe_text(self.reason))


class Transport(Protocol):
    """A connection to one receiver, for one thread."""

    shown: str
    """The receiver's address, without secrets."""

    def post(self, body: bytes, timeout_s: float) -> Reply:
        """Send one request and wait for the reply, for at most about `timeout_s`. Never raises."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...
