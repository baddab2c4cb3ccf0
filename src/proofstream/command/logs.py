"""Sets up the command's logging. The library itself only logs to ``proofstream`` and its children."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from proofstream.command.voice import voice
from proofstream.text import safe_text

TRACEBACK_HINT = "-vv shows where"
"""Tells a user of the command how to see the traceback of a failure."""

_LONGEST_LINE = 2000

_log = logging.getLogger("proofstream")
_LEVELS = {-2: logging.ERROR, -1: logging.WARNING, 0: logging.WARNING, 1: logging.INFO, 2: logging.DEBUG}


class _Stderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        voice.say(f"proofstream: {self.format(record)}")


class _Safe(logging.Formatter):
    """Makes a message one safe line, and each line of a traceback safe and indented: it may quote a producer's text."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        return safe_text(super().formatMessage(record), _LONGEST_LINE)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's own name
        return "\n".join(f"  {safe_text(line, _LONGEST_LINE)}" for line in super().formatException(ei).split("\n"))


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
    handler = _Stderr()
    handler.setFormatter(_Safe())
    _log.handlers = [handler]
    _log.propagate = False
