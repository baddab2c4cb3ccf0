"""Sets up the command's logging. The library itself only logs to ``proofstream`` and its children."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from proofstream.command.voice import voice

TRACEBACK_HINT = "-vv shows where"
"""Tells a user of the command how to see the traceback of a failure."""

_LEVELS = {-2: logging.ERROR, -1: logging.WARNING, 0: logging.WARNING, 1: logging.INFO, 2: logging.DEBUG}


class _Stderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        voice.say(f"proofstream: {self.format(record)}")


def set_up_logging(*, verbose: int, environ: Mapping[str, str]) -> None:
    """Show proofstream's own log on stderr.

    Args:
        verbose: 0 and -1 for warnings, 1 for info, 2 for everything, -2 for errors only.
        environ: The environment. Its ``PROOFSTREAM_LOG`` may name a level, which holds if `verbose` is 0.
    """
    logger = logging.getLogger("proofstream")
    named = logging.getLevelNamesMapping().get(environ.get("PROOFSTREAM_LOG", "").upper())
    level = _LEVELS[max(-2, min(2, verbose))]
    logger.setLevel(level if named is None or verbose else named)
    logger.handlers = [_Stderr()]
    logger.propagate = False
