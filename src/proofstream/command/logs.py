"""Sets up the command's logging. The library itself only logs to ``proofstream`` and its children."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from proofstream.command.voice import voice

TRACEBACK_HINT = "-vv shows where"
"""Tells a user of the command how to see the traceback of a failure."""

_log = logging.getLogger("proofstream")
_LEVELS = {-2: logging.ERROR, -1: logging.WARNING, 0: logging.WARNING, 1: logging.INFO, 2: logging.DEBUG}


class _Stderr(logging.Handler):
    """Says a message as one line, and a traceback as a line each: both may quote a producer's text."""

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


def set_up_logging(*, verbose: int, environ: Mapping[str, str]) -> None:
    """Show proofstream's own log on stderr.

    Args:
        verbose: 0 and -1 for warnings, 1 for info, 2 for everything, -2 for errors only.
        environ: The environment. Its ``PROOFSTREAM_LOG`` may name a level, which holds if `verbose` is 0.
    """
    named = logging.getLevelNamesMapping().get(environ.get("PROOFSTREAM_LOG", "").upper())
    level = _LEVELS[max(-2, min(2, verbose))]
    _log.setLevel(level if named is None or verbose else named)
    _log.handlers = [_Stderr()]
    _log.propagate = False
