"""Sets up the command's logging. The library itself only logs to ``proofstream`` and its children."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from proofstream.command.voice import voice
from proofstream.text import safe_text

TRACEBACK_HINT = "--traceback shows where"
"""Tells a user of the command how to see the traceback of a failure."""

_log = logging.getLogger("proofstream")
_LEVELS = {-2: logging.ERROR, -1: logging.WARNING, 0: logging.WARNING, 1: logging.INFO, 2: logging.DEBUG}


class _Stderr(logging.Handler):
    """Says a message as one line, and a traceback as a line each: both may quote a producer's text.

    Args:
        least: The lowest level that is said.
        tracebacks: Whether what has a traceback is said at any level.
    """

    def __init__(self, least: int, *, tracebacks: bool) -> None:
        super().__init__()
        self._least = least
        self._tracebacks = tracebacks

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= self._least or (self._tracebacks and record.exc_info is not None)

    def emit(self, record: logging.LogRecord) -> None:
        for line in _lines(record):
            voice.say(line)


def _lines(record: logging.LogRecord) -> Iterator[str]:
    try:
        yield f"proofstream: {record.getMessage()}"
    except Exception:  # noqa: BLE001 - a third-party plugin's arguments may not fit its message, or not describe themselves
        yield f"proofstream: {record.msg}"
    if record.exc_info:
        for line in logging.Formatter().formatException(record.exc_info).split("\n"):
            yield f"  {line}"


def traceback_hint() -> str:
    """Return how to see the traceback of a failure; nothing where it is logged already."""
    return "" if _log.isEnabledFor(logging.DEBUG) else TRACEBACK_HINT


def set_up_logging(*, verbose: int, tracebacks: bool = False, environ: Mapping[str, str]) -> None:
    """Show proofstream's own log on stderr.

    Args:
        verbose: 0 and -1 for warnings, 1 for info, 2 for everything, -2 for errors only.
        tracebacks: Whether the tracebacks of failures are shown at any of these.
        environ: The environment. Its ``PROOFSTREAM_LOG`` may name a level, which holds if `verbose` is 0.
    """
    said = environ.get("PROOFSTREAM_LOG", "").strip()
    named = logging.getLevelNamesMapping().get(said.upper())
    level = _LEVELS[max(-2, min(2, verbose))] if named is None or verbose else named
    _log.setLevel(logging.DEBUG if tracebacks else level)
    _log.handlers = [_Stderr(level, tracebacks=tracebacks)]
    _log.propagate = False
    if said and named is None:
        _log.warning("PROOFSTREAM_LOG: %r is no level; known are debug, info, warning and error", safe_text(said))
