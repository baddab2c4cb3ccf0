"""``--otlp-file DIR``: spans as OTLP JSON lines, which a Collector's ``otlp_json_file`` receiver reads.

A line is one whole ``TracesData`` object with one span, written with one call: a killed process leaves whole lines.
No line is longer than `MAX_LINE_BYTES`, because readers split longer ones and lose them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from proofstream import ConfigError
from proofstream_otel.resources import Resource
from proofstream_otel.safe import Attributes, Value
from proofstream_otel.semconv import SCOPE
from proofstream_otel.spans import SpanEvent, SpanValues, fit

MAX_LINE_BYTES = 512 * 2**10
FILE_NAME = "traces.jsonl"

_KIND_INTERNAL = 1
_STATUS_ERROR = 2
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
_encode = msgspec.json.Encoder().encode


class OtlpFile:
    """The file of one run; one from an earlier run is set aside first."""

    def __init__(self, folder: Path, resource: Resource, *, max_bytes: int, log: logging.Logger) -> None:
        """Open the file.

        Raises:
            ConfigError: The folder or the file cannot be made.
        """
        self._path = folder / FILE_NAME
        self._resource = resource
        self._max_bytes = max_bytes
        self._log = log
        self._owner = os.getpid()
        self._written = 0
        self._lost = 0
        self._size = 0
        self._next = 1
        self._fd: int | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            raise ConfigError(f"otel.file: cannot write to {folder}: {error.strerror}") from None

    def write(self, span: SpanValues) -> None:
        """Append a span. What cannot be written is counted, and said once."""
        if os.getpid() != self._owner:
            return
        try:
            self._append(fit(span, self._line, MAX_LINE_BYTES))
        except OSError as error:
            if not self._lost:
                self._log.warning("traces are being lost: cannot write %s: %s", self._path, error.strerror)
            self._lost += 1
        else:
            self._written += 1

    def counters(self) -> dict[str, int]:
        """Spans written to the file, and spans that could not be."""
        return {"spans_written": self._written, "lost_spans": self._lost}

    def hurry(self) -> None:
        """Do nothing: it never waits."""

    def close(self, timeout_s: float) -> None:
        """Close the file."""
        self._close()
        if self._lost:
            self._log.warning("%d spans could not be written to %s", self._lost, self._path)

    def _line(self, span: SpanValues) -> bytes:
        scope = {"name": SCOPE, "version": self._resource.scope_version}
        resource = {"attributes": _attributes(self._resource.of(span.resource))}
        scope_spans = {"scope": scope, "spans": [_span(span)]}
        return _encode({"resourceSpans": [{"resource": resource, "scopeSpans": [scope_spans]}]}) + b"\n"

    def _append(self, line: bytes) -> None:
        if self._size and self._size + len(line) > self._max_bytes:
            self._close()
        if self._fd is None:
            self._open()
        assert self._fd is not None
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            # Half a line would make the reader lose the next one, too.
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(line)

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> None:
        """Set a file with content aside, and begin a new one."""
        try:
            if self._path.stat().st_size:
                self._path.rename(self._free_path())
        except FileNotFoundError:
            pass
        self._fd = os.open(self._path, _FLAGS, 0o644)
        self._size = os.fstat(self._fd).st_size

    def _free_path(self) -> Path:
        while True:
            aside = self._path.with_name(f"{self._path.stem}-{self._next}{self._path.suffix}")
            if not aside.exists():
                return aside
            self._next += 1


def _span(span: SpanValues) -> dict[str, Any]:
    found: dict[str, Any] = {"traceId": span.trace_id, "spanId": span.span_id}
    if span.trace_state:
        found["traceState"] = span.trace_state
    if span.parent_span_id:
        found["parentSpanId"] = span.parent_span_id
    found |= {
        "flags": span.flags,
        "name": span.name,
        "kind": _KIND_INTERNAL,
        "startTimeUnixNano": str(span.start_unix_nano),
        "endTimeUnixNano": str(span.end_unix_nano),
        "attributes": _attributes(span.attributes),
        "events": [_event(event) for event in span.events],
        "droppedEventsCount": span.dropped_events,
        "links": [{"traceId": link.trace_id, "spanId": link.span_id} for link in span.links],
        "status": {} if span.error is None else {"message": span.error, "code": _STATUS_ERROR},
    }
    return found


def _event(event: SpanEvent) -> dict[str, Any]:
    return {
        "timeUnixNano": str(event.time_unix_nano),
        "name": event.name,
        "attributes": _attributes(event.attributes),
    }


def _attributes(attributes: Attributes) -> list[dict[str, Any]]:
    return [{"key": key, "value": _VALUES[type(value)](value)} for key, value in attributes.items()]


def _array(values: list[Any]) -> dict[str, Any]:
    return {"arrayValue": {"values": [_VALUES[type(value)](value) for value in values]}}


_VALUES: dict[type[Value], Callable[[Any], dict[str, Any]]] = {
    str: lambda value: {"stringValue": value},
    bool: lambda value: {"boolValue": value},
    int: lambda value: {"intValue": str(value)},
    float: lambda value: {"doubleValue": value},
    list: _array,
}
