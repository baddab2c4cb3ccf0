"""Recognises what an input holds instead of events, so that it can be named once and not refused line by line."""

from __future__ import annotations

import re
from typing import NamedTuple


class Form(NamedTuple):
    """A form of data that is not read.

    Attributes:
        name: Its name.
        advice: What to do with it.
    """

    name: str
    advice: str

    @property
    def reason(self) -> str:
        """The reason for which its lines are refused."""
        return f"{self.name}: {self.advice}"


HEAD_BYTES = 4096
"""How much of an input's beginning is looked at."""

# How much of one line is: enough for what a logger writes first, and little enough for patterns that look back.
_JSON_BYTES = 4096
_TEXT_BYTES = 512
# Docker writes these last, behind a line of any length.
_TAIL_BYTES = 256

_RUN = "FILE | proofstream run -"
_EVENTS_ONLY = 'only events are read, one JSON object a line, such as {"LayerEnd":{...}}'

_ARRAY = Form("one JSON array, not one event a line", f"jq -c '.[]' {_RUN}")
_PRETTY = Form("JSON over several lines, not one event a line", f"jq -c . {_RUN}")
_CHROME = Form("a trace in Chrome's format", f"https://ui.perfetto.dev shows it; {_EVENTS_ONLY}")
_TRACING_JSON = Form("JSON of a tracing subscriber", _EVENTS_ONLY)
_TRACING_TEXT = Form("text of a tracing subscriber", _EVENTS_ONLY)
_DOCKER = Form("a line of Docker's json-file log", f"jq -j .log {_RUN}")
_CRI = Form("a line of a Kubernetes (CRI) log", f"cut -d' ' -f4- {_RUN}")
_UTF16 = Form("text in UTF-16, not in UTF-8", f"iconv -f UTF-16 -t UTF-8 {_RUN}")
_UTF32 = Form("text in UTF-32, not in UTF-8", f"iconv -f UTF-32 -t UTF-8 {_RUN}")
_BINARY = Form("binary data, not text", _EVENTS_ONLY)
# By the bytes that show it, and their place.
_PACKED = {
    (b"\xfd7zXZ\0", 0): Form("data compressed with xz", f"xz -dc {_RUN}"),
    (b"1AY&SY", 4): Form("data compressed with bzip2", f"bzip2 -dc {_RUN}"),
    (b"\x04\x22\x4d\x18", 0): Form("data compressed with lz4", f"lz4 -dc {_RUN}"),
    (b"PK\x03\x04", 0): Form("a zip archive", f"unzip -p {_RUN}"),
    (b"7z\xbc\xaf\x27\x1c", 0): Form("a 7z archive", f"7z e -so {_RUN}"),
    (b"ustar", 257): Form("a tar archive", f"tar -xOf {_RUN}"),
    # Where these are unpacked, no line is made of them.
    (b"\x1f\x8b\x08", 0): Form("data compressed with gzip, which is not unpacked here", f"gzip -dc {_RUN}"),
    (b"\x28\xb5\x2f\xfd", 0): Form("data compressed with zstd, which is not unpacked here", f"zstd -dc {_RUN}"),
}
_UTF32_MARKS, _UTF16_MARKS = (b"\xff\xfe\0\0", b"\0\0\xfe\xff"), (b"\xff\xfe", b"\xfe\xff")
# Without a mark: text of our alphabet has a zero in every other byte.
_UTF16_TEXT = re.compile(rb"(?:[\t\n\r -~]\0){2}|(?:\0[\t\n\r -~]){2}")
# ESC is none of them, because it begins a colour.
_CONTROLS = re.compile(rb"[\0-\x07\x0e-\x1a\x1c-\x1f]")

_ARRAY_BEGINS = re.compile(rb"\s*\[\s*(?:[\[{\]]|\Z)")
_OBJECT_BEGINS = re.compile(rb'\s*\{[ \t\r]*(?:"(?:[^"\\\n]|\\.)*"[ \t]*:[ \t]*)?[\[{]?[ \t\r]*(?:\n|\Z)')
_CHROME_OBJECT = re.compile(rb'\s*\{.*"traceEvents"\s*:', re.DOTALL)
_CHROME_EVENT = re.compile(rb'"ph"\s*:\s*"[A-Za-z]"')
# How a line begins that continues JSON of several lines.
_FRAGMENT = re.compile(rb'[\s"\[\]{}]')

