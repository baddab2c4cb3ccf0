"""Says what the user must know even if the application has not set logging up."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

from proofstream.text import safe_text

_LONGEST_NOTICE = 1000
_MOST_REMEMBERED = 1000

_log = logging.getLogger("proofstream")
_said: set[str] = set()
"""Lines that this process has said by `warn_once`."""


def warn_user(text: str) -> None:
    """Log a line as a warning; write it to standard error if no handler would show it. Never raises.

    Our logger has a handler that does nothing, as a library's should. Because of it, Python's own last resort for
    applications without logging does not show our warnings.
    """
    line = safe_text(text, _LONGEST_NOTICE)
    _log.warning("%s", line)
    if _log.isEnabledFor(logging.WARNING) and not _is_handled():
        with suppress(Exception):  # it may be closed, or not exist
            sys.stderr.write(f"proofstream: {line}\n")
            sys.stderr.flush()


def warn_once(text: str) -> None:
    """Warn the user unless this process has said the same before: a service may open a session for each request."""
    if text not in _said and len(_said) < _MOST_REMEMBERED:
        _said.add(text)
        warn_user(text)


def _is_handled() -> bool:
    """Return whether the application has given our logger, or one above it, a handler."""
    logger: logging.Logger | None = _log
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False
