"""Writes the command's messages to standard error without ever blocking: a stalled or closed reader is harmless.

Everything that the command prints there, except a plugin's own output, passes here and is made safe here, once.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from typing import TextIO

from proofstream.text import safe_text

PATIENCE_S = 1.0
"""How long `say` waits for its line to be written. After a line that took longer, it does not wait any more."""

VOICE_THREAD = "proofstream-voice"

LONGEST_LINE = 1000
"""Characters of a line: more help a reader less than they hide what was said before."""

_MOST_WAITING = 1000


class Voice:
    """Writes lines one after the other, on a thread of its own. Not for signal handlers, because it takes a lock.

    A line may quote text of producers, receivers, files and plugins, so each passes `safe_text`.
    It looks standard error up for each line, because others may replace it.

    Attributes:
        is_stuck: Whether a line took too long, and is not written yet.
    """

    def __init__(self) -> None:
        self.is_stuck: bool = False
        self._lines: deque[str] = deque()
        self._changed = threading.Condition()
        self._asked = 0
        self._said = 0
        self._left_out = 0
        self._thread: threading.Thread | None = None

    def say(self, line: str) -> None:
        """Write the line; return when that is done, or when it takes too long."""
        self.post(line)
        self.finish()

    def post(self, line: str) -> None:
        """Queue the line and return at once. When too many wait, it is left out and counted."""
        line = safe_text(line, LONGEST_LINE)
        with self._changed:
            if len(self._lines) >= _MOST_WAITING:
                self._asked += not self._left_out  # one line will say how many
                self._left_out += 1
                return
            self._lines.append(line)
            self._asked += 1
            self._changed.notify_all()
            if self._thread is None:
                self._start()

    def finish(self) -> None:
        """Return when everything queued so far is written, or when that takes too long."""
        with self._changed:
            last = self._asked
            if not self.is_stuck:
                self.is_stuck = not self._changed.wait_for(lambda: self._said >= last, PATIENCE_S)

    def _start(self) -> None:
        thread = threading.Thread(target=self._speak, name=VOICE_THREAD, daemon=True)
        try:
            thread.start()
            self._thread = thread
        except RuntimeError:  # the system has no thread left
            while self._lines:
                _write(self._lines.popleft())
                self._said += 1

    def _speak(self) -> None:
        while True:
            _write(self._next_line())
            with self._changed:
                self._said += 1
                self.is_stuck = False
                self._changed.notify_all()

    def _next_line(self) -> str:
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._left_out)
            if self._lines:
                return self._lines.popleft()
            left_out, self._left_out = self._left_out, 0
            return f"proofstream: {left_out} more lines are left out, because standard error did not take them in time"


def _write(line: str) -> None:
    try:
        _write_to(sys.stderr, f"{line}\n")
    except Exception:  # noqa: BLE001 - its reader has gone, or a third-party stream may raise anything; the next may work
        return


def _write_to(stream: TextIO | None, text: str) -> None:
    own = sys.__stderr__
    if own is not None and stream is own:
        # Past the stream's buffer, whose lock a write to a stopped terminal would hold: every thread that prints would
        # wait for it, and so would the end of the interpreter.
        _write_bytes(own.fileno(), text.encode(own.encoding, "backslashreplace"))
    elif stream is not None:
        stream.write(text)
        stream.flush()


def _write_bytes(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


voice: Voice = Voice()
"""The command's voice."""
