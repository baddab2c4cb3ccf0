"""An OTLP/HTTP receiver that keeps what it is sent, and says afterwards how much that was."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Content(NamedTuple):
    """How much arrived: spans, their events, the attributes of both, and points of metrics as requests."""

    spans: int
    events: int
    span_attributes: int
    event_attributes: int
    trace_bytes: int
    other_requests: int


class Receiver:
    """Answers every request with success.

    Attributes:
        url: Where to send to.
    """

    def __init__(self) -> None:
        self._bodies: list[tuple[str, bytes]] = []
        bodies = self._bodies

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                bodies.append((self.path, gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def forget(self) -> None:
        """Forget what arrived."""
        self._bodies.clear()

    def take(self) -> Content:
        """Return what arrived since the last call, and forget it."""
        bodies = self._bodies[:]
        self._bodies.clear()
        requests = [ExportTraceServiceRequest.FromString(body) for path, body in bodies if path.endswith("/traces")]
        spans = [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        events = [event for span in spans for event in span.events]
        return Content(
            spans=len(spans),
            events=len(events),
            span_attributes=sum(len(span.attributes) for span in spans),
            event_attributes=sum(len(event.attributes) for event in events),
            trace_bytes=sum(len(body) for path, body in bodies if path.endswith("/traces")),
            other_requests=len(bodies) - len(requests),
        )


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver on a free port of the loopback."""
    receiver = Receiver()
    threading.Thread(target=receiver.server.serve_forever, daemon=True).start()
    try:
        yield receiver
    finally:
        receiver.server.shutdown()
        receiver.server.server_close()
