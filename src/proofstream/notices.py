"""Says what the user must know even if the application has not set logging up."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

from proofstream.text import LONGEST_LINE, safe_text

_MOST_REMEMBERED = 1000

_log = logging.getLogger("proofstream")
_said: set[str] = set()
"""Lines that this process has said by `warn_once`."""


class LastResort(logging.Handler):
    """Writes warnings to standard error, one line each, where the application gave no handler that would show them.

    Python's own last resort does that only for loggers without any handler, shows less of where a line comes from, and
    lets a producer's text through as it is.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record's message, unless another handler has it. Never raises."""
        with suppress(Exception):  # the stream may be closed; a plugin's arguments may not fit its message
            if not self._is_handled_elsewhere(record.name):
                sys.stderr.write(f"proofstream: {safe_text(record.getMessage(), LONGEST_LINE)}\n")
                sys.stderr.flush()

    def _is_handled_elsewhere(self, name: str) -> bool:
        """Return whether the application has given the logger of this name, or one above it, a handler."""
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(handler is not self and not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


def stay_audible() -> None:
    """Enable our loggers again where the application's configuration has disabled all that it does not name.

    `dictConfig` and `fileConfig` do that by default with loggers that exist already. Nobody means to silence us by it:
    for that, there are levels.
    """
    if _log.disabled:
        for name, logger in list(logging.root.manager.loggerDict.items()):
            if name.partition(".")[0] == _log.name and isinstance(logger, logging.Logger):
                logger.disabled = False


def warn_user(text: str) -> None:
    """Log a line as a warning, on standard error if the application has not set logging up. Never raises."""
    stay_audible()
    with suppress(Exception):  # of an application's handler or filter
        _log.warning("%s", safe_text(text, LONGEST_LINE))


def warn_once(text: str) -> None:
    """Warn the user unless this process has said the same before: a service may open a session for each request."""
    if text not in _said and len(_said) < _MOST_REMEMBERED:
        _said.add(text)
        warn_user(text)