_COLOURS = re.compile(rb"\x1b\[[0-9;]*m")
_STAMP = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*"
_LEVEL = rb"(?:TRACE|DEBUG|INFO|WARN|ERROR)"
_STAMPED_LINE = re.compile(rb"\s*\[?%b\s+%b\s" % (_STAMP, _LEVEL))
# Without a time: a target with colons, or the tree of tracing-forest.
_BARE_LINE = re.compile(rb"\s*%b\s+(?:.*\b\w+::[\w:]+: |[^\w\s]*\xe2\x94|.*\[ [^|\]]+ \| [^\]]*%% \])" % _LEVEL)
_JSON_STAMP, _JSON_LEVEL = re.compile(rb'"timestamp"\s*:'), re.compile(rb'"level"\s*:\s*"%b"' % _LEVEL)
_JSON_PLACE = re.compile(rb'"(?:fields|target|span)"\s*:')
_DOCKER_BEGINS = re.compile(rb'\{\s*"log"\s*:\s*"')
_DOCKER_ENDS = re.compile(rb'",\s*"(?:stream|time)"\s*:\s*"')
_CRI_LINE = re.compile(rb"\d{4}-\d\d-\d\dT\S+ std(?:out|err) [FP] ")


def packed_form(head: bytes) -> Form | None:
    """Return the form of data that has no lines to read: packed, or in another encoding. Its first bytes show it."""
    if head.startswith(_UTF32_MARKS):
        return _UTF32
    if head.startswith(_UTF16_MARKS) or _UTF16_TEXT.match(head):
        return _UTF16
    return next((form for (magic, place), form in _PACKED.items() if head.startswith(magic, place)), None)


def is_binary(head: bytes) -> bool:
    """Return whether data that begins in this way is not text in UTF-8."""
    if _CONTROLS.search(head):
        return True
    try:
        head.decode()
    except UnicodeDecodeError as error:
        # A character may be cut off at the end.
        return error.start < len(head) - 3
    return False


def json_form(head: bytes) -> Form | None:
    """Return the form of JSON that is not written one object a line."""
    if _ARRAY_BEGINS.match(head):
        return _CHROME if _CHROME_EVENT.search(head) else _ARRAY
    if _CHROME_OBJECT.match(head):
        return _CHROME
    return _PRETTY if _OBJECT_BEGINS.match(head) else None


def line_form(line: bytes) -> Form | None:
    """Return the form of one line."""
    if b"\0" in line[:_JSON_BYTES]:
        return _BINARY
    if line.startswith(b"{"):
        return _form_of_object(line)
    if _CRI_LINE.match(line):
        return _CRI
    plain = _COLOURS.sub(b"", line[:_TEXT_BYTES])
    return _TRACING_TEXT if _STAMPED_LINE.match(plain) or _BARE_LINE.match(plain) else None


def _form_of_object(line: bytes) -> Form | None:
    if _DOCKER_BEGINS.match(line) and _DOCKER_ENDS.search(line[-_TAIL_BYTES:]):
        return _DOCKER
    is_tracing = all(pattern.search(line, 0, _JSON_BYTES) for pattern in (_JSON_STAMP, _JSON_LEVEL, _JSON_PLACE))
    return _TRACING_JSON if is_tracing else None


class FormRecogniser:
    """Recognises the forms of the refused lines of one input."""

    def __init__(self) -> None:
        self._head = b""
        self._packed: Form | None = None
        self._json: Form | None = None
        self._is_binary = False
        self._latest: Form | None = None

    @property
    def has_head(self) -> bool:
        """Whether enough of the input's beginning was seen."""
        return len(self._head) >= HEAD_BYTES

    def look_at(self, data: bytes) -> None:
        """Look at the next bytes of the input's beginning."""
        self._head += data[: HEAD_BYTES - len(self._head)]
        self._packed = packed_form(self._head)
        self._json = json_form(self._head)
        self._is_binary = is_binary(self._head)

    def form_of(self, line: bytes, *, before_events: bool) -> Form | None:
        """Return the form of a refused line, or None.

        Args:
            line: The line, or its beginning.
            before_events: No event has come before it. Then text between lines of a known form is part of that form.
        """
        if self._packed is not None:
            return self._packed
        if self._json is not None:
            if _FRAGMENT.match(line):
                return self._json
            self._json = None
        if before_events and self._is_binary:
            return _BINARY
        found = line_form(line)
        if found is not None:
            self._latest = found
        elif before_events and not line.startswith(b"{"):
            return self._latest
        return found
