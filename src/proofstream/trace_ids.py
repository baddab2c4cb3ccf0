"""Derives ids of traces from the stream itself, so that every replay gives the same, and tells them to the producer."""

from __future__ import annotations

_TRACE_BYTES = 16


def derived_id(size: int, *parts: str) -> str:
    """Derive an id of `size` bytes from the parts, in hex digits. It is not zero, which OpenTelemetry reserves."""
    import hashlib  # slow to load, and a prover may not need it

    # The length in front, in bytes, keeps ("a", "bc") and ("ab", "c") apart.
    text = "".join([f"{len(part)}:{part}" for part in parts])
    if text.isascii():  # nearly all are, and each interval has an id
        encoded = text.encode()
    else:
        in_bytes = [part.encode("utf-8", "surrogatepass") for part in parts]
        encoded = b"".join([b"%d:%b" % (len(part), part) for part in in_bytes])
    taken = hashlib.sha256(encoded).digest()[:size]
    return taken.hex() if any(taken) else "1".zfill(2 * size)


def session_trace_id(session_id: str) -> str:
    """Return the id of the trace of a session's own span, as 32 hex digits, unless that is part of another's trace."""
    return derived_id(_TRACE_BYTES, session_id, "session trace")


class TraceNote:
    """Says in which trace a session or a proof is. The plugin that makes the trace tells; any thread may read.

    Attributes:
        trace_id: The trace's id, 32 hex digits; None until it is told.
        url: Where the trace can be seen; None if no plugin said that.
    """

    __slots__ = ("trace_id", "url")

    def __init__(self) -> None:
        self.trace_id: str | None = None
        self.url: str | None = None

    def tell(self, trace_id: str, url: str | None = None) -> None:
        """Say which trace it is, and where it can be seen."""
        self.trace_id, self.url = trace_id, url
